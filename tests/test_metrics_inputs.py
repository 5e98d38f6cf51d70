"""What every metric makes of inputs that are bad, or at the edge of what there is."""

import warnings

import numpy as np
import pytest
from codes import called, noisy

from vae_tf import metrics
from vae_tf.errors import InputError

ALL = sorted(metrics.list_names("metrics"))
HEAVY = [name for name in ALL if metrics.METRICS[name].cost == "minutes"]
UNSUPERVISED = [name for name in ALL if not metrics.METRICS[name].is_supervised]


@pytest.mark.parametrize("name", ALL)
def test_nan_and_infinity_are_refused(name):
    codes, factors = noisy(60)
    for bad in (np.nan, np.inf):
        codes[3, 1] = bad
        with pytest.raises(InputError, match="codes: expected finite values; got 1 NaN or infinite"):
            called(name, codes, factors)


@pytest.mark.parametrize("name", [name for name in ALL if name not in UNSUPERVISED])
def test_shapes_that_disagree_and_constant_factors_are_refused(name):
    codes, factors = noisy(60)
    with pytest.raises(InputError, match="factors: expected 60 rows, as many as codes; got 59"):
        called(name, codes, factors[:-1])
    if name != "mcc":
        with pytest.raises(InputError, match="factors: expected"):
            called(name, codes, np.full((60, 2), 7))
    else:
        assert called(name, codes, np.full((60, 2), 7)).score == 0


@pytest.mark.parametrize("name", [name for name in ALL if name not in UNSUPERVISED + HEAVY])
def test_a_constant_factor_is_left_out(name):
    codes, factors = noisy(120)
    more = np.hstack([factors, np.full((120, 1), 3)])
    with warnings.catch_warnings(action="ignore"):
        scored = called(name, codes, more).score
    assert np.isfinite(scored)
    if name != "mcc":       # which counts it as a factor that no latent follows
        assert scored == pytest.approx(called(name, codes, factors).score, abs=1e-12)


@pytest.mark.parametrize("name", [name for name in ALL if name not in HEAVY])
def test_float_factors_of_10_000_values_and_one_latent_and_five_rows(name):
    """Each gives a finite score, or one clear error."""
    rng = np.random.default_rng(0)
    v = rng.uniform(size=(10_000, 2))
    quick = {"dci_fast": 500, "explicitness": 2_000, "downstream_logistic": 2_000}.get(name, 10_000)
    quick = 1_000 if name in ("mig_posterior", "mig_sup_posterior", "elbo_decomposition") else quick
    assert np.isfinite(called(name, v[:quick], v[:quick]).score)
    codes, factors = noisy(200)
    with warnings.catch_warnings(action="ignore"):
        assert np.isfinite(called(name, codes[:, :1], factors).score)
        try:
            assert np.isfinite(called(name, codes[:5], factors[:5]).score)
        except InputError as error:
            assert "\n" not in str(error) and "expected" in str(error)


def test_bad_arguments_name_themselves():
    codes, factors = noisy(60)
    with pytest.raises(InputError, match="stddevs: expected values above 0"):
        metrics.mig_posterior(codes, np.zeros(codes.shape), factors)
    with pytest.raises(InputError, match="sizes: expected"):
        metrics.downstream_logistic(codes, factors, sizes=())
    with pytest.raises(InputError, match="neighbours: expected at most 48"):
        metrics.disentanglement_score(codes, factors, neighbours=50)
    with pytest.raises(InputError, match=r"of_factor: expected an array \[K\] where K is 2, as in conditional"):
        metrics.mig_from_entropies([1.0], [[1.0, 2.0]], [1.0])
    with pytest.raises(InputError, match="modularity expects at least two"):
        metrics.modularity(codes, factors[:, :1])


def test_results_print_in_one_line():
    codes, factors = noisy(60)
    for name in ("mig", "irs", "mig_posterior"):
        assert str(called(name, codes, factors)).startswith(f"{name} = 0.")


def test_tensors_inside_a_graph_are_refused():
    """They have no numbers yet, which NumPy said with a traceback of TensorFlow."""
    import tensorflow as tf

    with pytest.raises(InputError, match="gram: expected an array of numbers; got SymbolicTensor of shape"):
        tf.function(metrics.dto, autograph=False)(tf.ones((4, 2, 2)))


@pytest.mark.parametrize("name", [name for name in ALL if name not in UNSUPERVISED and name not in HEAVY])
def test_whole_numbers_of_any_size_count_by_their_differences(name):
    """As floats, the values of the first factor are all one."""
    codes, factors = noisy(200)
    factors = factors.astype(np.int64)
    far = factors + np.array([2**62, *[0] * (factors.shape[1] - 1)])
    assert called(name, codes, far).score == pytest.approx(called(name, codes, factors).score, rel=1e-12, nan_ok=True)
