"""What evaluate.py's flags ask to be scored."""

import glob
import pathlib

import joblib

from vae_tf import evaluation, export, metrics
from vae_tf.cli.evaluate_flags import QUICK_EXAMPLES
from vae_tf.errors import InputError


def scoring(values):
    """What evaluation.score and evaluation.evaluate are asked: metrics, examples, seed, processes.

    Raises:
        InputError: no such metric.
    """
    named = {"default": metrics.DEFAULT, "all": tuple(metrics.ALL)}
    names = tuple(dict.fromkeys(name for given in values.metrics for name in named.get(given, (given,))))
    evaluation.check_names(names)
    return {"names": names, "seed": values.seed, "quick": values.quick, "latents": values.latents,
            "factors": values.factors, "samples_per_value": values.samples_per_value,
            "passive_kl": values.passive_kl, "jobs": values.jobs or joblib.cpu_count(),
            "examples": min(values.examples, QUICK_EXAMPLES) if values.quick else values.examples}


def export_names(given):
    """The exports that --compare names: each name as it is, each pattern (exported/vae*) as the folders it fits.

    Raises:
        InputError: a pattern that no exported model fits.
    """
    names = []
    for name in given:
        pattern = glob.has_magic(name)
        found = [path for path in sorted(glob.glob(name)) if any(pathlib.Path(path).glob(f"*/{export.CARD}"))
                 ] if pattern else [name]
        if not found:
            raise InputError(f"--compare: expected a pattern that exported models fit; got {name!r}")
        names += found
    return list(dict.fromkeys(names))
