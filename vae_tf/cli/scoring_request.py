"""What evaluate.py's flags ask to be scored."""

import glob
import pathlib

import joblib

from vae_tf import export, metrics
from vae_tf.cli.evaluate_flags import QUICK_EXAMPLES, QUICK_GEOMETRY
from vae_tf.errors import InputError


def scoring(values):
    """The fields of evaluation.Options that flags give: names of --metrics, --geometry and --theory, examples, seed.

    Raises:
        InputError: no such metric.
    """
    named = {"default": metrics.default_names(), "all": metrics.names("metrics")}
    names = tuple(dict.fromkeys(name for given in values.metrics for name in named.get(given, (given,))))
    for group, given in (("metrics", names), ("geometry", values.geometry), ("theory", values.theory)):
        metrics.check_names(given, group)
    return {"names": (*names, *values.geometry, *values.theory),
            "around": min(values.geometry_examples, QUICK_GEOMETRY) if values.quick else values.geometry_examples,
            "seed": values.seed, "quick": values.quick, "latents": values.latents,
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
