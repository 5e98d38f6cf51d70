"""What kind a factor is, and that every metric goes by it."""

import warnings

import numpy as np
import pytest

from vae_tf import data, evaluation, kinds, metrics
from vae_tf.errors import InputError


def codes_and_labels(rows=300, seed=0):
    """Codes that follow two factors with noise, and the factors as integers."""
    rng = np.random.default_rng(seed)
    labels = np.stack([rng.integers(0, 3, rows), rng.integers(0, 5, rows)], -1)
    return labels + 0.3 * rng.standard_normal((rows, 2)), labels


def test_kinds_are_decided_by_values():
    rows = np.arange(8)
    whole, fractions, recurring = rows.astype(float), rows / 3, (rows % 3).astype(float)
    with pytest.warns(UserWarning, match=r"these factors are whole numbers that recur, stored as floats: \[2\]\. "):
        found = kinds.decide(np.column_stack([whole, fractions, recurring, np.ones(8)]))
    # Whole numbers that do not recur are no labels; a constant factor is of no kind that matters, and no cause to warn.
    assert found == ("continuous", "continuous", "categorical", "categorical")
    assert kinds.decide(np.stack([rows, rows % 2], -1)) == ("categorical", "categorical")


def test_messages_use_the_names_of_factors_where_they_are_known():
    factors = np.column_stack([np.arange(8) / 3, np.arange(8.0) % 3, np.arange(8.0) % 2])
    with kinds.name_factors(["size", "shape", "side"]):
        with pytest.warns(UserWarning, match="stored as floats: shape and side. They"):
            kinds.decide(factors)
        with kinds.name_factors(["size"]), pytest.raises(InputError, match="distinct values of factor size, which is"):
            metrics.mig(factors, np.arange(8)[:, np.newaxis], kinds="ordinal")
        assert kinds.tell_factor(2) == "side"
    assert kinds.tell_factor(2) == "2" and kinds.tell_factors(np.array([False, True])) == "[1]"


def test_kinds_that_are_said_stand():
    factors = np.zeros((4, 2))
    assert kinds.decide(factors, "cyclic") == ("cyclic", "cyclic")
    assert kinds.decide(factors, np.array(["ordinal", "continuous"])) == ("ordinal", "continuous")
    for wrong in (["ordinal"], ["ordinal", "nominal"], "nominal", []):
        with pytest.raises(InputError, match="kinds: expected one of categorical, ordinal, cyclic, continuous for each "
                                             "of 2 factors; got"):
            kinds.decide(factors, wrong)


def by_kind(name, codes, factors, kinds=None):
    context = metrics.Context(codes, factors, kinds, np.full(codes.shape, 0.3), samples_per_value=40)
    return metrics.METRICS[name].measure(context)


BY_KIND = [name for name in metrics.list_default_names() if "kinds" in metrics.METRICS[name].options]


@pytest.mark.parametrize("name", BY_KIND)
def test_labels_stored_as_floats_score_as_labels(name):
    codes, labels = codes_and_labels()
    expected = by_kind(name, codes, labels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stored = by_kind(name, codes, labels.astype(np.float32))
    assert stored.score == expected.score
    assert any("stored as floats" in str(w.message) for w in caught)
    if not name.endswith("posterior"):
        assert stored.parts["kinds"].tolist() == ["categorical", "categorical"]


def test_only_the_metrics_of_the_table_take_kinds():
    codes, labels = codes_and_labels(60)
    assert {*metrics.list_names("metrics")} - {*BY_KIND} == {
        "active_units", "mcc", "linear_r2", "weak_mcc", "dci", "dci_lasso", "dci_forest", "dci_es", "infomec",
        "downstream_gbt", "total_correlation", "wasserstein_correlation", "mutual_information", "beta_vae_score",
        "factor_vae_score", "irs", "elbo_decomposition"}
    for name in ("active_units", "mcc", "total_correlation", "irs"):
        with pytest.raises(TypeError):
            metrics.METRICS[name](codes, labels, kinds="ordinal")


def test_each_factor_is_taken_by_its_own_kind():
    codes, labels = codes_and_labels()
    apart = [metrics.sap(codes, labels[:, [k]], kinds=kind).score for k, kind in enumerate(("ordinal", "continuous"))]
    together = metrics.sap(codes, labels, kinds=("ordinal", "continuous"))
    assert together.parts["gap"] == pytest.approx(apart, abs=1e-12)
    assert together.score != pytest.approx(metrics.sap(codes, labels).score, abs=0.1)
    # Thirty values are thirty classes, or twenty bins.
    values = np.random.default_rng(0).integers(0, 30, (300, 1))
    assert metrics.make_sampler(codes, values).factors.max() == 29
    assert metrics.make_sampler(codes, values, kinds="continuous").factors.max() == 19


def test_rolineks_score_classifies_categorical_factors_alone():
    codes, labels = codes_and_labels()
    scores = {kind: metrics.disentanglement_score(codes, labels, kinds=kind).score for kind in kinds.KINDS}
    assert scores["ordinal"] == scores["cyclic"] == scores["continuous"] != scores["categorical"]
    assert metrics.disentanglement_score(codes, labels).score == scores["categorical"]
    assert metrics.disentanglement_score(codes, labels / 4, kinds="categorical").score == scores["categorical"]


def test_an_evaluation_decides_once_for_all_metrics_and_halves():
    codes, labels = codes_and_labels(80)
    # Forty values recur in 80 rows, but not in every half of them, nor in the part that is learned from.
    labels = np.column_stack([labels[:, 0], np.arange(80) % 40]).astype(float)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scored = evaluation.score(evaluation.Codes(codes, labels), ["mig", "sap"])
    assert sum("stored as floats" in str(w.message) for w in caught) == 1
    assert scored.results["mig"].parts["kinds"].tolist() == ["categorical", "categorical"]
    said = evaluation.score(evaluation.Codes(codes, labels, ("categorical", "continuous")), ["mig"])
    assert said.results["mig"].score == metrics.mig(codes, labels, kinds=("categorical", "continuous")).score
    assert said.results["mig"].score != scored.results["mig"].score


def test_files_say_the_kinds_of_their_factors(tmp_path):
    codes, labels = codes_and_labels(100)
    stored = labels.astype(np.float32)
    np.savez(tmp_path / "said.npz", codes=codes, data=codes, factors=stored, factor_kinds=["cyclic", "continuous"])
    assert evaluation.read_codes(tmp_path / "said.npz", examples=100).kinds == ("cyclic", "continuous")
    dataset = data.load(str(tmp_path / "said.npz"))
    assert [factor.kind for factor in dataset.factors] == ["cyclic", "continuous"]
    assert dataset.factor_sizes == (3, None)

    np.savez(tmp_path / "unsaid.npz", codes=codes, data=codes, factors=stored * [10, 0.1])
    with pytest.warns(UserWarning, match=r"whole numbers that recur, stored as floats: v1"):
        assert evaluation.read_codes(tmp_path / "unsaid.npz", examples=100).kinds == ("categorical", "continuous")
    with pytest.warns(UserWarning, match=r"whole numbers that recur, stored as floats: v1"):
        dataset = data.load(str(tmp_path / "unsaid.npz"))
    assert [factor.kind for factor in dataset.factors] == ["ordinal", "continuous"]
    np.testing.assert_array_equal(dataset.factors_at(np.arange(100))[:, 0], labels[:, 0])     # renumbered 0, 1, 2
