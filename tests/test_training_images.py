"""Pictures while training: they show what the model does, and change nothing."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import build, dataset
from commands import parse
from tensorboard.backend.event_processing import event_accumulator

from vae_tf import cli, data, models, training
from vae_tf.errors import InputError
from vae_tf.training.images import EXAMPLES, PLACES

SHAPE = (6, 6, 1)


def make(seed=0, name="vae"):
    return build(name, "mlp_mnist", SHAPE, "bernoulli", {}, seed)


def fit(model, steps, run_dir=None, **more):
    history = training.fit(model, dataset(SHAPE), keras.optimizers.Adam(1e-2), steps=steps, batch_size=4,
                           run_dir=run_dir, log_every=5, checkpoint_every=4, **more)
    return [{name: value for name, value in row.items() if name != "examples_per_second"} for row in history]


def read(run):
    """{tag: {step: image [H, W, C]}} of the TensorBoard logs of a run."""
    logs = event_accumulator.EventAccumulator(str(run / "tensorboard"))
    logs.Reload()
    found = {}
    for tag in ("reconstructions", "traversals"):
        for event in logs.Tensors(tag):
            found.setdefault(tag, {})[event.step] = tf.io.decode_png(event.tensor_proto.string_val[2]).numpy()
    return found


def test_pictures_show_the_model_and_change_no_number(tmp_path):
    plain, pictured, resumed, further = make(), make(), make(), make()
    history = fit(plain, 7)
    assert fit(pictured, 7, tmp_path / "run", images_every=3) == history
    fit(resumed, 6, tmp_path / "resumed", images_every=3)
    fit(further, 7, tmp_path / "resumed", images_every=3)
    for a, b, c in zip(plain.get_weights(), pictured.get_weights(), further.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    found = read(tmp_path / "run")
    assert {tag: sorted(steps) for tag, steps in found.items()} == {"reconstructions": [3, 6], "traversals": [3, 6]}
    check_pictures(resumed, {tag: steps[6] for tag, steps in found.items()})


def check_pictures(model, found):
    """Hold the pictures of a run against a model of as many steps."""
    x = models.scale_to_unit_range(tf.constant(dataset(SHAPE).images_at(
        data.batches.draw_permutation(len(dataset(SHAPE)), 0, 0)[:EXAMPLES])))
    mean = model.posterior(x).mean().numpy()
    expected = np.concatenate([np.concatenate(list(row), 1) for row in np.reshape(
        np.concatenate([x, model.likelihood(mean).mean()], 0), (2, EXAMPLES, *SHAPE))], 0)
    np.testing.assert_allclose(found["reconstructions"] / 255, expected, atol=1 / 255)
    z = np.tile(mean[0], (PLACES, 1))
    z[:, 1] = np.linspace(-2, 2, PLACES)
    second = np.concatenate(list(model.likelihood(z).mean().numpy()), 1)
    np.testing.assert_allclose(found["traversals"][6:12] / 255, second, atol=1 / 255)


def test_replicas_have_the_pictures_of_a_run_alone(tmp_path):
    alone = make(seed=1, name="ae")
    training.fit(alone, dataset(SHAPE), keras.optimizers.Adam(1e-2), steps=2, batch_size=4, run_dir=tmp_path / "alone",
                 seed=1, images_every=2)
    training.fit_replicas([make(seed, "ae") for seed in (0, 1)], dataset(SHAPE), keras.optimizers.Adam(1e-2), steps=2,
                          batch_size=4, run_dirs=[tmp_path / "0", tmp_path / "1"], seeds=[0, 1], images_every=2)
    for tag, steps in read(tmp_path / "1").items():
        difference = steps[2].astype(int) - read(tmp_path / "alone")[tag][2]
        assert abs(difference).max() <= 1
        assert not np.array_equal(steps[2], read(tmp_path / "0")[tag][2])


def test_data_that_are_no_images_have_no_pictures():
    vectors = dataset((3,))
    with pytest.raises(InputError, match=r"^images_every: expected 0 for data that are no images; got 5$"):
        training.fit(build("vae", "mlp_synthetic", (3,), "gaussian", {}), vectors, keras.optimizers.Adam(), steps=1,
                     batch_size=4, images_every=5)
    values = parse(cli.define_train_flags, "--dataset=circles", "--images_every=5")
    with pytest.raises(InputError, match=r"^--images_every: it has an effect only with images"):
        cli.configure(values, data.load("circles"))
