import functools
import pathlib
import pickle
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import CASES, EXAMPLES, FACTORS, IDS, KINDS, LATENTS, find
from exports import assert_close, saved
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_serving.apis import prediction_log_pb2

from vae_tf import distributions, export, jacobians, models
from vae_tf.errors import InputError

# Indices into CASES. Images have all that vectors have, and two signatures more: of vectors, two kinds are enough.
EVERY_KIND = [*(find(kind, "conv_locatello") for kind in KINDS), find("vae", "mlp_synthetic"),
              find("ivae", "mlp_synthetic")]
# Every other network, but for mlp_dsprites, which is a wide mlp_mnist.
EXPORTED = [*EVERY_KIND, *(index for index, case in enumerate(CASES) if case[4].get("dtype") or case[1] in (
    "linear", "mlp_mnist", "mlp_mixture", "mlp_tcl", "conv_bhowal", "conv_faces"))]
OUTSIDE = (1, 64)               # rows of a batch that a process with TensorFlow alone asks for; 3 are asked for here
SIGNATURES = ["decode", "encode", "encode_factors", "encode_floats", "jacobian", "reconstruct", "sample",
              "serving_default", "traverse"]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """index into CASES -> the model, its data, the folder it was exported to, and it loaded from there."""
    @functools.cache
    def once(index):
        model, data, path = saved(tmp_path_factory.mktemp("exported"), CASES[index])
        return model, data, path, export.load(path)

    return once


@pytest.fixture(scope="module")
def wanted(exported):
    """(index, size) -> {signature: (inputs, what the model in memory makes of them)}."""
    @functools.cache
    def jacobian(index):        # for batches of any size, as tracing takes longer than all else
        model = exported(index)[0]
        z = tf.TensorSpec((None, LATENTS), tf.float32)
        return tf.function(lambda z: jacobians.jacobian(model.likelihood, z), input_signature=[z])

    @functools.cache
    def once(index, size):
        return expected(*exported(index)[:2], jacobian(index), size)

    return once


def tolerance(case):
    """The same kernels on the same numbers: the batch's size and the graph may change their order of summing."""
    return {"rtol": 0.1, "atol": 0.02} if case[4].get("dtype") else {"rtol": 1e-4, "atol": 1e-5}


def expected(model, data, jacobian, size):
    i = np.arange(size) % EXAMPLES
    x, given = data.images_at(i), {"u": data.u_at(i)} if model.u_size else {}
    u, values = given.get("u"), np.float32([-1, 0.5, 2])
    posterior = model.posterior(models.scale_to_unit_range(tf.constant(x)), u)
    encoded = {"mean": posterior.mean()}
    if isinstance(model, models.FullCovarianceVAE):
        encoded["scale_tril"] = posterior.scale_tril
    elif not isinstance(model, models.AE):
        encoded["stddev"] = posterior.stddev()
    if u is not None:
        encoded.update(prior_mean=model.prior(u).mean(), prior_stddev=model.prior(u).stddev())
    z = posterior.mean().numpy()
    decoded = {"mean": model.likelihood(z).mean()}
    if model.likelihood_layer.kind == "bernoulli":
        decoded["logits"] = model.likelihood(z).distribution.logits
    moved = [model.likelihood(np.where(np.arange(LATENTS) == 1, value, z)).mean() for value in values]
    answers = {
        "encode": ({"x": x, **given}, encoded),
        "decode": ({"z": z}, decoded),
        "reconstruct": ({"x": x, **given}, {"mean": model(models.scale_to_unit_range(tf.constant(x)), u)}),
        "traverse": ({"x": x, "latent": np.int32(1), "values": values, **given}, {"images": np.stack(moved, 1)}),
        "jacobian": ({"z": z}, {"jacobian": jacobian(z)}),
    }
    answers["serving_default"] = answers["encode"]
    if data.is_image:
        answers["encode_floats"] = ({"x": x / np.float32(255), **given}, encoded)
    if model.u_size:
        answers["encode_factors"] = ({"x": x, "factors": data.factors_at(i).astype(float)}, encoded)
    if not isinstance(model, models.AE):
        z = (model.prior(u).sample(seed=(7, 0)) if u is not None else model.prior().sample(size, seed=(7, 0)))
        answers["sample"] = ({"n": np.int32(size), "seed": np.int32(7), **given},
                             {"images": model.likelihood(z).mean(), "z": z})
    return answers


