"""export.Exported, and what the signatures refuse: each bad call is one line, and good ones go on."""

import json
import pathlib
import pickle
import re
import shutil
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from vae_tf import data, distributions, evaluation, export, models
from vae_tf.errors import InputError
from vae_tf.export import limits

LATENTS, ROWS, SHAPE = 3, 512, (4, 4, 1)
RNG = np.random.default_rng(0)
X = RNG.integers(0, 256, (20, *SHAPE), np.uint8)
FACTORS = np.stack([np.linspace(-3, 5, 20), np.arange(20) % 4], -1)


def images(x=X):
    factors = [data.Factor("size", None, "continuous"), data.Factor("shape", 4, "ordinal")]
    return data.from_arrays("images", x, FACTORS[:len(x)], factors)


def card(model, u_size):
    return {"model": model, "u_size": u_size, "data": {"name": "images", "shape": SHAPE}}


def exported(folder, model="ivae", x=X, **options):
    built = models.build(model, SHAPE, network="linear", latents=LATENTS, u_size=2, seed=1)
    path = export.save(folder, built, images(x), card(model, built.u_size), **options)
    return built, path


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A linear iVAE of 4x4 images whose signatures take 512 rows, as those of a large one, and its folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "BUDGET", 0)
        model, path = exported(tmp_path_factory.mktemp("served") / "model")
    return model, path


@pytest.fixture(scope="module")
def loaded(served):
    return export.load(served[1])


def test_limits_follow_from_what_a_row_takes():
    def of(network, shape, latents=10):
        return limits.compute_limits(models.build("vae", shape, network=network, latents=latents))

    # 2 (16 + 16 + 3) + ... floats would allow more than the bound; 64x64 images through convolutions do not.
    assert of("linear", SHAPE) == {"rows": limits.MOST_ROWS, "jacobian_rows": limits.MOST_ROWS}
    small, large = of("conv_locatello", (64, 64, 1)), of("conv_locatello", (256, 256, 3))
    model = models.build("vae", (64, 64, 1), network="conv_locatello", latents=10)
    floats = sum(np.prod(layer.output.shape[1:]) for layer in model.decoder.layers)
    assert limits.FEWEST_ROWS < small["rows"] < limits.BUDGET / (4 * floats)
    assert small["jacobian_rows"] == small["rows"] // 11 and large["rows"] == limits.FEWEST_ROWS


def in_a_row(first, second):
    return lambda x: second(first(x))


def in_a_model(first, second):
    x = keras.Input((64, 64, 1))
    return keras.Model(x, second(first(x)))


def of_any_size(first, second):
    return keras.Sequential([keras.Input((None, None, 1)), first, second])


@pytest.mark.parametrize("nest", [
    lambda first, second: keras.Sequential([first, second]), in_a_model, of_any_size,
    lambda first, second: keras.Sequential([keras.Sequential([keras.Input((64, 64, 1)), first]), second])])
def test_limits_count_the_layers_of_networks_inside_a_network(nest):
    def compute(nest):
        x, z = keras.Input((64, 64, 1)), keras.Input((2,))
        h = nest(*(keras.layers.Conv2D(channels, 3, padding="same") for channels in (64, 1)))(x)
        outputs = [keras.layers.Dense(2)(keras.layers.Flatten()(h)) for _ in range(2)]
        decoder = keras.Model(z, keras.layers.Reshape((64, 64, 1))(keras.layers.Dense(4096)(z)))
        return limits.compute_limits(models.VAE(keras.Model(x, outputs), decoder,
                                                distributions.Likelihood("bernoulli")))

    flat = compute(in_a_row)
    assert flat["rows"] > limits.FEWEST_ROWS
    # Of a network for images of any size, the outputs' sizes are unknown.
    assert compute(nest) == ({"rows": limits.FEWEST_ROWS, "jacobian_rows": 1} if nest is of_any_size else flat)


