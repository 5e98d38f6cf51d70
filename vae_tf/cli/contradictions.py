"""Refuse flags of train.py that contradict each other, as far as flags alone can tell: neither data nor TensorFlow."""

import math

from absl.flags import FlagValues

from vae_tf.arguments import LARGEST_SEED
from vae_tf.cli import choices, training_effects
from vae_tf.cli.effects import check_effects
from vae_tf.cli.groups import is_float32
from vae_tf.cli.train_flags import MOST_REPLICAS
from vae_tf.errors import InputError


def check_train_flags(flags: FlagValues) -> None:
    """Raise InputError for flags that have no effect beside the others, or for models that are no replicas."""
    check_effects(training_effects.list_effects(), flags, flags)
    betas, seeds = len(read_betas(flags)) or 1, flags.replicas or 1
    if betas * seeds > MOST_REPLICAS:
        raise InputError(f"--replicas: expected at most {MOST_REPLICAS:,} models; got {seeds:,} for each of "
                         f"{betas:,} values of --sweep_beta")
    if flags.seed + seeds - 1 > LARGEST_SEED:
        raise InputError(f"--replicas: their seeds go from --seed on; expected at most {LARGEST_SEED:,} for the last "
                         f"one, got {flags.seed + seeds - 1:,}")
    if betas * seeds > 1 and flags.precision == "mixed_float16":
        raise InputError("--precision: replicas cannot share one loss scale; expected float32 or mixed_bfloat16, "
                         "got mixed_float16")


def read_betas(flags: FlagValues) -> list[float]:
    """Return the values of --sweep_beta; empty if there are none.

    Raises:
        InputError: a model without beta, or values that are no numbers or not different ones.
    """
    if flags.sweep_beta is None:
        return []
    with_beta = [name for name, model in choices.find().models.items() if model.default_beta is not None]
    if flags.model not in with_beta:
        raise InputError(f"--sweep_beta: {flags.model} has no beta; models with beta: {', '.join(with_beta)}")
    try:
        betas = [float(value) for value in flags.sweep_beta]
    except ValueError:
        betas = [math.nan]
    finite = bool(betas) and all(beta == 0 or is_float32(beta) for beta in betas)
    if not finite or len({f"{beta:g}" for beta in betas}) < len(betas):
        raise InputError("--sweep_beta: expected different finite numbers, not below 0, such as 0.5,1,4; "
                         f"got {','.join(flags.sweep_beta) or 'none'}")
    return betas
