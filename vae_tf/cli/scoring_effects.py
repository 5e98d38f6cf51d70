"""When each flag of evaluate.py has an effect."""

from vae_tf import metrics
from vae_tf.cli.effects import Effect, EffectTable

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
_SAMPLES = Effect(f"with {' or '.join(_SAMPLED)} in --metrics, where they are by default",
                  lambda flags: bool(not flags.compare and {*_SAMPLED, "default", "all"} & {*flags.metrics}))

EFFECTS: EffectTable = {
    **dict.fromkeys(("compare", "seed", "memory_limit", "metrics", "examples", "jobs", "verbose")),
    **dict.fromkeys(("codes", "latents", "factors", "passive_kl"), _NO_COMPARE),
    **dict.fromkeys(("group_by", "comparison_dir"), _COMPARE),
    **dict.fromkeys(("trust_export", "dataset", "data_dir", "data_seed", "split", "geometry", "theory"), _NO_CODES),
    **dict.fromkeys(("export", "animate"), _EXPORT),
    "quick": None, "geometry_examples": _AROUND, "samples_per_value": _SAMPLES,
}
