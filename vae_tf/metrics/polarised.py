"""The polarised regime: which latents a model uses, and whether the others follow its prior (rolinek 3.2; bonheme).

Posterior N(mean, diag stddev^2) and prior N(prior_mean, diag prior_stddev^2) are arrays that broadcast to [N, d]: a
standard prior is 0 and 1, a prior that every example shares is [d], an iVAE's is [N, d]. Of a full covariance the
marginals are meant. `activity.classify` says which latents are active, mixed and passive.
"""

import math
from typing import NamedTuple

import numpy as np
import scipy

from vae_tf import activity, arguments
from vae_tf.activity import CLASSES, NEARLY_ALL, PASSIVE_KL, classify, is_passive, kl_per_latent
from vae_tf.arguments import NotNegative, Positive, Seed
from vae_tf.errors import InputError
from vae_tf.metrics.registry import ANY_MODEL, register
from vae_tf.metrics.result import Result, check_arrays

NOISE_LEVEL = 0.01          # probability that two samples of one distribution are farther apart than `ks_noise`


@register(needs=("codes",), no_meaning_for=ANY_MODEL, active="is_varying", range=(0, math.inf),
          unchanged_by=("permutation", "sign", "relabelling"), meaning="number of latents whose mean varies over x")
def active_units(codes: np.ndarray, prior_means: activity.PriorMeans = 0.0, prior_stddevs: activity.Widths = 1.0,
                 ) -> Result:
    """The number of latents whose means vary by more than 0.01 prior variances (Burda 2016, section 5.2).

    The rule is `activity.is_varying`.

    Args:
        codes: posterior means [N, d].
        prior_means, prior_stddevs: [N, d] of the iVAE's p(z|u), or of N(0, I).

    Returns:
        Result; parts: variance [d] in prior variances, active [d].

    Raises:
        InputError: NaN, or not a matrix.
    """
    codes, _ = check_arrays(codes)
    active = activity.is_varying(codes, prior_means, prior_stddevs)
    return Result("active_units", float(active.sum()),
                  {"variance": activity.variance_of_means(codes, prior_means, prior_stddevs), "active": active},
                  f"of {len(active)} latents, those whose mean varies over x: {activity.RULES['is_varying'].condition}")


@arguments.check
def polarised_fraction(history: list[dict[str, float]], limit: Positive = 0.03) -> Result | None:
    """Return the share of training, up to its end, during which Delta_KL stays below 3 % (rolinek Table 1).

    The share starts at the first of the measurements that are all below the limit up to the last one.

    Args:
        history: rows of training.fit, with step and, now and then, delta_kl.
        limit: the delta_kl below which the KL counts as polarised.

    Returns:
        Result in [0, 1]; parts: since, the step of that measurement (None if the last is not below), and how many
        there are. None if delta_kl was never measured.

    Raises:
        InputError: a row without a step.
    """
    if not all("step" in row for row in history):
        raise InputError("history: expected rows that each have a step; got one without")
    measured = [(row["step"], row["delta_kl"]) for row in history if "delta_kl" in row]
    if not measured:
        return None
    since = None
    for step, delta in reversed(measured):
        if not delta < limit:
            break
        since = step
    share = 0.0 if since is None else 1 - since / max(history[-1]["step"], 1)
    return Result("polarised_fraction", share, {"since": since, "measurements": len(measured)},
                  f"share of training, up to its end, during which |L_KL - L~KL| / L_KL stays below {limit:.0%}")


