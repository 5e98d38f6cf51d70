"""When each flag of train.py has an effect: by the other flags alone, or by the data, too."""

from typing import Any, NamedTuple

from vae_tf import data
from vae_tf.cli import choices
from vae_tf.cli.effects import Effect, EffectTable
from vae_tf.configuration import Configuration


class Training(NamedTuple):
    """The configuration that flags give with some data, and these data."""

    config: Configuration
    dataset: data.Dataset


_IMAGES = Effect("with images", lambda asked: asked.dataset.is_image)
_GAUSSIAN = Effect("with --likelihood=gaussian, or with gaussian_learned and without --init_from (the export that it "
                   "names has a variance of its own)",
                   lambda asked: asked.config.likelihood == "gaussian" or (
                       asked.config.likelihood == "gaussian_learned" and asked.config.init_from is None))
_HELD_OUT = Effect("with --split=random, which holds out a part for validation",
                   lambda asked: asked.config.split == "random", in_flagfiles=True)

# The effects that depend on the data, which are functions of a Training.
WITH_DATA: EffectTable = {"likelihood_variance": _GAUSSIAN, "validate_every": _HELD_OUT, "accept_dark": _IMAGES,
                          "images_every": _IMAGES}

_PRIOR = Effect("with a model that has a prior",
                lambda flags: _find_model(flags).has_prior or not flags.polarised_every)
_WATCHED = Effect("with a model that has a prior, and with --polarised_every above 0",
                  lambda flags: _find_model(flags).has_prior and flags.polarised_every > 0)
_WARMING = Effect("with a model that has a beta, or a capacity that grows", lambda flags: _find_model(flags).warms_up)
_DIVIDING = Effect("without --optimizer=sgd, whose update has no denominator", lambda flags: flags.optimizer != "sgd")
_ONE_BETA = Effect("without --sweep_beta", lambda flags: not flags.sweep_beta)
_ALONE = Effect("without --replicas and --sweep_beta, which train on one device",
                lambda flags: flags.strategy in ("auto", "one_device") or not (flags.replicas or flags.sweep_beta))
_VALIDATED = Effect("with --validate_every", lambda flags: flags.validate_every > 0, in_flagfiles=True)
_CHOSEN = Effect("with --validate_every and without --early_stopping, which exports the best weights",
                 lambda flags: flags.validate_every and not flags.early_stopping, in_flagfiles=True)
_TRAINED = Effect("with --steps above 0, because 0 exports the untrained model, whose weights are random",
                  lambda flags: flags.steps != 0, in_flagfiles=True)
_PENALISED = Effect("with --jacobian_penalty", lambda flags: flags.jacobian_penalty != "none", in_flagfiles=True)

_OF_ALL_MODELS: EffectTable = {
    **dict.fromkeys(("model", "network", "latents", "likelihood", "dataset", "data_dir", "data_seed", "split", "steps",
                     "epochs", "batch_size", "optimizer", "learning_rate", "learning_rate_schedule",
                     "clip_gradients", "jacobian_penalty", "precision", "jit_compile", "seed", "replicas", "sweep_beta",
                     "memory_limit", "name", "run_root", "export_root", "restart", "log_every", "checkpoint_every",
                     "keep_versions")),
    "beta": _ONE_BETA, "beta_warmup_steps": _WARMING, "init_from": _TRAINED, "strategy": _ALONE,
    "optimizer_epsilon": _DIVIDING, "early_stopping": _VALIDATED,
    **dict.fromkeys(("jacobian_weight", "jacobian_examples"), _PENALISED),
    "export_weights": _CHOSEN, "active_threshold": _WATCHED, "polarised_every": _PRIOR,
}


def list_effects() -> EffectTable:
    """Return the effects that depend on flags alone, as functions of the flags; models' own options are among them."""
    known = choices.find()
    warmed_up = Effect(f"with --learning_rate_schedule={' or '.join(known.warmed_up)}",
                       lambda flags: flags.learning_rate_schedule in known.warmed_up, in_flagfiles=True)
    names = dict.fromkeys(option.name for model in known.models.values() for option in model.options)
    return {**_OF_ALL_MODELS, "learning_rate_warmup_steps": warmed_up, **{name: _need_option(name) for name in names}}


def _need_option(name: str) -> Effect:
    def has_option(model: choices.Model) -> bool:
        return any(option.name == name for option in model.options)

    kinds = [kind for kind, model in choices.find().models.items() if has_option(model)]
    return Effect(f"with --model={' or '.join(kinds)}", lambda flags: has_option(_find_model(flags)))


def _find_model(flags: Any) -> choices.Model:
    return choices.find().models[flags.model]
