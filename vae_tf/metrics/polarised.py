"""The polarised regime: which latents a model uses, and whether the others follow its prior (rolinek 3.2; bonheme).

Posterior N(mean, diag stddev^2) and prior N(prior_mean, diag prior_stddev^2) are arrays that broadcast to [N, d]: a
standard prior is 0 and 1, a prior that every example shares is [d], an iVAE's is [N, d]. Of a full covariance the
marginals are meant. A latent is passive for an example if the posterior is the prior there, else active; over
examples it is passive, active, or mixed.
"""

import numpy as np
from scipy.stats import ks_2samp, kstwobign

from vae_tf import activity
from vae_tf.activity import PASSIVE_KL, kl_per_latent, passive_at
from vae_tf.errors import InputError
from vae_tf.metrics.result import Result, checked

CLASSES = ("active", "mixed", "passive")
RULES = ("prior", "standard_prior")
NEARLY_ALL = 0.95           # of the examples, that make a latent passive or active
NOISE_LEVEL = 0.01          # how often two samples of one distribution are farther apart than `ks_noise` says


def active_units(codes, factors=None, prior_means=0.0, prior_stddevs=1.0):
    """The number of latents whose means vary by more than 0.01 prior variances (Burda 2016, section 5.2).

    The rule is `activity.is_varying`.

    Args:
        codes: posterior means [N, d].
        factors: not looked at.
        prior_means, prior_stddevs: [N, d] of the iVAE's p(z|u), or of N(0, I).

    Returns:
        Result; parts: variance [d] in prior variances, active [d].

    Raises:
        InputError: NaN, or not a matrix.
    """
    codes, _ = checked(codes)
    active = activity.is_varying(codes, prior_means, prior_stddevs)
    return Result("active_units", float(active.sum()),
                  {"variance": activity.variance_of_means(codes, prior_means, prior_stddevs), "active": active},
                  f"of {len(active)} latents, those whose mean varies over x: Var(mu_j) > {activity.VARYING_MEANS:g} "
                  "prior variances")


def polarised_fraction(history, limit=0.03):
    """The share of training after which Delta_KL stays below 3 % to the end (rolinek Table 1).

    Counted from the first measurement of those that are below the limit up to the last.

    Args:
        history: of training.fit, rows with step and, now and then, delta_kl.
        limit: of delta_kl.

    Returns:
        Result in [0, 1]; parts: since, the step of that measurement (None if the last is not below), and how many
        there are. None if delta_kl was never measured.
    """
    measured = [(row["step"], row["delta_kl"]) for row in history if "delta_kl" in row]
    if not measured:
        return None
    since = None
    for step, delta in reversed(measured):
        if not delta < limit:
            break
        since = step
    share = 0.0 if since is None else 1 - since / history[-1]["step"]
    return Result("polarised_fraction", share, {"since": since, "measurements": len(measured)},
                  f"share of training after which |L_KL - L~KL| / L_KL stays below {limit:.0%} to the end")


def classify(mean, stddev, prior_mean=0.0, prior_stddev=1.0, *, rule="prior", passive_kl=PASSIVE_KL):
    """Class of each latent over examples: "active", "mixed" or "passive", [d] (bonheme 2.2; Bonheme, Grzes 2021).

    rule "prior", the model's own: passive if it is `passive_at` 95 % of the examples or more, active if at 5 % or less,
    else mixed. rule "standard_prior", the authors' public code, which presumes p(z) = N(0, I): mixed if
    Var(s_j^2) >= 0.1; else active if the mean of s_j^2 is at most 0.1, passive if it is within 0.1 of 1, else mixed.
    That one calls passive latents active where a learned prior is narrow.

    Args:
        mean, stddev: of the posterior, [N, d].
        prior_mean, prior_stddev: broadcast to [N, d].
        rule: of RULES.
        passive_kl: nats, see `passive_at`.

    Raises:
        InputError: no such rule, or arrays that are not finite or do not fit together.
    """
    if rule not in RULES:
        raise InputError(f"rule: expected one of {', '.join(RULES)}; got {rule!r}")
    if rule == "prior":
        share = passive_at(mean, stddev, prior_mean, prior_stddev, passive_kl).mean(0)
        return np.select([share >= NEARLY_ALL, share <= 1 - NEARLY_ALL], ["passive", "active"], "mixed")
    variance = activity.checked(mean, stddev, prior_mean, prior_stddev)[1] ** 2
    steady, average = variance.var(0) < 0.1, variance.mean(0)
    return np.select([steady & (average <= 0.1), steady & (abs(average - 1) <= 0.1)], ["active", "passive"], "mixed")