@arguments.check
def draw_samples(mean: np.ndarray, stddev: np.ndarray, prior_mean: activity.PriorMeans = 0.0,
                 prior_stddev: activity.Widths = 1.0, *, seed: Seed = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw one z ~ q(z|x) and one from the prior per example, both [N, d], with independent noise."""
    m, s, a, b = activity.check_arrays(mean, stddev, prior_mean, prior_stddev)
    # Of the seed alone it could be the numbers that a user has made the means of.
    noise = np.random.default_rng([seed, 0, 0, 2]).standard_normal((2, *m.shape))
    return m + s * noise[0], a + b * noise[1]


def ks_distances(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the Kolmogorov-Smirnov distance [d] between the columns of two samples, [N, d] and [M, d]."""
    return np.array([scipy.stats.ks_2samp(a, b, method="asymp").statistic for a, b in zip(one.T, other.T, strict=True)])


def ks_noise(n: int, level: float = NOISE_LEVEL) -> float:
    """Return the KS distance that two samples of n from one distribution exceed with probability `level` (n large)."""
    return float(scipy.stats.kstwobign.isf(level) * np.sqrt(2 / n))


def mixing_weight(z: np.ndarray, prior: np.ndarray, mean: np.ndarray) -> float:
    """Return c in [0, 1] of p(z) = c p(prior) + (1 - c) p(mean), by least squares on the distribution functions.

    Args:
        z, prior, mean: samples [N], [M], [K] of one latent.
    """
    points = np.concatenate([z, prior, mean])
    F, P, M = (np.searchsorted(np.sort(sample), points, "right") / len(sample) for sample in (z, prior, mean))
    apart = (P - M) @ (P - M)
    return float(np.clip((F - M) @ (P - M) / apart, 0, 1)) if apart else float("nan")


@arguments.check
def polarised_regime(mean: np.ndarray, stddev: np.ndarray, prior_mean: activity.PriorMeans = 0.0,
                     prior_stddev: activity.Widths = 1.0, *, passive_kl: NotNegative = PASSIVE_KL, seed: Seed = 0,
                     ) -> tuple[dict[str, Result], dict[str, str]]:
    """Classify latents by both rules, and measure what bonheme claims of each class: Propositions 2, 3, Theorem 2.

    Every claim is about all latents of a class, so its score is that of the latent that is farthest from the claim; the
    parts have the scores of all latents. The distribution of a mixed latent is a mixture: the prior at the examples
    where the latent is passive, and the distribution of the means at those where it is active. The paper takes the
    means over all examples, but the means where the latent is passive are at the prior's mean.

    Args:
        mean, stddev: means and standard deviations of the posterior, [N, d].
        prior_mean, prior_stddev: means and standard deviations of the prior; they broadcast to [N, d].
        passive_kl: nats, see `is_passive`.
        seed: seed of the samples.

    Returns:
        {name: Result}, and {name: reason} for the claims that could not be examined.

    Raises:
        InputError: arrays that are not finite or do not fit together.
    """
    q = activity.check_arrays(mean, stddev, prior_mean, prior_stddev)
    classes = classify(*q, passive_kl=passive_kl)
    of = {kind: np.flatnonzero(classes == kind) for kind in CLASSES}
    passive = is_passive(*q, passive_kl)
    z, prior = draw_samples(*q, seed=seed)
    results = {**_count(of, kl_per_latent(*q), passive, passive_kl), **_compare_with_public_rule(classes, q)}
    skipped = {}
    for claim in (*_measure_propositions(*q), *_measure_theorem_2(z, prior, q[0])):
        if len(of[claim.kind]):
            results[claim.name] = claim.take_latents(of[claim.kind])
        else:
            skipped[claim.name] = f"no latent is {claim.kind}"
    if len(of["mixed"]):
        results["theorem_2_mixed"] = _measure_mixtures(passive, q[0], z, prior, of["mixed"])
    else:
        skipped["theorem_2_mixed"] = "no latent is mixed"
    return results, skipped


class _Claim(NamedTuple):
    """A claim of all latents of a kind: a number for each latent [d], what the largest says, and further numbers [d].

    meaning is a text with a field for the largest of each further number.
    """

    name: str
    kind: str
    each: np.ndarray
    meaning: str
    more: dict[str, np.ndarray]

    def take_latents(self, latents: np.ndarray) -> Result:
        """Return the claim of the latents with these indices: the score is the farthest one's."""
        parts = {key: value[latents] for key, value in self.more.items()}
        most = {key: value.max() for key, value in parts.items()}
        return Result(self.name, float(self.each[latents].max()),
                      {"latents": latents, "each": self.each[latents], **parts},
                      f"{self.kind} latents: {self.meaning.format(**most)}")


def _count(of: dict[str, np.ndarray], kl: np.ndarray, passive: np.ndarray, passive_kl: float) -> dict[str, Result]:
    """Count the latents of each class, whose indices `of` has; kl and passive are [N, d]."""
    meanings = {
        "active": f"those that say something of x: KL_j >= {passive_kl:g} nats at {NEARLY_ALL:.0%} of the examples; "
                  f"at an example {(~passive).sum(1).mean():.1f} latents do so, on average",
        "mixed": "those that are active at some examples and passive at others",
        "passive": f"those whose posterior is the prior: KL_j < {passive_kl:g} nats at {NEARLY_ALL:.0%} of them"}
    return {f"{kind}_latents": Result(f"{kind}_latents", float(len(of[kind])),
                                      {"latents": of[kind], "kl": kl[:, of[kind]].mean(0),
                                       "active_at": 1 - passive[:, of[kind]].mean(0)},
                                      f"of {kl.shape[1]}, {meanings[kind]}") for kind in CLASSES}


def _compare_with_public_rule(classes: np.ndarray, q: tuple[np.ndarray, ...]) -> dict[str, Result]:
    """How the public rule agrees with `classes` [d]; q are the arrays of the posterior and the prior."""
    public = classify(*q[:2], rule="standard_prior")
    counts = ", ".join(f"{np.count_nonzero(public == kind)} {kind}" for kind in CLASSES)
    return {"standard_prior_rule": Result(
        "standard_prior_rule", float((classes == public).mean()), {"classes": public},
        f"share of latents that the rule for p(z) = N(0, I) puts in the same class; it says {counts}")}


def _measure_propositions(m: np.ndarray, s: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[_Claim, ...]:
    """Propositions 2 and 3, of posterior means m, standard deviations s, prior means a and standard deviations b."""
    unit = (b ** 2).mean(0)         # the prior's variance, because a learned prior may have any scale
    return (
        _Claim("proposition_2", "passive", abs(m.mean(0) - a.mean(0)) / np.sqrt(unit),
               "the largest distance of the mean of mu_j from the prior's mean, in prior standard deviations; "
               "Var(mu_j) is up to {variance:.2g} prior variances from the variance of the prior's means",
               {"variance": abs(m.var(0) - a.var(0)) / unit}),
        _Claim("proposition_3_passive", "passive", abs((s ** 2).mean(0) - unit) / unit,
               "the largest distance of the mean of s_j^2 from the prior's variance, in prior variances; the "
               "spreads of the two are up to {spread:.2g} apart",
               {"spread": abs((s ** 2).std(0) - (b ** 2).std(0)) / unit}),
        _Claim("proposition_3_active", "active", (s ** 2).mean(0) / unit,
               "the largest mean of s_j^2, in prior variances; in units of z^2 it is at most {variance:.2g}, and "
               "Var(s_j^2) at most {spread:.2g}", {"variance": (s ** 2).mean(0), "spread": (s ** 2).var(0)}))


def _measure_theorem_2(z: np.ndarray, prior: np.ndarray, mean: np.ndarray) -> tuple[_Claim, ...]:
    """Theorem 2 (i) and (ii), of samples of the posterior and the prior, and posterior means, all [N, d]."""
    to_prior, to_mean = ks_distances(z, prior), ks_distances(z, mean)
    noise = f"samples of one distribution: {ks_noise(len(z)):.3f} once in {1 / NOISE_LEVEL:.0f}"
    return (_Claim("theorem_2_passive", "passive", to_prior,
                   f"largest KS distance of z_j to the prior's samples ({noise})", {}),
            _Claim("theorem_2_active", "active", to_mean, f"largest KS distance of z_j to mu_j ({noise}); "
                   "to the prior's samples {to_prior:.3f} at most", {"to_prior": to_prior}))


def _measure_mixtures(passive: np.ndarray, mean: np.ndarray, z: np.ndarray, prior: np.ndarray,
                      latents: np.ndarray) -> Result:
    """Theorem 2 (iii) for these latents: passive [N, d] says at which examples."""
    weights = passive[:, latents].mean(0)
    mixed = np.where(passive, prior, mean)[:, latents]
    distances = ks_distances(z[:, latents], mixed)
    fitted = np.array([mixing_weight(z[:, j], prior[passive[:, j], j], mean[~passive[:, j], j]) for j in latents])
    by_latent = ", ".join(f"z{j} {c:.2f} ({f:.2f})" for j, c, f in zip(latents, weights, fitted, strict=True))
    return Result("theorem_2_mixed", float(distances.max()),
                  {"latents": latents, "each": distances, "mixing_weight": weights, "fitted_weight": fitted},
                  "mixed latents: largest KS distance of z_j to c p(prior) + (1 - c) p(mu_j where active); "
                  f"c, the share of examples where passive (fitted to z_j): {by_latent}")