@pytest.mark.parametrize("index", EXPORTED, ids=[IDS[index] for index in EXPORTED])
def test_reloaded_equals_the_model(exported, wanted, index):
    model, data, _, loaded = exported(index)
    # Other sizes: in the process outside, and of networks in memory in test_models.
    for name, (inputs, right) in wanted(index, 3).items():
        if name != "serving_default":
            assert_close(getattr(loaded, name)(**inputs), right, tolerance(CASES[index]))
    i = np.arange(3)
    x, u = data.images_at(i), data.u_at(i) if model.u_size else None
    noise, terms = distributions.draw_noise((5, 0), 3, model.noise_size), loaded.objective(x, 5, u)
    for name, term in model.objective(models.scale_to_unit_range(tf.constant(x)), u, noise=noise).items():
        relative = 0.02 if CASES[index][4].get("dtype") else 1e-4
        np.testing.assert_allclose(terms[name], term, rtol=relative, atol=1e-3, err_msg=name)
    posterior, beside = loaded.encode_with_terms(x, 5, u)
    assert_close(posterior, loaded.encode(x, u), tolerance(CASES[index]))
    assert_close(beside, terms, tolerance(CASES[index]))
    assert "encode" not in vars(model)          # that the export gave it for a while


def test_the_objective_encodes_once(exported):
    model, _, path, _ = exported(find("ivae", "conv_locatello"))
    graph = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes()).meta_graphs[0].graph_def
    convolutions = [sum(node.op == "Conv2D" for node in function.node_def) for function in graph.library.function
                    if "_objective_" in function.signature.name]
    assert max(convolutions) == sum(isinstance(layer, keras.layers.Conv2D) for layer in model.encoder.layers) > 1


def test_a_posterior_beside_terms_that_is_not_finite_is_refused(exported):
    index = next(index for index, case in enumerate(CASES) if case[1] == "linear")
    loaded = exported(index)[3]
    x = np.full((2, CASES[index][2][0]), 3e38, np.float32)
    with pytest.raises(InputError, match=r"^encode: \w+ came out NaN, infinite, or 0 .* inputs are too large: x up to"):
        loaded.encode_with_terms(x)


def test_an_export_of_terms_alone_is_encoded_beside_them(exported, monkeypatch):
    """Earlier versions exported no more."""
    _, data, path, _ = exported(find("vae", "mlp_synthetic"))
    loaded, x = export.load(path), data.images_at(np.arange(3))
    posterior, terms = loaded.encode_with_terms(x)
    function = loaded._find_function("objective")
    monkeypatch.setattr(loaded, "_find_function", lambda name: lambda **inputs: {
        key: value for key, value in function(**inputs).items() if not key.startswith("posterior/")})
    again = loaded.encode_with_terms(x)
    assert {*terms} == {"loss", "reconstruction", "kl"}
    for found, expected in zip(again, (posterior, terms), strict=True):
        assert_close(found, expected, {"rtol": 1e-5})


@pytest.mark.parametrize("index", EVERY_KIND, ids=[IDS[index] for index in EVERY_KIND])
def test_samples_come_from_the_prior(exported, index):
    _, data, _, loaded = exported(index)
    case = CASES[index]
    if case[0] == "ae":
        with pytest.raises(InputError, match=r"sample: .* has no such signature, but "):
            loaded.sample(4)
        return
    u = data.u_at(np.arange(1)) if case[0] == "ivae" else None
    one, same, other = (loaded.sample(2_000, seed, u) for seed in (0, 0, 1))
    assert one["images"].shape == (2_000, *case[2]) and one["z"].shape == (2_000, LATENTS)
    np.testing.assert_array_equal(one["z"], same["z"])
    assert not np.array_equal(one["z"], other["z"])
    stddev = loaded.encode(data.images_at(np.arange(1)), u)["prior_stddev"][0] if u is not None else 1
    z = one["z"] / stddev
    assert (np.abs(z.mean(0)) < 5 / np.sqrt(2_000)).all() and (np.abs(z.var(0) - 1) < 5 * np.sqrt(2 / 2_000)).all()


