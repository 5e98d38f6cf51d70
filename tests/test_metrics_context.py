import warnings

import numpy as np
import pytest
from cases import build, dataset
from codes import noisy
from sklearn.decomposition import PCA

from vae_tf import evaluation, export, jacobians, metrics, report, verdicts
from vae_tf.errors import InputError
from vae_tf.metrics import derivatives, local_decoder, principal_axes

GEOMETRY = metrics.list_names("geometry")
STOCHASTIC = [name for name in GEOMETRY if {"widths", "narrow", "local_decoders"} & {*metrics.METRICS[name].needs}]


def exported(tmp_path, name, shape=(3,), network="mlp_synthetic", likelihood="gaussian"):
    model = build(name, network, shape, likelihood, {})
    card = {"model": name, "u_size": model.u_size, "data": {"shape": shape}}
    return export.Exported(export.save(tmp_path, model, dataset(shape), card))


def test_every_metric_of_an_exported_model_is_that_of_its_parts(tmp_path):
    model, data = exported(tmp_path, "full_covariance_vae", (6, 6, 1), "mlp_mnist", "bernoulli"), dataset((6, 6, 1))
    scored = evaluation.evaluate(model, data, (), examples=12)
    seen = []
    with_geometry = evaluation.measure_around(scored, model, data, GEOMETRY, examples=6, seed=2,
                                              progress=lambda done, total: seen.append((done, total)))
    assert seen[0] == (6, 12) and seen[-1] == (12, 12)
    assert {*with_geometry.results, *with_geometry.skipped} == {*scored.results, *GEOMETRY}
    x = data.images_at(scored.indices[:6])
    posterior = model.encode(x)
    gram = jacobians.gram(model.decoder, posterior["mean"]).numpy()
    fits = local_decoder.fit_local_decoders(model.decoder, posterior["mean"], posterior["scale_tril"], seed=2)
    expected = {
        "dto": metrics.dto(gram), "column_cosine": metrics.column_cosine(gram),
        "hadamard_gap": metrics.hadamard_gap(gram), "od_score_jacobian": metrics.od_score({"m": gram})["m"],
        "od_score": metrics.od_score({"m": fits.gram})["m"],
        "local_decoder_error": metrics.local_decoder_error(fits),
        "loss_split": metrics.loss_split(model.decoder, x / np.float32(255), posterior["mean"],
                                         posterior["scale_tril"], seed=2)}
    for name, result in expected.items():
        assert with_geometry.results[name].score == pytest.approx(result.score, rel=1e-4), name
    assert evaluation.as_json(with_geometry)


def test_an_autoencoder_is_scored_on_its_jacobian_alone(tmp_path):
    model, data = exported(tmp_path, "ae"), dataset((3,))
    scored = evaluation.evaluate(model, data, (), examples=5)
    after = evaluation.measure_around(scored, model, data, GEOMETRY)
    assert {*after.skipped} == {*STOCHASTIC}
    assert {*after.results} - {*scored.results} == {*GEOMETRY} - {*STOCHASTIC}
    assert evaluation.measure_around(scored, model, data, ()) is scored


def test_a_report_does_not_compute_the_jacobians_of_the_metrics_again(tmp_path, monkeypatch):
    model, data = exported(tmp_path, "vae"), dataset((3,))
    scored = evaluation.evaluate(model, data, (), examples=20)
    scored = scored._replace(verdict=verdicts.Verdict(np.ones(3), np.ones(3, bool)))
    around = {examples: evaluation.measure_around(scored, model, data, ("dto",), examples=examples)
              for examples in (8, 16, 20)}
    assert [len(each.gram) for each in around.values()] == [8, 16, 20]
    assert evaluation.measure_around(around[8], model, data, ("loss_split",)).gram is around[8].gram
    anew = report.examine_columns(model, scored)
    np.testing.assert_allclose(report.examine_columns(model, around[8]).squared_norms, anew.squared_norms)
    monkeypatch.setattr(derivatives, "compute_grams", None)         # a call of it would raise
    for examples in (16, 20):
        columns = report.examine_columns(model, around[examples])
        for of_metrics, of_report in zip(columns, anew, strict=True):
            np.testing.assert_allclose(of_metrics, of_report, rtol=1e-5)    # float32, in batches of other sizes
    with pytest.raises(TypeError):
        report.examine_columns(model, around[8])


