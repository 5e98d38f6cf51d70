"""Judge whether a model's scores mean something: count the latents that carry information about x, and say so.

A model that has collapsed (no latent says anything about x) still has codes, a decoder and a Jacobian, and every metric
gives some number for them. Those numbers mean nothing, so tables show the reason instead of them.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from vae_tf import activity, metrics
from vae_tf import probability as tfd
from vae_tf.data.spreading import draw_to_score
from vae_tf.errors import NonFiniteError

EXAMPLES = 500          # number of examples by which a freshly trained model is judged
FEWEST_NATS = math.log(2)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Which latents carry information.

    kl: mean over examples of KL(q(z_j|x) || p(z_j)) [d], nats; None for codes without a posterior.
    dependence: mean over examples of the total correlation of q(z|x), nats; 0 unless it has a full covariance.
    informative: bool [d]; of codes without a posterior, those that vary (activity.is_alive).
    given_u: whether the prior differs between examples, as one learned from u does; KL then counts what x says beyond
        u.
    """

    kl: np.ndarray | None
    informative: np.ndarray
    given_u: bool = False
    dependence: float = 0.0

    @property
    def nats(self) -> float | None:
        """The mean of KL(q(z|x) || p(z)), which all latents carry together; None for codes without a posterior."""
        return None if self.kl is None else float(self.kl.sum()) + self.dependence

    @property
    def count(self) -> int:
        """How many latents carry information."""
        return int(self.informative.sum())

    @property
    def is_alone(self) -> bool:
        """Whether one latent carries information, and what is said beside it is less than log 2 nats."""
        if self.count != 1 or self.nats is None or self.kl is None:
            return self.count == 1
        return not self.dependence or self.nats - float(self.kl.max()) < FEWEST_NATS

    @property
    def state(self) -> str:
        """"dead": no latent says anything; "nearly dead": all together say less than log 2 nats; else "alive".

        Many latents of a full covariance may say much together, and nothing alone.
        """
        if not self.count and not (self.dependence and self.nats and self.nats >= FEWEST_NATS):
            return "dead"
        return "nearly dead" if self.nats is not None and self.nats < FEWEST_NATS else "alive"


def judge(mean: np.ndarray, stddev: np.ndarray | None = None, prior_mean: np.ndarray | None = None,
          prior_stddev: np.ndarray | None = None, dependence: np.ndarray | None = None) -> Verdict:
    """Judge codes [N, d] and, if there is one, their posterior's stddev; p(z) = N(0, I) if no prior is given.

    `dependence` [N] is of posteriors with a full covariance, whose marginals say less than they do together; see
    `activity.find_dependence`.

    Raises:
        InputError: arrays that are not finite or do not fit together.
    """
    if stddev is None:
        return Verdict(None, activity.is_alive(np.asarray(mean, np.float64)))
    prior: Any = (0.0, 1.0) if prior_mean is None else (prior_mean, prior_stddev)
    kl = activity.kl_per_latent(mean, stddev, *prior).mean(0)
    return Verdict(kl, activity.is_informative(kl), any(np.ptp(np.atleast_2d(array), axis=0).any() for array in prior),
                   0.0 if dependence is None else float(np.mean(dependence)))


def judge_model(model: Any, dataset: Any, seed: int = 0) -> Verdict:
    """Judge a models.Autoencoder, from 500 examples of a dataset.

    Raises:
        NonFiniteError: the model's weights are finite, but its posterior is not, because training has diverged.
    """
    indices = draw_to_score(len(dataset), EXAMPLES, seed)
    x, u = dataset.images_at(indices), dataset.u_at(indices) if model.u_size else None
    posterior, prior = model.posterior(x / np.float32(255) if dataset.is_image else x, u), model.prior(u)
    mean = posterior.mean().numpy()
    normal = isinstance(prior, tfd.MultivariateNormalDiag)      # KL_j is known for independent normal latents alone
    stddev = posterior.stddev().numpy() if normal else np.ones_like(mean)
    if not (np.isfinite(mean).all() and np.isfinite(stddev).all() and (stddev > 0).all()):
        raise NonFiniteError("posterior: expected finite means, and finite standard deviations above 0; got NaN, "
                             "infinity or 0 after the last step, so training has diverged and nothing is exported. Try "
                             "a smaller --learning_rate, with --restart or another --name")
    if not normal:
        return judge(mean)
    prior_mean, prior_stddev = (np.broadcast_to(array.numpy(), mean.shape) for array in (prior.mean(), prior.stddev()))
    full = isinstance(posterior, tfd.MultivariateNormalTriL)
    return judge(mean, stddev, prior_mean, prior_stddev,
                 activity.find_dependence(posterior.scale_tril.numpy()) if full else None)


