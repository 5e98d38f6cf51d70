"""How orthogonal a decoder's columns are, beside what they would be if the latents were turned at random."""

from typing import Any, NamedTuple

import numpy as np
import scipy

from vae_tf.evaluation import Evaluation

ROTATIONS = 100
EXAMPLES = 16       # around which the decoder of a report is examined
ENOUGH = 10         # examples at which metrics have looked, so that it is not examined again


class Columns(NamedTuple):
    """The columns of a decoder's Jacobian around some examples.

    cosines: [d, d], mean over examples of the size of the cosine of two columns.
    measured: mean of that over the pairs of informative latents.
    chance: [R], the same after random rotations of the informative latents, each one for all examples.
    squared_norms: [N, d], squared lengths of the columns.
    """

    cosines: np.ndarray
    measured: float
    chance: np.ndarray
    squared_norms: np.ndarray


def examine_columns(model: Any, evaluation: Evaluation, seed: int = 0) -> Columns | None:
    """Examine the decoder of an export.Exported around the codes of the first examples of its evaluation.

    What the evaluation's metrics computed is not computed again.
    """
    from vae_tf.metrics import derivatives  # imports TensorFlow, which scoring codes does not need

    if evaluation.verdict is None or evaluation.verdict.count < 2:
        return None
    wanted = evaluation.codes[:EXAMPLES]
    grams = evaluation.gram[:EXAMPLES] if evaluation.gram is not None else None
    if grams is None or len(grams) < min(ENOUGH, len(wanted)):
        grams = derivatives.compute_grams(model.decoder, wanted, jacobian=model.jacobian_function)
    return compare_with_rotations(grams, evaluation.verdict.informative, seed) if np.isfinite(grams).all() else None


def compare_with_rotations(grams: np.ndarray, informative: np.ndarray, seed: int = 0, count: int = ROTATIONS,
                           ) -> Columns | None:
    """Compare the angles of a decoder's columns with those of random rotations of its latents.

    The likelihood and the prior N(0, I) do not see a rotation R of the latents, z = R z', if the encoder follows. So
    rotations show what the columns would be if nothing preferred the axes. The Gram matrix becomes R^T J^T J R.

    Args:
        grams: [N, d, d], J^T J around N examples.
        informative: bool [d], the latents that carry information; the columns of others have no direction.
        seed: of the rotations.
        count: the number of rotations.

    Returns:
        Columns, or None where fewer than two latents carry information and move x.
    """
    informative = informative & (np.diagonal(grams, axis1=1, axis2=2).mean(0) > 0)
    if np.count_nonzero(informative) < 2:
        return None
    inner = grams[:, informative][:, :, informative]
    d = inner.shape[1]
    rng = np.random.default_rng(seed)
    rotations = scipy.stats.special_ortho_group.rvs(d, size=count, random_state=rng).reshape(count, d, d)
    chance = np.array([_average(compute_cosines(R.T @ inner @ R)) for R in rotations])
    return Columns(compute_cosines(grams), _average(compute_cosines(inner)), chance,
                   np.diagonal(grams, axis1=1, axis2=2))


def compute_cosines(grams: np.ndarray) -> np.ndarray:
    """Return the mean over examples of the size of the cosine of two columns, [d, d], of J^T J [N, d, d].

    A column of zeros has cosine 0 with all others, and 1 with itself.
    """
    lengths = np.sqrt(np.diagonal(grams, axis1=1, axis2=2))
    products = lengths[:, :, np.newaxis] * lengths[:, np.newaxis]
    cosines = np.divide(np.abs(grams), products, out=np.zeros(grams.shape), where=products > 0)
    mean = np.minimum(cosines.mean(0), 1)
    np.fill_diagonal(mean, 1)
    return mean


def _average(cosines: np.ndarray) -> float:
    """Return the mean of the entries off the diagonal."""
    return float(cosines[~np.eye(len(cosines), dtype=bool)].mean())
