"""Whatever the functions of the Python API are given, they return finite numbers or say in one line what is wrong.

The arguments are drawn by the functions' annotations: usual ones, of which one or two are replaced by hostile ones.
"""

import inspect
import types
import typing
import warnings

import hypothesis
import numpy as np
import pytest
from codes import noisy
from hypothesis import strategies as st
from outcomes import read_corpus

from vae_tf import activity, arguments, metrics, theory
from vae_tf.errors import InputError
from vae_tf.metrics.local_decoder_errors import LocalDecoders

DRAWS = hypothesis.settings().max_examples
LETTERS = {"N": 12, "n": 4, "d": 3, "k": 3, "K": 2, "S": 5, "Z": 6, "M": 4}
WORDS = {"family": "gaussian", "similarity": "lasso", "average": "models", "rule": "prior", "binning": "quantile"}
CHEAP = {"train": 60, "test": 30, "batch_size": 8, "samples": 40, "examples": 40, "sizes": (5, 10), "latents": 3,
         "prior_means": 0.0, "prior_stddevs": 1.0, "narrow": np.array([True, False, True])}
MATRICES = np.stack([np.eye(3) + 0.1] * 5)
USUAL = {"udr": {"codes": [noisy(40)[0], noisy(40)[0]]},
         "polarised_regime": {"mean": noisy(40)[0], "stddev": 0.3, "prior_mean": 0.0, "prior_stddev": 1.0},
         "posterior_covariance_gap": {"covariances": MATRICES, "precisions": MATRICES},
         "principal_axes": {"x": noisy(40)[0], "ranges": [(0, 2)]},
         "rotate": {"mean": np.ones((12, 3)), "covariance": MATRICES[0], "jacobian": noisy(12)[0][:, :3],
                    "rotation": np.eye(3)[[1, 2, 0]]}}

HOSTILE = (None, "text", b"bytes", True, 0, -1, 1, 1.5, -0.5, float("nan"), float("inf"), float("-inf"), 1e300, 1e-320,
           10**30, 10**400, 2 + 1j, [], [[]], [[1, 2], [3]], {}, {"a": 1}, (), object(), len, np.float64("nan"),
           np.zeros((0, 3)), np.zeros(3), np.zeros((2, 2, 2)), np.full((12, 3), np.nan), np.full((3, 3), np.inf),
           np.full((3, 3), 1e200), np.full((12, 3), 1e-300), np.ones((12, 3), complex), np.array([["a"]]),
           np.array([[None]]), np.array(1.0), -np.eye(3), np.ones((3, 3)), np.triu(np.ones((3, 3))), np.eye(4)[:, :3])
CHANGES = (lambda a: a[:-1], lambda a: a[..., :1], lambda a: a[np.newaxis], lambda a: a * np.nan, lambda a: a * 0,
           lambda a: a * -1, lambda a: a * 1e150, lambda a: a.astype(str), lambda a: a.astype(object), lambda a: a.T,
           lambda a: a.tolist(), lambda a: a.astype(np.float16), lambda a: a.astype(bool), lambda a: a.ravel())


def all_usual(function):
    """Usual arguments of a function, by name."""
    own = USUAL.get(function.__name__, {})
    return {name: own[name] if name in own else usual(name, parameter.annotation, np.random.default_rng(0))
            for name, parameter in inspect.signature(function).parameters.items()}


