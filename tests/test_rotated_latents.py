"""benchmarks/rotated_latents.py rotates a model as a whole, and finds the rotation to orthogonal columns."""

import pathlib
import runpy
import sys

import numpy as np
import pytest
import tensorflow as tf

from vae_tf import jacobians, metrics
from vae_tf.experiments import tables

BENCHMARKS = pathlib.Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def program():
    before = sys.path[:]
    yield runpy.run_path(str(BENCHMARKS / "rotated_latents.py"))
    sys.path[:] = before


@pytest.mark.parametrize("latents", [2, 4])
def test_posterior_and_decoder_are_those_of_the_rotated_model(program, latents):
    rng = np.random.default_rng(0)
    Q = program["make_rotation"](35, latents)
    np.testing.assert_allclose(Q @ Q.T, np.eye(latents), atol=1e-12)
    assert np.trace(Q) == pytest.approx(latents - 2 + 2 * np.cos(np.radians(35)))        # it turns one plane
    means, triangular = rng.standard_normal((6, latents)), np.tril(rng.standard_normal((6, latents, latents)))
    triangular[:, range(latents), range(latents)] = np.exp(triangular[:, range(latents), range(latents)])
    covariances, weights = triangular @ triangular.transpose(0, 2, 1), rng.standard_normal((latents, 5))

    def decode(z):
        return tf.tanh(z @ tf.constant(weights))

    turned_means, turned, turned_grams = program["rotate"](means, covariances, jacobians.gram(decode, means).numpy(), Q)
    np.testing.assert_allclose(jacobians.gram(lambda z: decode(z @ tf.constant(Q)), turned_means), turned_grams,
                               atol=1e-10)
    kl = [0.5 * (np.sum(mean**2, -1) + np.trace(S, axis1=1, axis2=2) - np.linalg.slogdet(S)[1] - latents)
          for mean, S in ((means, covariances), (turned_means, turned))]
    np.testing.assert_allclose(kl[0], kl[1], atol=1e-10)


def test_random_rotations_differ_from_model_to_model_and_are_the_same_in_every_run(program):
    first, second = program["list_rotations"]("random", 3, 2)
    assert not np.allclose(first, second)
    np.testing.assert_allclose(first @ first.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(first) == pytest.approx(1)
    np.testing.assert_array_equal(program["list_rotations"]("random", 3, 2), [first, second])
    np.testing.assert_array_equal(program["list_rotations"]("35", 2, 2), [program["make_rotation"](35, 2)] * 2)


def test_the_rotation_that_makes_columns_orthogonal_is_found(program):
    orthogonal = np.diag([4.0, 1.0]) + np.zeros((7, 1, 1))
    turned = program["make_rotation"](30, 2) @ orthogonal @ program["make_rotation"](30, 2).T
    assert metrics.hadamard_gap(turned).score > 0.1
    Q = program["find_most_orthogonal"](turned)
    assert metrics.hadamard_gap(Q @ turned @ Q.T).score < 1e-12


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.toml")), ids=lambda path: path.stem)
def test_experiments_of_benchmarks_are_read(path):
    assert tables.load(str(path)).cells
