"""Models that no run is known of go all the way: they are saved, exported, served and scored without a card by hand."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import CASES, build, dataset
from keras_cases import Batches

from vae_tf import cli, data, distributions, evaluation, export, models, training
from vae_tf.errors import InputError
from vae_tf.programs import evaluate

VAE, IVAE = CASES[1], CASES[5]
IMAGES = ("vae", "linear", (4, 4, 1), "bernoulli", {})


def trained(case, given=None, **options):
    model = build(*case)
    model.compile("sgd", seed=6)
    model.fit(dataset(case[2]) if given is None else given, batch_size=20, verbose=0, **options)
    return model


def test_a_loaded_model_is_exported_as_the_trained_one(tmp_path):
    whole = data.load("synthetic_linear")
    model = trained(IVAE, whole.split("random", "train", 3), steps_per_epoch=2)
    model.save(tmp_path / "model.keras")
    for loaded in (keras.models.load_model(tmp_path / "model.keras"),
                   keras.models.load_model(tmp_path / "model.keras", compile=False)):
        path = loaded.export(tmp_path / "exported/mine")
    assert path == tmp_path / "exported/mine/2"
    card = export.read_card(path, (*export.SCORED, *export.TRAINED_FURTHER))
    assert (card["model"], card["recipe"]["network"], card["steps"], card["recipe"]["seed"]) == (
        "ivae", "mlp_synthetic", 2, 6)
    assert card["data"]["training_examples"] == 40_000 and card["data"]["dtype"] == "float32"
    assert {name: card["recipe"][name] for name in ("dataset", "split", "data_seed", "data_fingerprint")} == {
        "dataset": "synthetic_linear", "split": "random", "data_seed": 3, "data_fingerprint": whole.fingerprint}
    np.testing.assert_allclose([card["u"]["low"], card["u"]["high"]], whole.u_range)
    rows = np.arange(5)
    x, u = whole.images_at(rows), whole.u_at(rows)
    served = tf.saved_model.load(str(path)).signatures      # TensorFlow alone
    mean = model.posterior(x, u).mean()
    np.testing.assert_allclose(served["encode"](x=x, u=u)["mean"], mean, rtol=1e-5)
    np.testing.assert_allclose(served["encode_factors"](x=x, factors=np.float64(whole.factors_at(rows)))["mean"],
                               mean, rtol=1e-4)


def test_steps_are_counted_over_both_loops_and_files(tmp_path):
    ds = dataset((3,))
    model = trained(VAE)                                                # 40 examples in batches of 20
    model.save(tmp_path / "model.keras")
    model = keras.models.load_model(tmp_path / "model.keras")
    model.fit(ds, batch_size=20, epochs=2, verbose=0)
    assert model.describe_origin()["steps"] == 6
    model.compile("adam")
    assert model.describe_origin()["steps"] == 6
    model.fit(ds, batch_size=20, verbose=0)
    model.save(tmp_path / "model.keras")
    assert keras.models.load_model(tmp_path / "model.keras", compile=False).describe_origin()["steps"] == 8


def test_both_loops_and_replicas_note_the_same_data():
    ds = dataset((3,))
    alone, *several = (build(*VAE) for _ in range(3))
    training.fit(alone, ds, keras.optimizers.SGD(), steps=3, batch_size=8, seed=4)
    training.fit_replicas(several, ds, keras.optimizers.SGD(), steps=3, batch_size=8, seeds=[4, 5])
    noted = [model.describe_origin() for model in (alone, *several)]
    assert [each["seed"] for each in noted] == [4, 4, 5] and {each["steps"] for each in noted} == {3}
    assert all(each["data"] == data.describe(ds) == trained(VAE).describe_origin()["data"] for each in noted)


def test_a_model_says_of_all_parts_that_it_saw(tmp_path):
    whole = data.load("synthetic_linear")
    model = trained(VAE, whole.split("random", "test"), steps_per_epoch=1)
    assert model.describe_origin()["data"]["split"] == ""               # the test part is no training part
    model = trained(VAE, whole.split("random", "train"), steps_per_epoch=1)
    model.fit(whole.split("random", "train"), steps_per_epoch=1, verbose=0)
    assert model.describe_origin()["data"]["split"] == "random"
    assert "before" not in model.describe_origin()
    seen = [{"dataset": whole.name, "data_seed": seed, "split": "random", "data_fingerprint": whole.fingerprint}
            for seed in (0, 1)]
    for seed, before in (1, seen[:1]), (0, seen[::-1]):
        model.fit(whole.split("random", "train", seed), steps_per_epoch=1, verbose=0)
        origin = model.describe_origin()
        assert origin["before"] == before and (origin["data"]["split"], origin["data"]["data_seed"]) == ("random", seed)
    card = export.read_card(model.export(tmp_path / "both"))
    assert sorted(each["data_seed"] for each in export.list_trainings(card)) == [0, 1]
    model = build(*VAE)
    model.note_steps(2)                                                 # of a loop that does not say what it was given
    model.note_data(data.describe(whole.split("random", "train")), 0)
    assert model.describe_origin()["before"] == [{"dataset": "", "data_seed": 0, "split": "", "data_fingerprint": ""}]


def test_images_of_any_origin_are_exported(tmp_path):
    ds = dataset((4, 4, 1))
    x = ds.images_at(np.arange(len(ds)))
    forms = {"arrays": x, "floats": x / np.float32(255), "tf.data": tf.data.Dataset.from_tensor_slices(x).batch(20)}
    models_of = {form: trained(IMAGES, given) for form, given in forms.items()}
    assert {form: model.describe_origin()["dark"] for form, model in models_of.items()} == {
        "arrays": False, "floats": False, "tf.data": True}              # a stream cannot be looked at twice
    dark = np.concatenate([np.zeros_like(x[:1]), x[1:]])
    assert trained(IMAGES, dark).describe_origin()["dark"] and not trained(IMAGES).describe_origin()["dark"]
    rounded = trained(IMAGES, np.nextafter(x / np.float32(255), np.float32(2)))     # 1 becomes 1.0000001
    assert export.read_card(rounded.export(tmp_path / "rounded"), ("data.dtype",))
    card = export.read_card(models_of["floats"].export(tmp_path / "floats"), export.SCORED)
    assert card["refuses_dark_batches"] and card["data"]["dtype"] == "uint8" and card["recipe"]["dataset"] == ""
    card = export.read_card(build(*IMAGES).export(tmp_path / "untrained"), export.SCORED)
    assert card["steps"] == 0 and not card["refuses_dark_batches"]


def own_model():
    """A VAE of somebody's own networks: the encoder shares a layer, and the decoder is a Sequential."""
    shared = keras.layers.Dense(3, "relu")
    x = keras.Input((3,))
    h = keras.layers.Dropout(0.1)(shared(shared(x)))
    encoder = keras.Model(x, [keras.layers.Dense(2)(h), keras.layers.Dense(2)(h)])
    decoder = keras.Sequential([keras.Input((2,)), keras.layers.Dense(4, "gelu"), keras.layers.Dense(3)])
    return models.VAE(encoder, decoder, distributions.Likelihood("gaussian_learned", 0.5))