def test_floats_and_raw_factors_encode_as_pixels_and_u(served):
    model, path = served
    loaded, dataset, i = export.load(path), images(), np.arange(7)
    x, u = X[:7], dataset.u_at(i)
    wanted = loaded.encode(x, u)
    expected = model.posterior(models.scale_to_unit_range(tf.constant(x)), u).mean()
    np.testing.assert_allclose(wanted["mean"], expected, rtol=1e-5)
    for outputs in (loaded.encode_floats(x / np.float32(255), u), loaded.encode_factors(x, FACTORS[:7])):
        assert sorted(outputs) == sorted(wanted)
        for name, value in wanted.items():
            np.testing.assert_allclose(outputs[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(u, np.stack([(FACTORS[:7, 0] + 3) / 8, FACTORS[:7, 1] / 3], -1), rtol=1e-6)
    assert loaded.card["u"] == {"names": ["size", "shape"], "low": [-3, 0], "high": [5, 3]}
    assert loaded.card["limits"] == {"rows": ROWS, "jacobian_rows": 1}


def test_more_rows_than_a_request_may_have_become_several(served):
    loaded, rows = export.load(served[1]), 2 * ROWS + 3
    z = RNG.standard_normal((rows, LATENTS)).astype(np.float32)
    np.testing.assert_allclose(loaded.decode(z)["mean"], loaded.decoder(tf.constant(z))["mean"], rtol=1e-5, atol=1e-6)
    assert loaded.jacobian(z[:3])["jacobian"].shape == (3, 16, LATENTS)
    x, u, values = X[np.arange(rows) % 20], np.zeros((rows, 2)), np.float32([-1, 0, 1])
    images = loaded.traverse(x, 1, values, u)["images"]
    assert images.shape == (rows, 3, *SHAPE)
    np.testing.assert_allclose(images[-1], loaded.traverse(x[-1:], 1, values, u[-1:])["images"][0], rtol=1e-5)


def test_no_request_is_a_small_rest(served):
    """A last image that is dark would be refused if it were alone in its request."""
    x = np.concatenate([np.full((2 * ROWS, *SHAPE), 200, np.uint8), np.zeros((1, *SHAPE), np.uint8)])
    assert export.load(served[1]).encode(x, np.zeros((len(x), 2)))["mean"].shape == (len(x), LATENTS)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(tmp_path, value):
    built = models.build("vae", SHAPE, network="linear", latents=LATENTS)
    kernel = built.decoder.weights[0]
    kernel.assign(tf.fill(kernel.shape, value))
    with pytest.raises(InputError, match=f"model: expected finite weights; got NaN or infinity in {kernel.path}"):
        export.save(tmp_path / "model", built, images(), card("vae", 0))
    assert not (tmp_path / "model").exists()


U, Z = np.zeros((20, 2)), np.zeros((2, LATENTS))
BAD = {
    "no x": (lambda m: m.encode(None, U), "x: expected uint8 .* NoneType that is no array"),
    "x of words": (lambda m: m.encode("image", U), "x: expected uint8 .*got <U5"),
    "x of floats": (lambda m: m.encode(X / 255, U), "x: .*got float64 .*; floats in .0, 1. go to encode_floats"),
    "x of int64": (lambda m: m.encode(X.astype(int), U), "x: expected uint8 .*got int64"),
    "x of one example": (lambda m: m.encode(X[0], U), r"x: .*got uint8 of shape \(4, 4, 1\)"),
    "x of channels first": (lambda m: m.encode(X.transpose(0, 3, 1, 2), U), r"x: .*got uint8 of shape \(20, 1, 4, 4\)"),
    "masked z": (lambda m: m.decode(np.ma.masked_less(Z, 1)), "z: expected an array without masked values"),
    "x of no rows": (lambda m: m.encode(X[:0], U[:0]), "x: expected at least one row; got none"),
    "dark x": (lambda m: m.encode(X * 0, U), "x: .*got none above 1, .* encode_floats takes"),
    "dark x decoded again": (lambda m: m.reconstruct(X // 128, U), "x: .*got none above 1"),
    "dark x traversed": (lambda m: m.traverse(X // 128, 0, [0.0], U), "x: .*got none above 1"),
    "floats up to 255": (lambda m: m.encode_floats(X.astype(float), U), r"x: expected floats in \[0, 1\]; got 0 to 2"),
    "floats below 0": (lambda m: m.encode_floats(X / 255 - 1, U), r"x: expected floats in \[0, 1\]; got -1"),
    "floats that are NaN": (lambda m: m.encode_floats(X * np.nan, U), "x: expected finite numbers; got 320 NaN"),
    "no u": (lambda m: m.encode(X), r"u: a model of kind ivae takes \[B, 2\]; got none"),
    "u of another size": (lambda m: m.encode(X, U[:, :1]), r"u: expected float32 of shape \(None, 2\)"),
    "u of other rows": (lambda m: m.encode(X, U[:3]), "u: expected as many rows as x has, 20; got 3"),
    "u of several lengths": (lambda m: m.encode(X, [[1], [1, 2]]), "u: .*got a list that is no array of numbers"),
    "u of complex numbers": (lambda m: m.encode(X, U + 1j), "u: expected float32 .*got complex128"),
    "u of truths": (lambda m: m.encode(X, U > 0), "u: expected float32 .*got bool"),
    "u that overflows": (lambda m: m.encode(X, U + 3e38), "encode: .*the inputs are too large: u up to 3e.38"),
    "u beyond float32": (lambda m: m.encode(X, U + 1e300), "u: expected numbers from .*float32 .*got 1e.300"),
    "u without meaning to objective": (lambda m: m.objective(X, 0, None), r"u: a model of kind ivae takes \[B, 2\]"),
    "factors out of range": (lambda m: m.encode_factors(X, FACTORS + np.array([0.5, 0])),
                             r"size in \[-3, 5\], shape in \[0, 3\] as in the data; got from -2.5 0 to 5.5 3"),
    "factors of words": (lambda m: m.encode_factors(X, FACTORS.astype(str)), "factors: expected float64"),
    "z of another size": (lambda m: m.decode(Z[:, :2]), r"z: .*\(None, 3\); got float64 of shape \(2, 2\)"),
    "z of a set": (lambda m: m.decode({1, 2}), "z: .*got a set that is no array"),
    "z that is infinite": (lambda m: m.decode(Z + np.inf), "z: expected finite numbers; got 6 NaN or infinite"),
    "z of no rows": (lambda m: m.jacobian(Z[:0]), "z: expected at least one row"),
    "n below 1": (lambda m: m.sample(0, 0, U[:1]), "n: expected at least 1; got 0"),
    "n negative": (lambda m: m.sample(-5, 0, U[:1]), "n: expected at least 1; got -5"),
    "n too many": (lambda m: m.sample(100_000_000, 0, U[:1]), f"n: expected at most {ROWS}; got 100000000"),
    "n beyond int32": (lambda m: m.sample(2**40, 0, U[:1]), "n: expected numbers from -2147483648 to 2147483647"),
    "n beyond int64": (lambda m: m.sample(2**80, 0, U[:1]), "n: expected int32"),
    "n that is no whole number": (lambda m: m.sample(2.5, 0, U[:1]), "n: expected int32 .*got float64"),
    "n that is true": (lambda m: m.sample(True, 0, U[:1]), "n: expected int32 .*got bool"),
    "n of several": (lambda m: m.sample([1, 2], 0, U[:1]), r"n: .*got int64 of shape \(2,\)"),
    "u of other samples": (lambda m: m.sample(3, 0, U[:2]), "u: expected 1 row or 3; got 2"),
    "a seed that wraps": (lambda m: m.sample(1, 2**40, U[:1]), "seed: expected numbers from .*got 1099511627776"),
    "a seed for objective that wraps": (lambda m: m.objective(X, 2**31, U), "seed: expected numbers from"),
    "no seed": (lambda m: m.sample(1, None, U[:1]), "seed: expected int32"),
    "a latent too high": (lambda m: m.traverse(X, LATENTS, [0.0], U), "latent: expected 0 to 2; got 3"),
    "a latent below 0": (lambda m: m.traverse(X, -1, [0.0], U), "latent: expected 0 to 2; got -1"),
    "a latent by name": (lambda m: m.traverse(X, "z0", [0.0], U), "latent: expected int32 .*got <U2"),
    "no values": (lambda m: m.traverse(X, 0, [], U), "values: expected at least one row"),
    "a single value": (lambda m: m.traverse(X, 0, 1.0, U), r"values: .*got float64 of shape \(\)"),
    "too many values": (lambda m: m.traverse(X, 0, np.zeros(ROWS + 1), U), f"values: expected at most {ROWS} rows"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_calls_are_one_line(loaded, name):
    call, message = BAD[name]
    with pytest.raises(InputError, match=message) as caught:
        call(loaded)
    assert "\n" not in str(caught.value) and "node" not in str(caught.value) and "[[" not in str(caught.value)


# The same through the signatures, in a process that has TensorFlow alone.
ONE = {"x": X[:1], "u": np.zeros((1, 2), np.float32)}
MANY = {"x": X[np.arange(ROWS + 1) % 20], "u": np.zeros((ROWS + 1, 2), np.float32)}
OUTSIDE = {
    "floats cast to black": (("serving_default", {"x": np.float32(X[:1] / 255), "u": ONE["u"]}), "got none above 1"),
    "masks": (("encode", {"x": X[:1] // 128, "u": ONE["u"]}), "got none above 1, as when floats .* encode_floats"),
    "too many samples": (("sample", {"n": np.int32(100_000_000), "seed": np.int32(0), "u": ONE["u"]}),
                         rf"n: expected at most {ROWS}; got\] \[100000000"),
    "too many rows": (("encode", MANY), rf"[xu]: expected at most {ROWS} rows; got\] \[{ROWS + 1}"),
    "too many codes": (("decode", {"z": np.zeros((ROWS + 1, LATENTS), np.float32)}), f"z: expected at most {ROWS}"),
    "too many Jacobians": (("jacobian", {"z": np.zeros((2, LATENTS), np.float32)}), "z: expected at most 1 rows"),
    "too many images": (("traverse", {"x": X, "u": np.zeros((20, 2), np.float32), "latent": np.int32(0),
                                      "values": np.zeros(26, np.float32)}),
                        rf"values: expected at most {ROWS} images, rows of x times values; got\] \[520"),
    "u too large": (("encode", {"x": X[:1], "u": np.full((1, 2), 3e38, np.float32)}), r"too large:\] \[u up to\] \[3e"),
    "factors out of range": (("encode_factors", {"x": X[:1], "factors": np.float64([[6, 0]])}), "as in the data; got"),
}


def test_what_asks_too_much_is_refused_and_the_process_goes_on(served, tmp_path):
    path, after = str(served[1]), ("encode", ONE)
    floats = ("encode_floats", {**ONE, "x": np.float32(X[:1] / 255)})
    asked = [*OUTSIDE.values(), (floats, None), (after, None)]
    (tmp_path / "asked").write_bytes(pickle.dumps({"requests": [(path, *request, False) for request, _ in asked]}))
    done = subprocess.run([sys.executable, "-I", pathlib.Path(__file__).with_name("outside.py"), "asked", "answers"],
                          cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3_000:]
    *answers, of_floats, of_pixels = pickle.loads((tmp_path / "answers").read_bytes())["requests"]
    for (name, (_, message)), answer in zip(OUTSIDE.items(), answers, strict=True):
        assert isinstance(answer, str) and re.search(message, answer), (name, answer)
    np.testing.assert_allclose(of_floats["mean"], of_pixels["mean"], rtol=1e-5, atol=1e-6)
    assert of_pixels["stddev"].shape == (1, LATENTS)


def test_dark_images_are_taken_where_training_had_some_or_the_export_says_so(tmp_path):
    dark = np.concatenate([X[:3], 0 * X[:1]])
    for name, x, options, refuses in [("bright", X, {}, True), ("told", X, {"accept_dark": True}, False),
                                      ("dark", dark, {}, False)]:
        _, path = exported(tmp_path / name, "vae", x, **options)
        loaded = export.load(path)
        assert json.loads((path / export.CARD).read_text())["refuses_dark_batches"] == refuses
        if refuses:
            with pytest.raises(InputError, match="got none above 1"):
                loaded.encode(0 * X[:2])
            assert loaded.encode_floats(np.zeros((2, *SHAPE)))["mean"].shape == (2, LATENTS)
        else:
            assert loaded.encode(0 * X[:2])["mean"].shape == (2, LATENTS)
    assert "encode_factors" not in loaded._loaded.signatures and loaded.card["u"] is None


def test_a_card_without_a_recipe_serves(served, tmp_path):
    path = shutil.copytree(served[1], tmp_path / "1")
    (path / export.CARD).write_text('{"model": "by hand", "u_size": 2}')
    assert export.load(path).encode(X, np.zeros((20, 2)))["mean"].shape == (20, LATENTS)
    with pytest.raises(InputError, match=r"card.json: expected an entry latents; got none; restore"):
        export.read_card(path, export.SCORED)


def test_a_part_of_the_data_is_scored_on_the_scale_of_training(loaded):
    whole, rows = images(), np.arange(5, 12)
    factors = whole.factors
    part = data.from_arrays("part", X[rows], FACTORS[rows], factors)
    i = np.arange(len(rows))
    np.testing.assert_allclose(loaded.u_at(part, i), whole.u_at(rows), atol=1e-6)
    assert np.abs(part.u_at(i) - whole.u_at(rows)).max() > 0.2          # by the range of the part's own factors
    kl = evaluation.evaluate(loaded, part, ("active_units",), examples=len(rows)).results["kl"].score
    np.testing.assert_allclose(kl, loaded.objective(X[rows], 0, whole.u_at(rows))["kl"].mean(), rtol=1e-5)
    sizes = [factor._replace(size=factor.size and 2 * factor.size) for factor in factors]
    wider = data.from_arrays("wider", X[rows], 2 * FACTORS[rows], sizes)
    with pytest.warns(UserWarning, match=r"wider has factors outside .*: shape from 0 to 6 \(in its data 0 to 3\)"):
        evaluation.evaluate(loaded, wider, ("active_units",), examples=len(rows))
    np.testing.assert_allclose(loaded.u_at(wider, i), 2 * whole.u_at(rows) - [3 / 8, 0], atol=1e-6)
    turned = data.from_arrays("turned", X[rows], FACTORS[rows][:, ::-1], factors[::-1])
    with pytest.raises(InputError, match=r"factors size, shape in this order; turned has shape, size"):
        evaluation.evaluate(loaded, turned, ("active_units",))
    given = data.from_arrays("given", X[rows], u=whole.u_at(rows))          # as scaled already
    np.testing.assert_array_equal(loaded.u_at(given, i), whole.u_at(rows))


def test_whole_numbers_with_gaps_have_the_same_u_in_every_file(tmp_path):
    for name, values in (("whole", [10, 20, 50]), ("part", [10, 50])):
        np.savez(tmp_path / f"{name}.npz", data=np.ones((len(values), 3)), factors=values)
    whole, part = (data.load(tmp_path / f"{name}.npz") for name in ("whole", "part"))
    np.testing.assert_allclose(whole.u_at(np.arange(3)), [[0], [0.25], [1]], rtol=1e-6)
    np.testing.assert_allclose(part.u_at(np.arange(2)), [[0], [1]])


@pytest.mark.parametrize(("card", "message"), [
    ("", "it cannot be read .not JSON: Expecting value"),
    ("[1]", "expected a JSON object; got .1."),
    ('{"model": "vae"}', "expected an entry u_size; got none"),
    ('{"model": 3, "u_size": 0}', "expected model to be text; got 3"),
    ('{"model": "vae", "u_size": true}', "expected u_size to be a whole number, 0 or more; got true"),
    ('{"model": "vae", "u_size": 0, "data": []}', r"expected data to be an object; got \[\]"),
    ('{"model": "vae", "u_size": 0, "data": {"shape": "4"}}', 'expected data.shape to be a list of sizes; got "4"'),
    ('{"model": "vae", "u_size": 0, "recipe": {"dataset": null}}', "expected recipe.dataset to be text; got null"),
    ('{"model": "vae", "u_size": 0, "format": 99}', "format 99 is of a newer vae_tf, this one reads 1"),
    ('{"model": "ivae", "u_size": 2, "u": {"names": ["a"]}}', "expected u to have names, low and high of 2 factors"),
    ('{"model": "ivae", "u_size": 2, "u": {}}', "expected u to have names, low and high of 2 factors"),
    ('{"model": "vae", "u_size": 0, "versions": "2.1"}', 'expected versions to be an object; got "2.1"'),
    ('{"model": "vae", "u_size": 0, "data": {"factors": [{"name": 3}]}}', "expected data.factors to be a list"),
    ("[" * 100_000, "it cannot be read"),
    (b"\xff\xfe", "it cannot be read .not JSON"),
    (None, "it cannot be read .No such file"),
])
def test_a_damaged_card_is_one_line(tmp_path, card, message):
    (tmp_path / export.EXTRA).mkdir()
    if card is not None:
        (tmp_path / export.CARD).write_bytes(card if isinstance(card, bytes) else card.encode())
    with pytest.raises(InputError, match=rf"card.json: .*{message}.*; (restore the file|install)") as caught:
        export.read_card(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("spec", "said"), [
    (tf.TensorSpec((None, 3), tf.float32, name="image"), r"^{name}: expected a model with an input [xz]; .* image$"),
    (tf.TensorSpec(None, tf.float32, name="x"), None)])
def test_foreign_models_of_other_inputs(tmp_path, spec, said):
    module = tf.Module()
    for name in ("encode", "decode", "objective"):
        setattr(module, name, tf.function(lambda x: {"mean": x}, input_signature=[spec]))
    tf.saved_model.save(module, str(tmp_path / "1"), signatures={"encode": module.encode})
    (tmp_path / "1" / export.EXTRA).mkdir()
    (tmp_path / "1" / export.CARD).write_text('{"model": "by hand", "u_size": 0, "data": {"shape": [3]}}')
    loaded, x = export.load(tmp_path), np.zeros((2, 3))
    if said:
        for name, call in (("encode", loaded.encode), ("objective", loaded.objective),
                           ("decode", lambda _: loaded.inlined_decoder)):
            with pytest.raises(InputError, match=said.replace("{name}", name)):
                call(x)
        return
    assert loaded.encode(x)["mean"].shape == (2, 3)
    with pytest.raises(InputError, match=r"^x: expected float32 of shape <unknown>; got complex128 of shape"):
        loaded.encode(x + 1j)