def samples(mean, stddev, prior_mean=0.0, prior_stddev=1.0, *, seed=0):
    """One z ~ q(z|x) and one from the prior per example, both [N, d], with independent noise."""
    m, s, a, b = activity.checked(mean, stddev, prior_mean, prior_stddev)
    noise = np.random.default_rng(seed).standard_normal((2, *m.shape))
    return m + s * noise[0], a + b * noise[1]


def ks_distances(one, other):
    """The Kolmogorov-Smirnov distance [d] between the columns of two samples, [N, d] and [M, d]."""
    return np.array([ks_2samp(a, b, method="asymp").statistic for a, b in zip(one.T, other.T, strict=True)])


def ks_noise(n, level=NOISE_LEVEL):
    """The KS distance that two samples of n from one distribution exceed with probability `level` (n large)."""
    return float(kstwobign.isf(level) * np.sqrt(2 / n))


def mixing_weight(z, prior, mean):
    """c in [0, 1] of p(z) = c p(prior) + (1 - c) p(mean), by least squares on the distribution functions.

    Args:
        z, prior, mean: samples [N], [M], [K] of one latent.
    """
    at = np.concatenate([z, prior, mean])
    F, P, M = (np.searchsorted(np.sort(sample), at, "right") / len(sample) for sample in (z, prior, mean))
    apart = (P - M) @ (P - M)
    return float(np.clip((F - M) @ (P - M) / apart, 0, 1)) if apart else float("nan")


