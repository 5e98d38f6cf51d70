"""The polarised regime in an evaluation, and codes without their passive latents."""

import numpy as np
import pytest
import tensorflow as tf
from polarised_codes import of_latents, some_codes

from vae_tf import data, evaluation, export, metrics, models, report
from vae_tf.errors import InputError
from vae_tf.metrics import polarised


def test_pruned_codes_are_scored_as_if_the_passive_latents_were_not_there():
    codes, names = some_codes(), ["mig", "mcc", "active_units", "elbo_decomposition"]
    pruned = evaluation.score(codes, names, latents="active")
    kept = [0, 4, 5, 6]
    assert pruned.latents.tolist() == kept and pruned.codes.shape == (300, 7)
    alone = evaluation.score(of_latents(codes, kept), names)
    assert {name: result.score for name, result in pruned.results.items()} == {
        name: result.score for name, result in alone.results.items()}
    whole = evaluation.score(codes, names)
    assert whole.latents.tolist() == list(range(7))
    assert whole.results["elbo_decomposition"].score != pruned.results["elbo_decomposition"].score
    assert whole.polarised.keys() == pruned.polarised.keys() and len(whole.polarised) == 10


def test_pruning_needs_a_posterior_and_something_active():
    with pytest.raises(InputError, match="codes with the stddev that tells which are active; got active"):
        evaluation.score(evaluation.Codes(np.eye(3)), ["active_units"], latents="active")
    with pytest.raises(InputError, match="got active, but every latent is passive"):
        evaluation.score(evaluation.Codes(np.zeros((3, 2)), stddev=np.ones((3, 2))), ["active_units"], latents="active")


def test_a_posterior_that_is_none_is_refused():
    codes = some_codes()
    with pytest.raises(InputError, match="stddev: expected numbers above 0; got 0 in row 0, column 0"):
        evaluation.score(codes._replace(stddev=0 * codes.stddev), ["active_units"])


def test_the_table_and_the_numbers_have_a_group_of_their_own():
    scored = evaluation.score(some_codes(), ["active_units"])
    lines = report.write_table(scored).splitlines()
    at = lines.index("  polarised regime")
    assert [line.split()[0] for line in lines[at + 1:] if not line.startswith("   ")] == list(scored.polarised)
    assert not any(name in " ".join(lines[:at]) for name in scored.polarised)
    only = evaluation.score(evaluation.Codes(np.eye(3)), ["active_units"])
    assert report.write_table(only).splitlines()[-2:] == [
        "  not scored", "    - there is no posterior, only codes: polarised_regime"]
    assert '"polarised_regime": "there is no posterior' in evaluation.as_json(only)
    assert '"theorem_2_mixed": {' in evaluation.as_json(scored).partition('"polarised_regime"')[2]


def test_full_covariance_is_looked_at_by_its_marginals_and_an_autoencoder_not_at_all(tmp_path):
    x = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
    dataset = data.from_arrays("blob", x)
    for name in ("full_covariance_vae", "ae"):
        model = models.build(name, (3,), network="mlp_synthetic", latents=2, likelihood="gaussian")
        card = {"model": name, "u_size": 0, "data": {"shape": dataset.shape}}
        scored = evaluation.evaluate(export.load(export.save(tmp_path / name, model, dataset, card)), dataset,
                                     ["active_units"])
        if name == "ae":
            assert not scored.polarised and scored.absent["polarised_regime"] == "there is no posterior, only codes"
        else:
            q = model.posterior(x)
            diagonal = tf.linalg.diag_part(q.covariance()) ** 0.5
            # Rows are in another order; and the marginals of an export agree to float32.
            expected = polarised.kl_per_latent(q.mean(), diagonal).mean(0)
            classes = metrics.classify(*scored.posterior.get_distributions())
            np.testing.assert_allclose(polarised.kl_per_latent(*scored.posterior.get_distributions()).mean(0), expected,
                                       rtol=1e-4)
            assert sorted(classes) == sorted(metrics.classify(q.mean(), diagonal))
