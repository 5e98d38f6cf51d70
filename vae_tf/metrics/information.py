"""Metrics from the mutual information of codes and factors: mig, mig_sup, modularity."""

import warnings

import numpy as np
import scipy

from vae_tf import activity, arguments
from vae_tf.arguments import Bins, Count, Seed, Share
from vae_tf.errors import InputError
from vae_tf.kinds import decide
from vae_tf.metrics.registry import register
from vae_tf.metrics.result import Result, check_arrays, discretise, find_classes, find_varying

ROUNDING = 1e-14        # nats; sums of up to some thousand rounded terms do not tell less from independence


def factor_information(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20, binning: str = "equal_width",
                       kinds: tuple[str, ...] | str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return I(z_j; v_k) [d, K] and H(v_k) [K] in nats, from histograms.

    codes [N, d] are binned, see `discretise`; factors [N, K] are classes, see `find_classes`.
    """
    z = [discretise(column, bins, binning) for column in codes.T]
    v = find_classes(factors, bins, kinds).T
    return (np.array([[pair_information(a, b) for b in v] for a in z]),
            np.array([scipy.stats.entropy(np.bincount(b)) for b in v]))


def pair_information(a: np.ndarray, b: np.ndarray) -> float:
    """Return I(a; b) in nats of two columns of small integers [N]."""
    shape = a.max() + 1, b.max() + 1
    shares = np.bincount(a * shape[1] + b, minlength=shape[0] * shape[1]).reshape(shape) / len(a)
    independent = shares.sum(1, keepdims=True) * shares.sum(0)
    information = float(scipy.special.rel_entr(shares, independent).sum())
    return information if information > ROUNDING else 0.0


def gaps(table: np.ndarray) -> np.ndarray:
    """Return each column's largest entry less its second largest; with one row, that row itself."""
    top = np.sort(table, axis=0)[-2:]
    return top[-1] - top[0] if len(table) > 1 else table[0]


@register(needs=("codes", "factors"), range=(0, 1), unchanged_by=("permutation", "relabelling"),
          nearly_unchanged_by=("sign", "scale"), by_factor=True,
          meaning="whether each factor is known to one latent alone, by mutual information")
def mig(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20, binning: str = "equal_width",
        kinds: tuple[str, ...] | str | None = None) -> Result:
    """Mutual information gap (Chen 2018, eq. 6), with disentanglement_lib's histograms.

    The score is the mean over factors k of (I(z_a; v_k) - I(z_b; v_k)) / H(v_k), where z_a and z_b are the two latents
    that know most about v_k. It is in [0, 1]. It is 1 if each factor is known wholly to one latent and to no other. It
    is 0 if for each factor two latents know equally much, or none knows anything. With one latent, I(z_b; v_k) is 0. A
    constant factor has no information to be gained; it is left out, with a warning.

    Args:
        codes: [N, d], usually posterior means; 10,000 rows are usual, and fewer raise the chance level.
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: number of bins of each latent.
        binning: "equal_width", in which one outlier squeezes all other codes into few bins, or "quantile".
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.

    Returns:
        Result; parts: gap [K], latent [K] (z_a), mutual_information [d, K] and entropy [K] in nats, kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, no such binning, or no factor that varies.
    """
    codes, factors = check_arrays(codes, factors)
    kinds = decide(factors, kinds)
    varies = find_varying("mig", factors)
    information, of_factor = factor_information(codes, factors, bins, binning, kinds)
    gap = np.divide(gaps(information), of_factor, where=varies, out=np.full(len(of_factor), np.nan))
    return Result("mig", float(gap[varies].mean()),
                  {"gap": gap, "latent": information.argmax(0), "mutual_information": information,
                   "entropy": of_factor, "kinds": np.array(kinds)},
                  "0: no factor has a latent of its own; 1: every factor is known to exactly one latent")


@register(needs=("codes", "factors"), active="is_varying", range=(0, 1),
          unchanged_by=("permutation", "relabelling"), nearly_unchanged_by=("sign",),
          meaning="whether each active latent knows one factor alone, by mutual information")
def mig_sup(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20, binning: str = "equal_width",
            kinds: tuple[str, ...] | str | None = None, prior_means: activity.PriorMeans = 0.0,
            prior_stddevs: activity.Widths = 1.0) -> Result:
    """MIG-sup: does each latent know one factor alone? (Li 2020)

    The score is the mean over active latents j of I(z_j; v_a)/H(v_a) - I(z_j; v_b)/H(v_b), where v_a and v_b are the
    two factors of which z_j knows most. It is in [0, 1]. It is 1 if every active latent holds one factor wholly and
    nothing of another. It is 0 if every active latent holds two factors equally, or nothing. MIG does not see a latent
    that holds two factors; MIG-sup does not see a factor that two latents hold. A latent is active if Var(z_j) is above
    0.01 prior variances (`activity.is_varying`), so the score depends on the scale of the codes. With no active latent
    it is 0, with a warning.

    Args:
        codes: [N, d], usually posterior means.
        factors: [N, K]; discrete ones are classes, continuous ones are put into `bins` equal-width bins.
        bins: the number of bins of each latent.
        binning: "equal_width" or "quantile", as for `mig`.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.
        prior_means, prior_stddevs: [N, d] of the iVAE's p(z|u), or of N(0, I).

    Returns:
        Result; parts: gap [d], factor [d], active [d], active_latents, normalised_information [d, K], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, no such binning, or no factor that varies.
    """
    codes, factors = check_arrays(codes, factors)
    kinds = decide(factors, kinds)
    varies = find_varying("mig_sup", factors)
    information, of_factor = factor_information(codes, factors, bins, binning, kinds)
    normalised = np.divide(information, of_factor, where=varies, out=np.zeros_like(information))
    gap, active = gaps(normalised.T), activity.is_varying(codes, prior_means, prior_stddevs)
    if not active.any():
        warnings.warn(f"mig_sup is 0: no latent has a variance above {activity.VARYING_MEANS:g} prior variances",
                      stacklevel=2)
    return Result("mig_sup", float(gap[active].mean()) if active.any() else 0.0,
                  {"gap": gap, "factor": normalised.argmax(1), "active": active,
                   "active_latents": np.array(active.sum()), "normalised_information": normalised,
                   "kinds": np.array(kinds)},
                  f"0: no latent is about one factor; 1: each of the {active.sum()} latents with "
                  f"Var(mu_j) > {activity.VARYING_MEANS:g} is one factor")


@register(needs=("codes", "factors"), range=(0, 1), unchanged_by=("permutation", "relabelling"),
          nearly_unchanged_by=("sign", "scale"), meaning="whether each latent knows one factor at most, however little")
def modularity(codes: np.ndarray, factors: np.ndarray, bins: Bins = 20,
               kinds: tuple[str, ...] | str | None = None) -> Result:
    """Modularity: is each latent informative about one factor at most? (Ridgeway, Mozer 2018)

    The score is the mean over latents j of 1 - sum_{k != a} I(z_j; v_k)^2 / (I(z_j; v_a)^2 (K - 1)), where v_a is the
    factor of which z_j knows most. It is in [0, 1]. It is 1 if every latent knows one factor alone, however little. It
    is 0 if every latent knows all factors equally, or nothing at all. That a dead latent counts 0 is
    disentanglement_lib's rule; the part active_only leaves dead latents out. The score does not say whether many
    latents know a factor, nor how well. Noise alone scores far above 0, so a score must be compared with its chance
    level.

    Args:
        codes: [N, d].
        factors: [N, K], K >= 2; discrete ones are classes, continuous ones are put into `bins` bins.
        bins: number of equal-width bins of each latent.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.

    Returns:
        Result; parts: per_latent [d], factor [d], active_only, mutual_information [d, K], kinds [K].

    Raises:
        InputError: shapes that disagree, NaN, or fewer than two factors that vary.
    """
    codes, factors = check_arrays(codes, factors)
    kinds = decide(factors, kinds)
    varies = find_varying("modularity", factors)
    if varies.sum() < 2:
        raise InputError("factors: modularity expects at least two that vary; got 1")
    information, _ = factor_information(codes, factors, bins, kinds=kinds)
    squared = information[:, varies]**2
    largest = squared.max(1)
    informative = largest > 0
    others = (squared.sum(1) - largest) / (varies.sum() - 1)
    per_latent = np.where(informative, 1 - others / np.where(informative, largest, 1), 0)
    return Result("modularity", float(per_latent.mean()),
                  {"per_latent": per_latent, "factor": information.argmax(1),
                   "active_only": np.array(per_latent[informative].mean() if informative.any() else 0.0),
                   "mutual_information": information, "kinds": np.array(kinds)},
                  "0: latents know all factors equally, or nothing; 1: each latent knows one factor alone")


@arguments.check
def find_best_known_factors(codes: np.ndarray, factors: np.ndarray, shuffles: Count = 20, least: Share = 0.01,
                            seed: Seed = 0, kinds: tuple[str, ...] | str | None = None,
                            ) -> list[tuple[int, float] | None]:
    """Return the factor that each latent knows best and the share of it that it knows: d pairs (k, share), or None.

    The share is I(z_j; v_k) / H(v_k), as in `mig`. A latent's entry is None if no share of it is above `least` and more
    than five standard deviations above the mean share of shuffled codes.

    Args:
        codes: [N, d].
        factors: [N, K].
        shuffles: number of times that the codes are shuffled.
        least: smallest share that is worth a name.
        seed: seed of the shuffles.
        kinds: kinds of the factors, see `vae_tf.kinds.decide`.

    Raises:
        InputError: shapes that disagree, or NaN. A constant factor raises none, and no latent is given its name.
    """
    codes, factors = check_arrays(codes, factors)
    z, v = (np.stack([discretise(column) for column in codes.T]), find_classes(factors, kinds=kinds).T)
    of_factor, rng = np.array([scipy.stats.entropy(np.bincount(b)) for b in v]), np.random.default_rng(seed)

    def shares(rows: slice | np.ndarray) -> np.ndarray:
        table = np.array([[pair_information(a[rows], b) for b in v] for a in z])
        return np.divide(table, of_factor, where=of_factor > 0, out=np.zeros_like(table))

    found = shares(slice(None))
    chance = np.stack([shares(rng.permutation(len(codes))) for _ in range(shuffles)])
    limit = np.maximum(chance.mean(0) + 5 * chance.std(0), least)
    found = np.where(found > limit, found, 0)
    return [(int(row.argmax()), float(row.max())) if row.any() else None for row in found]