@pytest.fixture(scope="module")
def outside(exported, wanted, tmp_path_factory):
    """What a process with TensorFlow alone answers: {what was asked: answer}; see outside.py."""
    folder = tmp_path_factory.mktemp("outside")
    asked = {(index, name, size): (str(exported(index)[2]), name, inputs)
             for index in EVERY_KIND for size in OUTSIDE
             for name, (inputs, _) in wanted(index, size).items()}
    for index in WRONG_OF:
        _, data, path, _ = exported(index)
        asked.update({(index, name): (str(path), *request) for name, (request, _) in wrong(data).items()})
        asked[index, "after"] = asked[index, "encode", 64]
    path = exported(find("vae", "mlp_synthetic"))[2]
    x = np.random.default_rng(0).standard_normal((32, 3)).astype(np.float32)
    (folder / "asked").write_bytes(pickle.dumps({"requests": list(asked.values()), "many": (str(path), x)}))
    done = subprocess.run([sys.executable, "-I", pathlib.Path(__file__).with_name("outside.py"), "asked", "answers"],
                          cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3_000:]
    answers = pickle.loads((folder / "answers").read_bytes())
    return {**answers, "requests": dict(zip(asked, answers["requests"], strict=True))}


def test_a_process_with_tensorflow_alone_gets_what_the_model_in_memory_gives(exported, wanted, outside):
    assert outside["installed"] == []
    compared = 0
    for index in EVERY_KIND:
        path = exported(index)[2]
        model, _, shape, *_ = CASES[index]
        lacks = {"sample": model == "ae", "encode_factors": model != "ivae", "encode_floats": len(shape) != 3}
        has = [name for name in SIGNATURES if not lacks.get(name)]
        assert outside["signatures"][str(path)] == has
        for size in OUTSIDE:
            for name, (_, right) in wanted(index, size).items():
                assert_close(outside["requests"][index, name, size], right, tolerance(CASES[index]))
                compared += 1
    assert compared == len(OUTSIDE) * (6 * 7 - 1 + 4 + 2)        # without a sample, with floats and factors


WRONG_OF = (find("ivae", "mlp_synthetic"), find("ivae", "conv_locatello"))


def wrong(data):
    """{what is wrong: (signature and inputs, what TensorFlow's error says)}"""
    i = np.arange(2)
    x, u, z = data.images_at(i), data.u_at(i), np.zeros((2, LATENTS), np.float32)
    moved = {"x": x, "u": u, "latent": np.int32(0), "values": np.float32([0])}
    shape = ",".join(map(str, data.shape))
    of_x, nan = rf"tensor x \[.*expected shape \[\?,{shape}\]", "expected finite numbers; got NaN or infinity in"
    cases = {
        "x has another size": (("encode", {"x": x[:, 1:], "u": u}), of_x),
        "x is one example": (("encode", {"x": x[0], "u": u}), of_x),
        "x is a number": (("encode", {"x": x.reshape(-1)[0], "u": u}), of_x),
        "x is too large": (("reconstruct", {"x": np.concatenate([x, x], 1), "u": u}), of_x),
        "u has another size": (("encode", {"x": x, "u": u[:, 1:]}), rf"tensor u \[.*expected shape \[\?,{FACTORS}\]"),
        "u has other rows": (("encode", {"x": x, "u": u[:1]}), "u: expected as many rows as x has"),
        "no u": (("encode", {"x": x}), r"missing a required (keyword-only )?argument: 'u'"),
        "x of another type": (("encode", {"x": x.astype(np.float64), "u": u}),
                              f"input #1.* expected to be a {'uint8' if data.is_image else 'float'} tensor"),
        "something else": (("encode", {"x": x, "u": u, "y": u}), "unexpected keyword argument 'y'"),
        "NaN in u": (("encode", {"x": x, "u": u * np.nan}), f"u: {nan}"),
        "NaN in z": (("decode", {"z": z * np.nan}), f"z: {nan}"),
        "NaN in z of jacobian": (("jacobian", {"z": z * np.nan}), f"z: {nan}"),
        "NaN in values": (("traverse", {**moved, "values": np.float32([np.nan])}), f"values: {nan}"),
        "no such latent": (("traverse", {**moved, "latent": np.int32(LATENTS)}), r"latent: expected 0 to 2; got.*3"),
        "negative latent": (("traverse", {**moved, "latent": np.int32(-1)}), r"latent: expected 0 to 2; got.*-1"),
        "no samples": (("sample", {"n": np.int32(0), "seed": np.int32(0), "u": u}), r"n: expected at least 1; got.*0"),
        "u for other samples": (("sample", {"n": np.int32(3), "seed": np.int32(0), "u": u}), "u: expected 1 row or"),
        "encode nothing": (("encode", {"x": x[:0], "u": u[:0]}), "x: expected at least one row"),
        "reconstruct nothing": (("reconstruct", {"x": x[:0], "u": u[:0]}), "x: expected at least one row"),
        "traverse nothing": (("traverse", {**moved, "x": x[:0], "u": u[:0]}), "x: expected at least one row"),
        "decode nothing": (("decode", {"z": z[:0]}), "z: expected at least one row"),
        "jacobian of nothing": (("jacobian", {"z": z[:0]}), "z: expected at least one row"),
    }
    if not data.is_image:
        cases["NaN in x"] = (("encode", {"x": x * np.nan, "u": u}), f"x: {nan}")
    return cases