def usual(name, annotation, rng):
    """A usual argument of this name and annotation."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        annotation = next(each for each in typing.get_args(annotation) if each is not type(None))
    declared = getattr(annotation, "__metadata__", (annotation,))[0]
    if name in CHEAP | WORDS:
        return (CHEAP | WORDS)[name]
    if isinstance(declared, arguments.Sizes):
        return -array_of(declared, rng) if name == "hessian" else array_of(declared, rng)
    if name in ("codes", "factors", "means", "stddevs", "sampler", "gram", "hessians", "fits", "grams", "history"):
        codes, factors = noisy(40)
        codes = codes[:, :3]
        gram = np.stack([np.eye(3) + 0.1] * 40)
        fits = LocalDecoders(gram, gram, *rng.uniform(1, 2, (5, 40)), 4)
        return {"codes": codes, "factors": factors, "means": codes, "stddevs": np.full((40, 3), 0.3), "gram": gram,
                "sampler": metrics.make_sampler(codes, factors), "fits": fits, "grams": {"model": gram},
                "hessians": gram,
                "history": [{"step": 10, "delta_kl": 0.01}]}[name]
    if isinstance(declared, arguments.Whole) or declared is int:
        return 2
    if isinstance(declared, arguments.Number) or declared is float:
        return 0.5
    if declared is bool:
        return True
    if declared is theory.LinearPosterior:
        return theory.LinearPosterior(rng.standard_normal((3, 4)), np.eye(3))
    return None


def array_of(sizes, rng):
    """An array of these Sizes; a symmetric positive definite one where the last two are the same letter."""
    letters = sizes.letters.replace("...", "").split() or ["N", "d"]
    if sizes.integers:
        return rng.integers(0, 3, [LETTERS[letter] for letter in letters])
    array = rng.standard_normal([LETTERS[letter] for letter in letters])
    if len(letters) > 1 and letters[-1] == letters[-2]:
        return array @ np.swapaxes(array, -1, -2) + np.eye(array.shape[-1])
    return np.abs(array) + 0.1 if sizes.above == 0 or sizes.low == 0 else array


def call_with_hostile(function, data, given=None, words=()):
    """Call a function with one or two hostile arguments, and check what comes of it."""
    given = all_usual(function) if given is None else dict(given)
    for name in data.draw(st.lists(st.sampled_from(sorted(given)), min_size=1, max_size=2, unique=True)):
        value = given[name]
        if isinstance(value, np.ndarray) and data.draw(st.booleans()):
            with np.errstate(all="ignore"):
                given[name] = data.draw(st.sampled_from(CHANGES))(value)
        else:
            given[name] = data.draw(st.sampled_from(HOSTILE))
    check_call(function, given, words=words)


def check_call(function, given, names=(), words=()):
    """Check that a call returns finite numbers, or is refused with one line that names an argument, or has a word."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(**given)
        except InputError as error:
            line = str(error)
            assert "\n" not in line and len(line) < 400 and ":" in line, line
            # Some say "gram" for "grams"; a metric that finds too few active latents says how many it found.
            named = names or [*(name.rstrip("s") for name in given), "code", "factor", "mean", "latents", *words]
            assert any(name in line for name in named), line
            return
    assert not [str(each.message) for each in caught if issubclass(each.category, RuntimeWarning)]
    assert not names, f"expected {names} to be refused; got {result}"
    if hasattr(result, "score"):
        assert not np.isnan(result.score), result
    assert not arguments._is_undefined(result), result


THEORY = {name: function for name in theory.__all__ if inspect.isfunction(function := getattr(theory, name))}
ACTIVITY = {name: function for name, function in vars(activity).items()
            if inspect.isfunction(function) and hasattr(function, "__wrapped__") and not name.startswith("_")}
SLOW = ("explicitness", "dci_fast", "downstream_logistic")
METRICS = {name: metric.function for name, metric in metrics.METRICS.items()
           if not {"expansion", "context", "decoder"} & {*metric.needs} and metric.cost != "minutes"}
FURTHER = {function.__name__: function for function in (
    metrics.udr, metrics.make_sampler, metrics.polarised_regime, metrics.polarised_fraction, metrics.mig_from_entropies,
    metrics.mig_sup_from_entropies, metrics.posterior_covariance_gap, metrics.principal_axes,
    metrics.variance_norm_relation, metrics.od_score)}


@pytest.mark.parametrize("name", THEORY)
@hypothesis.settings(max_examples=2 * DRAWS)
@hypothesis.given(data=st.data())
def test_closed_forms(name, data):
    call_with_hostile(THEORY[name], data)


@pytest.mark.parametrize("name", ACTIVITY)
@hypothesis.settings(max_examples=2 * DRAWS)
@hypothesis.given(data=st.data())
def test_rules_of_activity(name, data):
    call_with_hostile(ACTIVITY[name], data)


@pytest.mark.parametrize("name", [name for name in METRICS | FURTHER if name not in SLOW])
@hypothesis.settings(max_examples=DRAWS)
@hypothesis.given(data=st.data())
def test_metrics(name, data):
    call_with_hostile((METRICS | FURTHER)[name], data)


@pytest.mark.parametrize("name", SLOW)
@hypothesis.settings(max_examples=DRAWS // 4)
@hypothesis.given(data=st.data())
def test_metrics_that_learn_for_long(name, data):
    call_with_hostile(METRICS[name], data)


@pytest.mark.parametrize("name", THEORY | ACTIVITY | METRICS | FURTHER)
def test_usual_arguments_are_taken(name):
    """Otherwise the properties above would hold because everything is refused."""
    function = (THEORY | ACTIVITY | METRICS | FURTHER)[name]
    function(**all_usual(function))


@pytest.mark.parametrize("case", read_corpus("api"), ids=lambda case: case["why"])
def test_calls_that_once_went_wrong(case):
    room, name = case["function"].split(".")
    function = getattr({"theory": theory, "metrics": metrics, "activity": activity}[room], name)
    check_call(function, {key: np.array(value) if isinstance(value, list) else value
                          for key, value in case["arguments"].items()}, case["names"])