def test_outputs_of_nan_leave_no_score(tmp_path):
    model, data = exported(tmp_path, "vae"), dataset((3,))
    x = data.images_at(np.arange(4))
    posterior = model.encode(x)
    context = metrics.Context(posterior["mean"], stddevs=posterior["stddev"], x=x, decoder=lambda z: {
        name: np.nan * output for name, output in model.decoder(z).items()})
    with warnings.catch_warnings(action="error"):
        results, skipped = metrics.measure(GEOMETRY, context)
    assert not results and all("finite" in why for why in skipped.values())
    assert skipped["local_decoder_error"].startswith("decoder: expected finite")


def test_unknown_names_and_shapes():
    with pytest.raises(InputError, match=r"geometry: expected names of dto, .*got 'dot'"):
        metrics.check_names(("dot",), "geometry")
    with pytest.raises(InputError, match=r"metrics: expected names of .*\bdto, .*got 'dot'"):
        metrics.measure(("dot",), metrics.Context(np.zeros((2, 3)), decoder=lambda z: z))
    with pytest.raises(InputError, match="means: expected shape"):
        metrics.METRICS["dto"].measure(metrics.Context(np.zeros(3), decoder=lambda z: z))


@pytest.mark.parametrize("shape", [(30, 2, 3), (5, 4, 2)])
def test_principal_axes_are_sklearns(shape):
    x = np.random.default_rng(0).standard_normal(shape) * np.arange(1, shape[-1] + 1)
    flat = x.reshape(len(x), -1)
    pca = PCA().fit(flat)
    codes = pca.transform(flat)
    ranges = [(0, 1), (0, 3), (1, 3), (2, 4)]
    errors, rebuilt = principal_axes(x, ranges)
    for (first, last), error, images in zip(ranges, errors, rebuilt, strict=True):
        expected = pca.mean_ + codes[:, first:last] @ pca.components_[first:last]
        np.testing.assert_allclose(images.reshape(flat.shape), expected, atol=1e-10)
        np.testing.assert_allclose(error, ((flat - expected)**2).sum(1).mean())
        # what is missing is the variance of the other axes
        missing = np.delete(pca.explained_variance_, range(first, last)).sum() * (len(x) - 1) / len(x)
        np.testing.assert_allclose(error, missing)
    axes = min(flat.shape)
    np.testing.assert_allclose(principal_axes(x, [(0, axes)])[0], 0, atol=1e-20)
    # Table 7's pattern is impossible: sorted, the first k axes always explain more than the next k
    first, after = principal_axes(x, [(0, axes // 2), (axes // 2, 2 * (axes // 2))])[0]
    assert first < after


@pytest.mark.parametrize(("x", "ranges", "message"), [
    (np.zeros((4, 3)), [(0, 4)], r"expected 0 <= first < last <= 3; got \(0, 4\)"),
    (np.zeros((4, 3)), [(2, 2)], "first < last"),
    (np.zeros((1, 3)), [(0, 1)], "N at least 2"),
    (np.full((4, 3), np.nan), [(0, 1)], "got nan"),
])
def test_principal_axes_bad_input(x, ranges, message):
    with pytest.raises(InputError, match=message):
        principal_axes(x, ranges)


def test_the_widths_of_a_full_covariance_are_those_of_its_marginals():
    codes, factors = noisy(60)
    L = np.tril(np.random.default_rng(0).uniform(0.1, 0.9, (60, 4, 4)))
    marginal = np.sqrt(np.einsum("nij,nij->ni", L, L))
    one, other = (metrics.METRICS["mig_posterior"].measure(metrics.Context(codes, factors, stddevs=stddevs)).score
                  for stddevs in (L, marginal))
    assert one == pytest.approx(other, abs=1e-12)


def test_what_a_metric_may_lack_is_what_it_says_of_any_context():
    codes, stddevs = np.zeros((4, 2)), np.ones((4, 2))
    contexts = [metrics.Context(codes, **more) for more in (
        {}, {"factors": codes}, {"stddevs": stddevs}, {"stddevs": stddevs, "independent": False},
        {"stddevs": np.ones((4, 2, 2))}, {"decoder": len}, {"decoder": len, "stddevs": stddevs})]
    for metric in metrics.METRICS.values():
        assert {metric.explain_lack(context) for context in contexts} - {None} <= metric.list_lacks()
    assert metrics.METRICS["mig"].list_lacks() == {"there are no factors"}