def test_arrays_and_own_networks_are_scored_as_soon_as_the_data_are_named(tmp_path):
    model, whole = own_model(), data.load("synthetic_linear")
    model.compile("adam")
    model.fit(whole.images_at(np.arange(100)), batch_size=10, verbose=0)
    path = model.export(tmp_path / "own")
    card = export.read_card(path, export.SCORED)
    assert (card["recipe"]["network"], card["recipe"]["parameters"]) == ("own networks", 12 + 16 + 27 + 1)
    assert card["likelihood_variance"] == pytest.approx(0.5, rel=0.1)
    with pytest.raises(InputError, match=r"^--dataset: the model's card does not say what it was"):
        evaluate.choose_test_part(card, cli.DataRequest())
    dataset, settings, words = evaluate.choose_test_part(card, cli.DataRequest("synthetic_linear"))
    assert words.endswith("training may have seen any: the model's card does not say all that it was trained on")
    scored = evaluation.evaluate(export.load(path), dataset, ["mcc"], examples=50)
    assert 0 <= scored.results["mcc"].score <= 1 and settings["trained_on"] is None


class Subclassed(keras.Model):
    """A Keras model that does not know its inputs."""


X, Z = keras.Input((3,)), keras.Input((2,))
HEADS = [keras.layers.Dense(2)(X), keras.layers.Dense(2)(X)]
ENCODER, DECODER = keras.Model(X, HEADS), keras.Model(Z, keras.layers.Dense(3)(Z))


