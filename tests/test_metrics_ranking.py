"""UDR against loops, disentanglement_lib's own code, and models that agree or do not."""

import numpy as np
import public_udr
import pytest
import reference
import scipy

from vae_tf import metrics
from vae_tf.errors import InputError

# Scores of four models and of their pairs, as `python tests/public_udr.py PATH` printed them with
# google-research/disentanglement_lib, NumPy 2.4.6, SciPy 1.17.1 and scikit-learn 1.9.1.
PUBLIC = {
    "spearman": ([0.301082417423, 0.363608058365, 0.363608058365, 0.411206377078],
                 [[0.0, 0.352062091122, 0.301082417423, 0.262420231236],
                  [0.352062091122, 0.0, 0.363608058365, 0.411206377078],
                  [0.301082417423, 0.363608058365, 0.0, 0.473947342763],
                  [0.262420231236, 0.411206377078, 0.473947342763, 0.0]]),
    "lasso": ([0.310855288867, 0.334732925041, 0.302971347529, 0.307010978678],
              [[0.0, 0.329683787634, 0.295595787108, 0.270215316075],
               [0.310855288867, 0.0, 0.302971347529, 0.307010978678],
               [0.331912445186, 0.422945812362, 0.0, 0.484298110918],
               [0.215909952687, 0.334732925041, 0.422456562127, 0.0]]),
}
# Rounding of the printed numbers, and of sums in another order.
PRINTED = 1e-9
# scikit-learn's Lasso stops where its loss is within 1e-4 of the optimum, and so its weights within some 1e-2.
SOLVER = 1e-2


@pytest.mark.parametrize("similarity", PUBLIC)
def test_udr_equals_the_public_code_where_models_count_alike(similarity):
    per_model, pairs = PUBLIC[similarity]
    parts = metrics.udr(public_udr.models(), public_udr.KL, similarity, average="models").parts
    np.testing.assert_allclose(np.where(np.eye(4), 0, parts["pairs"]), pairs, atol=PRINTED)
    np.testing.assert_allclose(parts["per_model"], per_model, atol=PRINTED)


@pytest.mark.parametrize(("similarity", "tolerance"), [("spearman", 1e-12), ("lasso", SOLVER)])
@pytest.mark.parametrize("average", ["latents", "models"])
def test_udr_against_loops(similarity, average, tolerance):
    kept = [z[:, kl > 0.01] for z, kl in zip(public_udr.models(), public_udr.KL, strict=True)]
    assert [z.shape[1] for z in kept] == [4, 2, 3, 1]
    expected = np.array([[np.nan if i == j else reference.udr_pair(a, b, similarity, average)
                          for j, b in enumerate(kept)] for i, a in enumerate(kept)])
    parts = metrics.udr(public_udr.models(), public_udr.KL, similarity, average).parts
    np.testing.assert_allclose(parts["pairs"], expected, atol=tolerance)
    medians = [np.median(np.delete(expected[:, i], i)) for i in range(4)]
    np.testing.assert_allclose(parts["per_model"], medians, atol=tolerance)


def test_four_latents_against_two_by_hand():
    """R = 1 for two latents of model a that are those of b; its other two have nothing in common with b."""
    z = np.array([[1, 1, 1, 1, -1, -1, -1, -1], [1, 1, -1, -1, 1, 1, -1, -1], [1, -1, 1, -1, 1, -1, 1, -1],
                  [1, -1, -1, 1, 1, -1, -1, 1]]).T
    assert metrics.udr([z, z[:, :2]]).score == pytest.approx(4 / 6, abs=1e-12)
    assert metrics.udr([z, z[:, :2]], average="models").score == pytest.approx((2 / 4 + 2 / 2) / 2, abs=1e-12)


@pytest.mark.parametrize("similarity", ["spearman", "lasso"])
def test_udr_prefers_models_that_agree(similarity):
    z = np.random.default_rng(0).standard_normal((500, 4))
    turned = z @ np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    ranked = metrics.udr([z, -z[:, [2, 0, 3, 1]], turned], similarity=similarity).parts
    assert ranked["pairs"][0, 1] > 0.8 > ranked["pairs"][0, 2]
    assert ranked["per_model"][2] == ranked["per_model"].min()


def test_udr_counts_informative_latents_alone():
    z = np.random.default_rng(0).standard_normal((500, 4))
    kl = [np.array([1, 1, 0.0, 0])] * 2
    np.testing.assert_allclose(metrics.udr([z, z], kl).score, reference.udr_pair(z[:, :2], z[:, :2]), atol=1e-12)
    assert metrics.udr([z, z], [np.zeros(4)] * 2).score == 0


def test_bad_arguments_name_themselves():
    codes = np.random.default_rng(0).standard_normal((20, 2))
    with pytest.raises(InputError, match="at least two models"):
        metrics.udr([codes])
    with pytest.raises(InputError, match="similarity: expected one of spearman, lasso"):
        metrics.udr([codes, codes], similarity="pearson")
    with pytest.raises(InputError, match="average: expected one of latents, models; got 'median'"):
        metrics.udr([codes, codes], average="median")


def test_the_best_model_has_the_largest_udr():
    z = np.random.default_rng(0).standard_normal((500, 4))
    turned = z @ np.linalg.qr(np.random.default_rng(1).standard_normal((4, 4)))[0]
    found = metrics.udr([turned, z, -z, z[:, ::-1]])
    assert found.parts["best"] == found.parts["per_model"].argmax() != 0
    assert found.score == found.parts["per_model"].max()


def test_correlated_latents_lower_udr_of_equal_models():
    """With |correlation| r of a model's two latents, each has 1 / (1 + r) by the formula."""
    z = np.random.default_rng(0).standard_normal((2_000, 2))
    z[:, 1] = 0.6 * z[:, 0] + 0.8 * z[:, 1]
    r = scipy.stats.spearmanr(z).statistic
    assert metrics.udr([z, z]).score == pytest.approx(1 / (1 + r))
