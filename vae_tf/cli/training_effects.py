"""When each flag of train.py has an effect."""

from typing import NamedTuple

from absl.flags import FlagValues

from vae_tf import data, models, training
from vae_tf.cli.effects import Effect, EffectTable
from vae_tf.configuration import Configuration


class Training(NamedTuple):
    """What train.py was asked for: the flags, the configuration that they give, and the data."""

    flags: FlagValues
    config: Configuration
    dataset: data.Dataset

    @property
    def kind(self) -> type[models.Autoencoder]:
        """The class of the model."""
        return models.find(self.config.model)


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

_OF_ALL_MODELS: EffectTable = {
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


def list_effects() -> EffectTable:
    """Return the table of train.py's flags, those of the models' own options included."""
    return {**_OF_ALL_MODELS, **{option.name: _need_option(option.name) for option in models.list_options().values()}}


def _need_option(name: str) -> Effect:
    kinds = [kind for kind, model in models.MODELS.items() if any(option.name == name for option in model.options)]
    return Effect(f"with --model={' or '.join(kinds)}",
                  lambda asked: any(option.name == name for option in asked.kind.options))
