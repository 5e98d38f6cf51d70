"""Choose a model without labels: unsupervised disentanglement ranking, UDR (Duan 2020)."""

import itertools
from collections.abc import Sequence
from typing import Annotated

import numpy as np
import scipy

from vae_tf import activity, arguments
from vae_tf.arguments import Choice, Positive
from vae_tf.errors import InputError
from vae_tf.metrics.correlation import correlation
from vae_tf.metrics.result import Result, check_arrays


@arguments.check
def udr(codes: Sequence[np.ndarray], kl: Sequence[np.ndarray] | None = None,
        similarity: Annotated[str, Choice(("spearman", "lasso"))] = "spearman",
        average: Annotated[str, Choice(("latents", "models"))] = "latents", alpha: Positive = 0.1) -> Result:
    """UDR: models that disentangle agree, up to order and sign of latents, whatever their seed.

    R_ab is how similar latent a of one model is to latent b of another: |Spearman correlation|, or |Lasso weight| in
    predicting the standardised b from the standardised a's. For a pair of models
        UDR = (sum_b max_a R_ab^2 / sum_a R_ab + sum_a max_b R_ab^2 / sum_b R_ab) / (d_a + d_b)
    over informative latents, those with a mean KL(q(z_j|x) || p) of 0.01 nats or more (`activity.is_informative`).
    Each latent counts alike, as in the paper's formula. With average="models" each model of the pair does, as in
    disentanglement_lib: half of sum_b ... / d_b plus half of sum_a ... / d_a. They differ where d_a and d_b do.
    A model's UDR is the median over the models that it is paired with; by Lasso, it is predicted from each of them, as
    in disentanglement_lib. With Spearman's correlation it is in [0, 1]. It is 1 if the model's latents are those of the
    others, one for one, and are uncorrelated with each other; correlated latents lower it even for a model and its
    copy. It is near 0 if the models have nothing in common. A model with no informative latent has UDR 0.

    Args:
        codes: M arrays [N, d_m] of the same N examples, M >= 2; one per model, of one recipe and several seeds.
        kl: M arrays [d_m], mean KL of each latent in nats; None takes those that differ at two examples
            (`activity.is_moving`) as informative.
        similarity: "spearman" or "lasso".
        average: what counts alike, "latents" or "models".
        alpha: weight of the Lasso's penalty.

    Returns:
        Result, its score the best model's; parts: per_model [M]; pairs [M, M], where entry i, j is of model j as
        predicted from model i (NaN on the diagonal); best.

    Raises:
        InputError: fewer than two models, rows or KLs that disagree, or no such similarity or average.
    """
    if len(codes) < 2:
        raise InputError(f"codes: expected those of at least two models; got {len(codes)}")
    codes = [check_arrays(z)[0] for z in codes]
    if len({len(z) for z in codes}) > 1:
        raise InputError(f"codes: expected as many rows for every model; got {', '.join(str(len(z)) for z in codes)}")
    informative = [activity.is_moving(z) for z in codes] if kl is None else [activity.is_informative(k) for k in kl]
    if [len(keep) for keep in informative] != [z.shape[1] for z in codes]:
        raise InputError(f"kl: expected one per latent, {[z.shape[1] for z in codes]}; "
                         f"got {[len(keep) for keep in informative]}")
    codes = [z[:, keep] for z, keep in zip(codes, informative, strict=True)]
    if similarity == "spearman":
        codes = [scipy.stats.rankdata(z, axis=0) for z in codes]
    M = len(codes)
    pairs = np.full((M, M), np.nan)
    for i, j in itertools.permutations(range(M), 2):
        R = (correlation(codes[i], codes[j]) if similarity == "spearman"
             else _lasso_weights(codes[i], codes[j], alpha))
        pairs[i, j] = _agreement(R, average)
    per_model = np.nanmedian(pairs, axis=0)
    return Result("udr", float(per_model.max()), {"per_model": per_model, "pairs": pairs,
                                                  "best": np.array(per_model.argmax())},
                  "0: models of this recipe share nothing; 1: they found the same latents, uncorrelated ones")


def _agreement(R: np.ndarray, average: str) -> float:
    """Return UDR of one pair from similarities R [d_a, d_b]."""
    if not R.size:
        return 0.0

    def shares(table: np.ndarray) -> np.ndarray:
        total = table.sum(0)
        return np.divide(table.max(0)**2, total, where=total > 0, out=np.zeros_like(total))

    of_b, of_a = shares(R), shares(R.T)
    return np.concatenate([of_b, of_a]).mean() if average == "latents" else (of_b.mean() + of_a.mean()) / 2


def _lasso_weights(a: np.ndarray, b: np.ndarray, alpha: float) -> np.ndarray:
    """Return |weight| [d_a, d_b] of each latent of a in predicting each of b, both standardised; constants get 0."""
    from sklearn.linear_model import Lasso

    def standardised(z: np.ndarray) -> np.ndarray:
        return (z - z.mean(0)) / np.where(z.std(0) > 0, z.std(0), 1)

    if not a.shape[1] or not b.shape[1]:
        return np.zeros((a.shape[1], b.shape[1]))
    return np.abs(np.atleast_2d(Lasso(alpha=alpha).fit(standardised(a), standardised(b)).coef_)).T
