"""The flags that have an effect only beside others; one that has none is refused, because its user expects something.

A table names every flag of a program: None for a flag that always has an effect, or else an Effect. This is about flags
of the command line. A flagfile may hold flags that the command line makes idle, such as a recipe's --tc_estimator under
another --model; those are ignored, unless their effect says that they are refused there, too: who asks for early
stopping in a flagfile must not get a run without it.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from absl.flags import FlagValues

from vae_tf import data, metrics, models, training
from vae_tf.configuration import Configuration
from vae_tf.errors import InputError


class Training(NamedTuple):
    """What train.py was asked for: the flags, the configuration that they give, and the data."""

    flags: FlagValues
    config: Configuration
    dataset: data.Dataset

    @property
    def kind(self) -> type[models.Autoencoder]:
        """The class of the model."""
        return models.find(self.config.model)


class Effect(NamedTuple):
    """When a flag has an effect: in words, and as a function of a Training, or of evaluate.py's flags."""

    words: str
    holds: Callable[[Any], bool]
    in_flagfiles: bool = False      # whether an idle flag is refused in a flagfile, too


EffectTable = dict[str, Effect | None]

_IMAGES = Effect("with images", lambda asked: asked.dataset.is_image)
_PRIOR = Effect("with a model that has a prior", lambda asked: asked.kind.has_prior or not asked.flags.polarised_every)
_WATCHED = Effect("with a model that has a prior, and with --polarised_every above 0",
                  lambda asked: asked.kind.has_prior and asked.flags.polarised_every > 0)
_GAUSSIAN = Effect("with --likelihood=gaussian or gaussian_learned",
                   lambda asked: asked.config.likelihood != "bernoulli")
_BETA = Effect("with a model that has a beta", lambda asked: asked.kind.default_beta is not None)
_ONE_BETA = Effect("without --sweep_beta", lambda asked: not asked.flags.sweep_beta)
_ALONE = Effect("without --replicas and --sweep_beta, which train on one device",
                lambda asked: asked.flags.strategy in ("auto", "one_device")
                or not (asked.flags.replicas or asked.flags.sweep_beta))
_HELD_OUT = Effect("with --split=random, which holds out a part for validation",
                   lambda asked: asked.config.split == "random", in_flagfiles=True)
_VALIDATED = Effect("with --validate_every", lambda asked: asked.config.validate_every > 0, in_flagfiles=True)
_CHOSEN = Effect("with --validate_every and without --early_stopping, which exports the best weights",
                 lambda asked: asked.config.validate_every and not asked.config.early_stopping, in_flagfiles=True)
_PENALISED = Effect("with --jacobian_penalty", lambda asked: asked.config.jacobian_penalty != "none", in_flagfiles=True)
_WARMED_UP = Effect(f"with --learning_rate_schedule={' or '.join(training.WARMED_UP)}",
                    lambda asked: asked.config.learning_rate_schedule in training.WARMED_UP, in_flagfiles=True)

TRAINING: EffectTable = {
    **dict.fromkeys(("model", "network", "latents", "likelihood", "dataset", "data_dir", "data_seed", "split", "steps",
                     "epochs", "batch_size", "optimizer", "learning_rate", "learning_rate_schedule",
                     "optimizer_epsilon", "clip_gradients", "jacobian_penalty",
                     "precision", "jit_compile", "seed", "init_from", "replicas", "sweep_beta", "memory_limit", "name",
                     "run_root", "export_root", "restart", "log_every", "checkpoint_every", "keep_versions")),
    "likelihood_variance": _GAUSSIAN, "beta": _ONE_BETA, "beta_warmup_steps": _BETA, "strategy": _ALONE,
    "learning_rate_warmup_steps": _WARMED_UP, "validate_every": _HELD_OUT, "early_stopping": _VALIDATED,
    **dict.fromkeys(("jacobian_weight", "jacobian_examples"), _PENALISED),
    "export_weights": _CHOSEN, "active_threshold": _WATCHED, "polarised_every": _PRIOR, "accept_dark": _IMAGES,
    "images_every": _IMAGES,
}

_NO_CODES = Effect("without --codes", lambda flags: not flags.codes)
_NO_COMPARE = Effect("without --compare", lambda flags: not flags.compare)
_COMPARE = Effect("with --compare", lambda flags: bool(flags.compare))
_EXPORT = Effect("without --codes and --compare", lambda flags: not flags.codes and not flags.compare)
_OF_MODELS = [name for metric in metrics.METRICS.values() if metric.group != "metrics"
              for name in (metric.name, *metric.also)]
_AROUND = Effect("without --codes, and with a name in --geometry or --theory",
                 lambda flags: bool(not flags.codes and (flags.compare or flags.geometry or flags.theory
                                                         or {*_OF_MODELS} & {*flags.metrics})))
_SAMPLED = [name for name, metric in metrics.METRICS.items() if "samples_per_value" in metric.options]
_SAMPLES = Effect(f"with --metrics={' or '.join(_SAMPLED)}",
                  lambda flags: bool(not flags.compare and {*_SAMPLED, "all"} & {*flags.metrics}))

SCORING: EffectTable = {
    **dict.fromkeys(("compare", "seed", "memory_limit", "metrics", "examples", "jobs", "verbose")),
    **dict.fromkeys(("codes", "latents", "factors", "passive_kl"), _NO_COMPARE),
    **dict.fromkeys(("group_by", "comparison_dir"), _COMPARE),
    **dict.fromkeys(("trust_export", "dataset", "data_dir", "data_seed", "split", "geometry", "theory"), _NO_CODES),
    **dict.fromkeys(("export", "animate"), _EXPORT),
    "quick": None, "geometry_examples": _AROUND, "samples_per_value": _SAMPLES,
}


def list_training_effects() -> EffectTable:
    """Return the table of train.py's flags, those of the models' own options included."""
    return {**TRAINING, **{option.name: _need_option(option.name) for option in models.list_options().values()}}


def check_effects(table: Mapping[str, Effect | None], flags: FlagValues, asked: Any) -> None:
    """Raise InputError for a flag that has no effect beside the others, see the table.

    Args:
        table: the effects of all flags.
        flags: the flags, of which those in flagfiles alone count as not present, see program.read_flags.
        asked: what the effects are functions of.
    """
    for name, effect in table.items():
        is_given = flags[name].value != flags[name].default
        if effect and is_given and (flags[name].present or effect.in_flagfiles) and not effect.holds(asked):
            raise InputError(f"--{name}: it has an effect only {effect.words}; leave out this flag or the other")


def _need_option(name: str) -> Effect:
    kinds = [kind for kind, model in models.MODELS.items() if any(option.name == name for option in model.options)]
    return Effect(f"with --model={' or '.join(kinds)}",
                  lambda asked: any(option.name == name for option in asked.kind.options))
