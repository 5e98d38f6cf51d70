"""The configuration that flags give, and the models to train."""

import itertools
import math

from vae_tf import data, defaults, export, models, networks, runs
from vae_tf.errors import InputError

# Flags that a configuration has only where they are set: it equals those from before there was such a flag.
ONLY_WHERE_SET = ("optimizer_epsilon",)


def configuration(values, dataset):
    """Everything a run depends on, as a dict of JSON values; what flags leave open is filled in to suit the data.

    Raises:
        InputError: flags that do not go together.
    """
    by_heading = values.flags_by_module_dict()
    config = {flag.name: flag.value for heading in ("Model", "Data", "Training") for flag in by_heading[heading]
              if flag.name not in runs.OUTPUT and (flag.name not in ONLY_WHERE_SET or flag.value is not None)}
    own = models.find(config["model"]).options
    config.update({option.name: values[option.name].value for option in models.all_options().values()
                   if option in own or option.in_every_configuration})
    suited = data.suited(dataset)
    if config["init_from"]:
        try:
            config["init_from"] = str(export.newest(config["init_from"]))
        except InputError as error:
            raise InputError(f"--init_from: {error}") from None
        recipe = export.read_card(config["init_from"], export.TRAINED_FURTHER)["recipe"]
        suited.update({name: recipe[name] for name in ("network", "latents", "likelihood")})
    if values.epochs is not None:
        suited["steps"] = max(1, round(values.epochs * len(dataset) / values.batch_size))
    config.update({name: value for name, value in suited.items() if config[name] is None})
    if config["learning_rate"] is None:
        config["learning_rate"] = defaults.learning_rate(config["network"], dataset.shape)
    config["split"] = dataset.part.how if dataset.part else dataset.split_of(config["split"])
    config["data_fingerprint"] = dataset.fingerprint
    config["keras"] = networks.KERAS
    if config["likelihood"] == "bernoulli" and not dataset.is_image:
        raise InputError(f"--likelihood: bernoulli needs images; {dataset.name} has float vectors; "
                         "choices: gaussian, gaussian_learned")
    models.find(config["model"]).check_configuration(config, len(dataset))
    return config


def configurations(values, dataset):
    """{suffix of the name: configuration} of every model to train: one, or one per seed and value of beta.

    Raises:
        InputError: see configuration; or what cannot be trained as replicas.
    """
    config = configuration(values, dataset)
    betas = _betas(values.sweep_beta, config["model"]) if values.sweep_beta else [None]
    seeds = range(config["seed"], config["seed"] + values.replicas) if values.replicas else [None]
    configs = {}
    for beta, seed in itertools.product(betas, seeds):
        suffix = ("" if beta is None else f"-beta{beta:g}") + ("" if seed is None else f"-seed{seed}")
        given = {name: value for name, value in (("beta", beta), ("seed", seed)) if value is not None}
        configs[suffix] = {**config, **given}
    if len(configs) > 1 and config["precision"] == "mixed_float16":
        raise InputError("--precision: replicas cannot share one loss scale; expected float32 or mixed_bfloat16, "
                         "got mixed_float16")
    return configs


def _betas(given, model):
    if model not in models.with_beta():
        raise InputError(f"--sweep_beta: {model} has no beta; models with beta: {', '.join(models.with_beta())}")
    try:
        betas = [float(value) for value in given]
    except ValueError:
        betas = [math.nan]
    finite = all(math.isfinite(beta) and beta >= 0 for beta in betas)
    if not finite or len({f"{beta:g}" for beta in betas}) < len(betas):
        raise InputError("--sweep_beta: expected different finite numbers, not below 0, such as 0.5,1,4; "
                         f"got {','.join(given)}")
    return betas
