"""What figures show of a trained model, against the model's own networks and histograms made by hand."""

import itertools

import cases
import numpy as np
import pytest

from vae_tf import data, export, models
from vae_tf.errors import InputError
from vae_tf.experiments import looks, running


def test_looks_of_an_export_are_those_of_its_model(tmp_path):
    dataset = data.load("circles")
    model = models.build("vae", (2,), network="linear", latents=3, likelihood="gaussian")
    export.save(tmp_path, model, dataset, {"model": "vae", "u_size": 0, "data": {"name": "circles", "shape": [2]}})
    loaded, x = export.load(tmp_path), dataset.images_at(np.arange(len(dataset)))
    made = np.asarray(model.likelihood(model.posterior(x).mean()).mean())
    found = looks.show_reconstructions(loaded, dataset)
    assert found["score"] == pytest.approx(np.mean((made[:, 0] - x[:, 0])**2 + (made[:, 1] - x[:, 1])**2), rel=1e-4)
    for label, points in (("data", x), ("reconstruction", made)):
        np.testing.assert_allclose(found["points"][label]["y"], points[::looks.SHOWN, 1], atol=1e-3)
    assert found["spread"] == pytest.approx(made.var(0).sum() / x.var(0).sum(), rel=1e-4)
    q = model.posterior(x)
    mean, stddev = (np.asarray(part, np.float64) for part in (q.mean(), q.stddev()))
    expected = looks.show_latents(mean, stddev, np.zeros_like(mean), np.ones_like(mean))
    found = looks.show_histograms(loaded, dataset)
    for name in ("active", "passive"):
        assert found[name]["latent"] == expected[name]["latent"]
        np.testing.assert_allclose(found[name]["mean"]["posterior mean"]["x"],
                                   expected[name]["mean"]["posterior mean"]["x"], rtol=2e-3, atol=1e-3)
    with pytest.raises(InputError, match="expected points in the plane; random has examples"):
        looks.show_reconstructions(loaded, cases.dataset((3,)))


def test_histograms_are_of_the_latents_with_most_and_least_kl():
    rng = np.random.default_rng(0)
    m, s = rng.standard_normal((500, 3)) * [0.0, 2.0, 0.5], np.full((500, 3), [1.0, 0.1, 0.6])
    s = s * rng.uniform(0.9, 1.1, s.shape)
    found = looks.show_latents(m, s, np.zeros_like(m), np.ones_like(m))
    assert (found["active"]["latent"], found["passive"]["latent"], found["score"]) == (1, 0, 2)
    variance = found["active"]["variance"]
    assert variance["posterior"]["x"] == variance["prior"]["x"] and len(variance["prior"]["y"]) == looks.BINS
    inside = [np.sum((s[:, 1]**2 >= low) & (s[:, 1]**2 < high)) for low, high in
              itertools.pairwise(variance["posterior"]["x"])]
    counts = np.array(variance["posterior"]["y"]) * max(inside)
    # A value near an edge may fall on either side of it: edges are rounded to four digits.
    assert np.abs(counts - inside).sum() <= 6 and max(inside) > 100
    assert set(found["passive"]["samples"]) == {"posterior", "prior", "posterior mean"}


def test_a_dead_model_has_its_elbo_where_flags_ask_for_the_active_latents(tmp_path):
    """It has none, and once kept a whole table from having results."""
    model = models.build("vae", (2,), network="linear", latents=2, likelihood="gaussian")
    model.encoder.set_weights([np.zeros_like(weight) for weight in model.encoder.get_weights()])
    model.export(tmp_path / "dead", data=data.load("circles"))
    path, = (tmp_path / "dead").glob("[0-9]*")
    found = running.score(path, ((("--latents=active", "--quick"), ("elbo", "total_correlation")),), {})
    why = found["metrics"]["total_correlation --latents=active --quick"]["skipped"]
    assert why.endswith("every latent is passive") and found["verdict"]["state"] == "dead"
    assert np.isfinite(found["metrics"]["elbo --latents=active --quick"]["score"])
    with pytest.raises(InputError, match=r"^worker: expected the metrics that the command has; got none named nothing"):
        running.score(path, (((), ("nothing",)),), {})