def test_wrong_inputs_are_named_and_the_process_lives(exported, wanted, outside):
    for index in WRONG_OF:
        _, data, _, loaded = exported(index)
        for name, (_, message) in wrong(data).items():
            answer = outside["requests"][index, name]
            assert isinstance(answer, str) and re.search(message, answer), (name, answer)
        right = wanted(index, 64)["encode"][1]
        assert_close(outside["requests"][index, "after"], right, tolerance(CASES[index]))
        x, u = data.images_at(np.arange(2)), data.u_at(np.arange(2))
        dtype = "uint8" if data.is_image else "float32"
        for given, message in [((x[:, 1:], u), rf"x: expected {dtype} of shape \(None, .*; got {dtype} of shape \(2, "),
                               ((x.astype(str), u), f"x: expected {dtype} .*got <U"),
                               ((x, u * np.nan), "u: expected finite numbers; got 4 NaN or infinite"),
                               ((x,), r"u: a model of kind ivae takes \[B, 2\]; got none")]:
            with pytest.raises(InputError, match=message):
                loaded.encode(*given)


def test_memory_is_flat_and_nothing_is_traced_in_ten_thousand_requests(outside):
    grown, traced = outside["many"]
    assert traced == 0
    assert grown < 1_000        # kB, 100 bytes per request: whatever a request keeps, a tensor's handle is larger


@pytest.mark.parametrize("index", EVERY_KIND, ids=[IDS[index] for index in EVERY_KIND])
def test_a_server_reads_the_signatures_and_warms_up_with_its_own_classes(exported, wanted, index):
    _, _, path, loaded = exported(index)
    proto = saved_model_pb2.SavedModel.FromString((path / "saved_model.pb").read_bytes())
    graph, = proto.meta_graphs
    assert list(graph.meta_info_def.tags) == ["serve"]
    answers = wanted(index, 1)
    for name, (inputs, outputs) in answers.items():
        signature = graph.signature_def[name]
        assert signature.method_name == "tensorflow/serving/predict"
        for described, arrays in ((signature.inputs, inputs), (signature.outputs, outputs)):
            assert sorted(described) == sorted(arrays)
            for key, array in arrays.items():
                assert tf.dtypes.as_dtype(described[key].dtype) == np.asarray(array).dtype
                free = min(np.ndim(array), 2 if (name, key) == ("traverse", "images") else 1)
                sizes = [dim.size for dim in described[key].tensor_shape.dim]
                assert sizes == [-1] * free + list(np.shape(array)[free:]), (name, key)

    signatures, warmed = loaded._loaded.signatures, []
    records = tf.data.TFRecordDataset(str(path / "assets.extra" / "tf_serving_warmup_requests"))
    for record in records.as_numpy_iterator():
        log = prediction_log_pb2.PredictionLog.FromString(record)
        assert log.WhichOneof("log_type") == "predict_log"
        request = log.predict_log.request
        assert request.model_spec.name == "model"
        name = request.model_spec.signature_name
        outputs = signatures[name](**{key: tf.constant(tf.make_ndarray(value))
                                      for key, value in request.inputs.items()})
        assert all(np.isfinite(value).all() and len(value) == 1 for value in outputs.values())
        warmed.append(name)
    assert sorted(warmed) == sorted(answers)


def test_no_model_and_wrong_u_are_one_clear_line(exported, tmp_path):
    for root in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="expected a folder that holds an exported model"):
            export.load(root)
    _, data, _, loaded = exported(WRONG_OF[0])
    x = data.images_at(np.arange(2))
    with pytest.raises(InputError, match=r"u: a model of kind ivae takes \[B, 2\]; got none"):
        loaded.encode(x)
