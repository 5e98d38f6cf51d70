"""Compute losses of the local decoder and of neighbours: bhowal's Lemma 1, Theorem 2 and Proposition 6."""

from typing import Annotated

import numpy as np
import scipy

from vae_tf import arguments
from vae_tf.arguments import Count, Sizes
from vae_tf.errors import InputError
from vae_tf.theory.checks import InFloat64, Jacobian, Rows
from vae_tf.typing import ArrayLike, Floats, Integers

Data = Annotated[ArrayLike, Sizes("N n")]
OfOutputs = Annotated[ArrayLike, InFloat64("... n", broadcasts=True)]


@arguments.check
def stochastic_loss(matrix: Jacobian, variances: Annotated[ArrayLike, Sizes("... d", above=0)], value: OfOutputs,
                    slope: OfOutputs, curvature: OfOutputs) -> Floats:
    """Return E ||f(M eps)||^2 [...] to first order in the variances (bhowal Lemma 1), in squared data units.

    It is sum_j f_j(0)^2 + (f_j'(0)^2 + f_j(0) f_j''(0)) sum_k M_jk^2 s_k^2, for eps_k ~ N(0, s_k^2) and one function
    f_j per output, applied to (M eps)_j. Its error is of second order in the variances. For the f of Proposition 4,
    f(a) = g(M mu + a) - g(M mu), f(0) is 0: then what Theorem 1 minimises, (50), is E ||J eps||^2 of the Jacobian J =
    f' M, as in rolinek (17).

    Args:
        matrix: M [..., n, d].
        variances: s_k^2 [..., d].
        value, slope, curvature: f_j(0), f_j'(0), f_j''(0) [..., n], or numbers for one f.
    """
    spread = ((np.asarray(matrix, np.float64) ** 2) @ np.asarray(variances, np.float64)[..., np.newaxis])[..., 0]
    return (np.square(value) + (np.square(slope) + np.multiply(value, curvature)) * spread).sum(-1)


@arguments.check
def nearest_neighbours(x: Data, neighbours: Count) -> Integers:
    """Find the indices [N, k] of the nearest examples, nearest first; no example is its own neighbour.

    Args:
        x: data [N, n].
        neighbours: k, the number of neighbours, below N.

    Raises:
        InputError: k is out of range.
    """
    x = np.asarray(x, np.float64)
    if len(x) < 2:
        raise InputError(f"x: expected two examples at least; got {len(x)}")
    if not 1 <= neighbours < len(x):
        raise InputError(f"neighbours: expected 1 to {len(x) - 1}, fewer than there are examples; got {neighbours}")
    found = scipy.spatial.cKDTree(x).query(x, neighbours + 1)[1]
    own = found == np.arange(len(x))[:, np.newaxis]
    own[~own.any(1), -1] = True                 # x has more than k copies: drop the last neighbour instead
    return found[~own].reshape(len(x), neighbours)


@arguments.check
def confusion_loss(x: Data, confused: Rows) -> Floats:
    """Return sum_k ||x_k - x_i||^2 [N], the cost of rebuilding x_i as the examples it is confused with (bhowal (59)).

    This holds for an ideal encoder and decoder, which err only where posteriors overlap. The cost is least for the
    nearest neighbours (Proposition 6, Lemma 13). That is a bound: to reach it, as Theorem 2 (a) says, the posteriors of
    all neighbours must overlap in latent space, and no others.

    Args:
        x: data [N, n].
        confused: indices [N, k], for instance `nearest_neighbours`.
    """
    _check_rows(confused)
    x = np.asarray(x, np.float64)
    return ((x[confused] - x[:, np.newaxis]) ** 2).sum((1, 2))


@arguments.check
def neighbour_distance(mean: Annotated[ArrayLike, Sizes("N d")],
                       variance: Annotated[ArrayLike, Sizes("N d", above=0)], confused: Rows) -> Floats:
    """Return E sum_k ||z_i - z_k||^2 [N] for independent samples z ~ q(z|x): Dist of bhowal Theorem 2.

    It is sum_k (||mu_i - mu_k||^2 + sum_j (s_ij^2 + s_kj^2)). Theorem 2 (b) says that it falls with the KL. This is
    true of the means, but not of the variances, which rise to 1 as the KL falls. So Dist falls where the neighbours'
    means are far apart in comparison with the width of their posteriors, and rises to 2 d per neighbour where they are
    close.

    Args:
        mean, variance: the means and variances of q(z|x), [N, d].
        confused: indices [N, k], for instance `nearest_neighbours` of the data.
    """
    _check_rows(confused)
    mean, variance = np.asarray(mean, np.float64), np.asarray(variance, np.float64)
    between = ((mean[confused] - mean[:, np.newaxis]) ** 2).sum((1, 2))
    return between + (variance[confused] + variance[:, np.newaxis]).sum((1, 2))


def _check_rows(confused: Integers) -> None:
    """Raise InputError for indices [N, k] that are not below N."""
    if confused.max() >= len(confused):
        raise InputError(f"confused: expected indices below {len(confused)}, the number of examples; "
                         f"got {confused.max()}")