@pytest.mark.parametrize("argument, encoder, decoder", [
    ("encoder", Subclassed(), DECODER), ("decoder", ENCODER, Subclassed()),
    ("encoder", keras.Model(X, HEADS[0]), DECODER),
    ("encoder", keras.Model(X, [HEADS[0], keras.layers.Dense(3)(X)]), DECODER),
    ("decoder", ENCODER, keras.Model(Z, keras.layers.Dense(1)(Z))),         # would be broadcast over x
    ("decoder", ENCODER, keras.Model([Z, X], keras.layers.Dense(3)(Z))),
    ("decoder", ENCODER, keras.Model(Z, keras.layers.Dense(3, dtype="float64")(Z))),
    ("decoder", ENCODER, keras.Model(Z, [keras.layers.Dense(3)(Z)] * 2)),
    ("decoder", ENCODER, keras.Model(Z, {"x": keras.layers.Dense(3)(Z)})),
    ("decoder", ENCODER, keras.Model({"z": Z}, keras.layers.Dense(3)(Z))),
    ("encoder", keras.Model(X, dict(zip(("mean", "log_variance"), HEADS, strict=True))), DECODER),
    ("encoder", keras.Model({"x": X, "u": keras.Input((3,))}, HEADS), DECODER),     # u would be taken for x
    ("encoder", keras.Model([X, Z, keras.Input((1,))], HEADS), DECODER),
    ("encoder", keras.Model(X, [keras.layers.RepeatVector(4)(head) for head in HEADS]), DECODER)])
def test_networks_that_do_not_fit_together_are_named(argument, encoder, decoder):
    with pytest.raises(InputError, match=rf"^{argument}: expected [^\n]*; got [^\n]*$"):
        models.VAE(encoder, decoder, distributions.Likelihood("gaussian"))


def test_a_network_that_does_not_know_its_inputs_is_told_the_way_out():
    class Doubled(keras.Model):
        def call(self, z):
            return keras.ops.concatenate([z, z], -1)[:, :3]

    x, decoder, likelihood = keras.Input((2,)), Doubled(), distributions.Likelihood("gaussian")
    with pytest.raises(InputError, match=r"; make one by x = .*; decoder = keras\.Model\(x, decoder\(x\)\)$"):
        models.VAE(ENCODER, decoder, likelihood)
    assert models.VAE(ENCODER, keras.Model(x, decoder(x)), likelihood).latents == 2


def save_with_wide_u(model, folder, **options):
    """The model takes u of size 2, and the dataset has u of size 3."""
    wide = data.from_arrays("mine", np.zeros((8, 3), np.float32), **options)
    export.save(folder, model, wide, {"model": "ivae", "u_size": 2})


THREES = np.full((8, 4, 4, 1), 3.0)


@pytest.mark.parametrize("argument, case, export_it", [
    ("format", VAE, lambda model, folder: model.export(folder, "onnx")),
    ("data", VAE, lambda model, folder: model.export(folder, data=dataset((4,)))),
    ("data", VAE, lambda model, folder: model.export(folder, data=np.zeros((8, 3)))),
    ("data", VAE, lambda model, folder: model.export(folder, data="mine.npz")),
    ("data", IVAE, lambda model, folder: model.export(folder, data=data.from_arrays("x", np.zeros((9, 3))))),
    ("dataset", IVAE, lambda model, folder: save_with_wide_u(model, folder, u=np.zeros((8, 3), np.float32))),
    ("dataset", IVAE, lambda model, folder: save_with_wide_u(
        model, folder, values=np.eye(8, 3, dtype=int), factors=[data.Factor(name, 2, "ordinal") for name in "abc"])),
    *(("data", ("vae", "mlp_mnist", (4, 4, 1), "gaussian", {}), lambda model, folder, loop=loop, given=given: (
        model.compile("sgd"), getattr(model, loop)(given), model.export(folder)))
      for loop, given in (("fit", THREES), ("fit", tf.constant(THREES)), ("fit", Batches(THREES)),
                          ("fit", tf.data.Dataset.from_tensor_slices(THREES).batch(4)), ("train_on_batch", THREES)))])
def test_what_cannot_be_exported_is_refused_and_nothing_is_written(tmp_path, argument, case, export_it):
    with pytest.raises(InputError, match=rf"^{argument}: expected [^\n]*$"):
        export_it(build(*case), tmp_path / "mine")
    assert not (tmp_path / "mine").exists()