def polarised_regime(mean, stddev, prior_mean=0.0, prior_stddev=1.0, *, passive_kl=PASSIVE_KL, seed=0):
    """Classes by both rules and, in numbers, what bonheme claims of them: Propositions 2 and 3, Theorem 2.

    Every claim is of all latents of a class, so its score is the farthest latent's; the parts have each.
    A mixed latent's mixture is of the prior where it is passive and of the means where it is active: the print takes
    the means over all examples, but those where the latent is passive are at the prior's mean.

    Args:
        mean, stddev: of the posterior, [N, d].
        prior_mean, prior_stddev: broadcast to [N, d].
        passive_kl: nats, see `passive_at`.
        seed: of the samples.

    Returns:
        Results by name, and by name why a claim could not be looked at.

    Raises:
        InputError: arrays that are not finite or do not fit together.
    """
    m, s, a, b = activity.checked(mean, stddev, prior_mean, prior_stddev)
    N, d = m.shape
    kl, passive = kl_per_latent(m, s, a, b), passive_at(m, s, a, b, passive_kl)
    classes, public = classify(m, s, a, b, passive_kl=passive_kl), classify(m, s, rule="standard_prior")
    of = {kind: np.flatnonzero(classes == kind) for kind in CLASSES}
    z, prior = samples(m, s, a, b, seed=seed)
    results, skipped = {}, {}

    def count(kind, meaning):
        name = f"{kind}_latents"
        results[name] = Result(name, float(len(of[kind])), {"latents": of[kind], "kl": kl[:, of[kind]].mean(0),
                                                              "active_at": 1 - passive[:, of[kind]].mean(0)},
                               f"of {d}, {meaning}")

    def claim(name, kind, each, meaning, **more):
        latents = of[kind]
        if not len(latents):
            skipped[name] = f"no latent is {kind}"
            return
        parts = {key: value[latents] for key, value in more.items()}
        most = {key: value.max() for key, value in parts.items()}
        results[name] = Result(name, float(each[latents].max()), {"latents": latents, "each": each[latents], **parts},
                               f"{kind} latents: {meaning.format(**most)}")

    count("active", f"those that say something of x: KL_j >= {passive_kl:g} nats at {NEARLY_ALL:.0%} of the examples; "
          f"at an example {(~passive).sum(1).mean():.1f} latents do so, on average")
    count("mixed", "those that are active at some examples and passive at others")
    count("passive", f"those whose posterior is the prior: KL_j < {passive_kl:g} nats at {NEARLY_ALL:.0%} of them")
    counts = ", ".join(f"{np.count_nonzero(public == kind)} {kind}" for kind in CLASSES)
    results["standard_prior_rule"] = Result(
        "standard_prior_rule", float((classes == public).mean()), {"classes": public},
        f"share of latents that the rule for p(z) = N(0, I) puts in the same class; it says {counts}")

    unit = (b ** 2).mean(0)         # of the prior: a learned one may have any scale
    claim("proposition_2", "passive", abs(m.mean(0) - a.mean(0)) / np.sqrt(unit),
          "the mean of mu_j is at most so many prior standard deviations from the prior's; "
          "Var(mu_j) from its mean's variance {variance:.2g} prior variances", variance=abs(m.var(0) - a.var(0)) / unit)
    claim("proposition_3_passive", "passive", abs((s ** 2).mean(0) - unit) / unit,
          "the mean of s_j^2 is at most so many prior variances from theirs; its spread from the prior's {spread:.2g}",
          spread=abs((s ** 2).std(0) - (b ** 2).std(0)) / unit)
    claim("proposition_3_active", "active", (s ** 2).mean(0) / unit,
          "the mean of s_j^2 is at most so many prior variances; itself {variance:.2g} and Var(s_j^2) {spread:.2g}",
          variance=(s ** 2).mean(0), spread=(s ** 2).var(0))
    to_prior, to_mean = ks_distances(z, prior), ks_distances(z, m)
    noise = f"samples of one distribution: {ks_noise(N):.3f} once in {1 / NOISE_LEVEL:.0f}"
    claim("theorem_2_passive", "passive", to_prior, f"largest KS distance of z_j to the prior's samples ({noise})")
    claim("theorem_2_active", "active", to_mean, f"largest KS distance of z_j to mu_j ({noise}); "
          "to the prior's samples {to_prior:.3f} at most", to_prior=to_prior)
    if len(of["mixed"]):
        results["theorem_2_mixed"] = _mixtures(passive, m, z, prior, of["mixed"])
    else:
        skipped["theorem_2_mixed"] = "no latent is mixed"
    return results, skipped


def _mixtures(passive, mean, z, prior, latents):
    """Theorem 2 (iii) for these latents: passive [N, d] says at which examples."""
    weights = passive[:, latents].mean(0)
    mixed = np.where(passive, prior, mean)[:, latents]
    distances = ks_distances(z[:, latents], mixed)
    fitted = np.array([mixing_weight(z[:, j], prior[passive[:, j], j], mean[~passive[:, j], j]) for j in latents])
    said = ", ".join(f"z{j} {c:.2f} ({f:.2f})" for j, c, f in zip(latents, weights, fitted, strict=True))
    return Result("theorem_2_mixed", float(distances.max()),
                  {"latents": latents, "each": distances, "mixing_weight": weights, "fitted_weight": fitted},
                  "mixed latents: largest KS distance of z_j to c p(prior) + (1 - c) p(mu_j where active); "
                  f"c, the share of examples where passive (fitted to z_j): {said}")