def describe(verdict: Verdict) -> str:
    """Describe a verdict in one or two sentences."""
    d, count = len(verdict.informative), verdict.count
    if verdict.kl is None:
        if not count:
            return (f"No latent varies over x by more than {activity.ROUNDING**0.5:g} of its size, which may be "
                    "nothing but float32's rounding: then every score of the codes is noise. If they do vary, subtract "
                    "their mean.")
        return (f"{count} of {d} latents {_conjugate('var', count, 'y', 'ies')} over x. Without a posterior, "
                "nothing says how much information they carry.")
    beyond = " beyond what u says" if verdict.given_u else ""
    if not count and verdict.state == "alive":
        return (f"All {d} latents together carry {verdict.nats:.3g} nats of information about x{beyond}, and none has "
                f"a mean KL of {activity.INFORMATIVE_KL:g} nats alone: they are turned against what they carry.")
    if not count:
        return (f"No latent says anything about x{beyond}: posterior collapse. The mean of KL(q(z_j|x) || p(z_j)) is "
                f"below {activity.INFORMATIVE_KL:g} nats for each of the {d} latents (the largest is "
                f"{verdict.kl.max():.2g}), so every score of the codes and of the decoder's columns is noise.")
    sentence = (f"{count} of {d} latents {_conjugate('carr', count, 'y', 'ies')} information about x{beyond} (a mean "
                f"KL of {activity.INFORMATIVE_KL:g} nats or more), {verdict.nats:.3g} nats together.")
    if verdict.state == "nearly dead":
        return (f"Nearly dead: {sentence} Telling two halves of the data apart takes log 2 = {FEWEST_NATS:.2f} nats, "
                "so scores of the codes are scores of next to nothing.")
    if verdict.is_alone and d > 1:
        return sentence + " One latent has no other to be orthogonal to, or disentangled from."
    return sentence


def _conjugate(stem: str, count: int, plural: str, singular: str) -> str:
    return stem + (singular if count == 1 else plural)


def advise(card: Mapping[str, Any]) -> str:
    """Say in one sentence what may revive a dead model, from the card of its export."""
    if not card["steps"]:
        return "It is untrained: a number of --steps above 0 trains it."
    from vae_tf import models  # imports TensorFlow, which scoring codes does not need

    kind = models.find_declared(card)
    if not kind.has_prior:
        return "Train longer, with another --seed, or with another --network."
    weaker = kind.suggest_weaker_kl(card["beta"])
    if card["likelihood"] == "bernoulli":
        return f"Try {weaker}, a beta that grows slowly (--beta_warmup_steps), or more --steps."
    variance = card.get("likelihood_variance")
    now = f" (it is {variance:.3g})" if variance is not None else ""
    return f"Try a smaller --likelihood_variance{now}, or {weaker}: either makes the KL cheaper against x."


def explain_no_meaning(verdict: Verdict | None, name: str) -> str | None:
    """Return why a score means nothing for a model with this verdict, or None if it means something.

    Args:
        verdict: on the model; None for a posterior that is not finite.
        name: the name of a score. One that is no metric, such as elbo, means something for every model.
    """
    metric = metrics.METRICS.get(name)
    if verdict is None or metric is None:
        return None
    if verdict.state == "dead" and "dead" in metric.no_meaning_for:
        if verdict.kl is None:
            return f"no latent varies over x by more than {activity.ROUNDING**0.5:g} of its size, which may be rounding"
        return "no latent says anything about x"
    if verdict.state == "nearly dead" and verdict.kl is not None and "nearly dead" in metric.no_meaning_for:
        return f"all latents together say {verdict.nats:.2g} nats of x, less than log 2"
    if verdict.is_alone and "one latent" in metric.no_meaning_for:
        return "one latent carries information, and has no other to be orthogonal to"
    return None


def write_closing_lines(verdicts: dict[str, Verdict], cards: dict[str, Mapping[str, Any]]) -> list[str]:
    """Describe the trained models for train.py, dead ones first: {name: Verdict}, {name: card of the export}."""
    if not any(card["steps"] for card in cards.values()):
        return [f"{name} is untrained: its weights are random." for name in verdicts]
    worst = [name for state in ("dead", "nearly dead") for name, verdict in verdicts.items() if verdict.state == state]
    lines = [f"{name}: {describe(verdicts[name])} {advise(cards[name])}" for name in worst]
    alive = [name for name in verdicts if name not in worst]
    if len(alive) == 1:
        lines.append(f"{alive[0]}: {describe(verdicts[alive[0]])}")
    elif alive:
        counts = sorted({verdicts[name].count for name in alive})
        lines.append(f"{len(alive)} of {len(verdicts)} models are alive: "
                     f"{' or '.join(map(str, counts))} of {len(verdicts[alive[0]].informative)} latents "
                     "carry information about x" + (" alone; where none does, all do together." if not counts[0]
                                                    else "."))
    return lines
