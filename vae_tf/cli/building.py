"""Models built and fitted as configured."""

import contextlib
import warnings

from vae_tf import devices, export, models, networks, objectives, training
from vae_tf.errors import InputError


def scaled_as_init_from(config, dataset):
    """The dataset as the export that --init_from names wants it: with u made of factors by the range of its training.

    Raises:
        InputError: that export's u cannot be made of this dataset's factors.
    """
    if not config["init_from"] or not models.find(config["model"]).conditional:
        return dataset
    card = export.read_card(config["init_from"])
    scaled = export.scaled_as_trained(dataset, card, "init_from")
    if outside := export.outside_of_training(dataset, card):
        warnings.warn(outside, stacklevel=2)
    return scaled


def build_model(config, dataset):
    """The freshly initialised model of a configuration, with the weights of the export that --init_from names.

    Raises:
        InputError: a model or an export that does not go with the data.
    """
    names = ("network", "latents", "likelihood", "likelihood_variance", "beta", "seed",
             *(option.name for option in models.find(config["model"]).options))
    model = models.build(config["model"], dataset.shape, u_size=dataset.u_size, examples=len(dataset),
                         dtype=config["precision"], **{name: config[name] for name in names})
    if config["init_from"]:
        export.load_weights(model, config["init_from"], config, dataset)
    return model


def strategy(values):
    """The tf.distribute strategy of --strategy; before TensorFlow computes anything.

    Raises:
        InputError: there is no such hardware or cluster, or it cannot do what other flags ask.
    """
    try:
        chosen = devices.choose_strategy(values.strategy)
    except InputError as error:
        raise InputError(f"--{error}") from None
    count = chosen.num_replicas_in_sync
    if count > 1 and (values.replicas or values.sweep_beta):
        raise InputError(f"--strategy: replicas train on one device; got {count} devices; "
                         "give --strategy=one_device, or neither --replicas nor --sweep_beta")
    if count > 1 and values.jit_compile == "true":
        raise InputError(f"--jit_compile: XLA compiles for one device; got {count} devices; expected auto or false")
    if values.batch_size % count:
        raise InputError(f"--batch_size: {count} devices share each batch evenly; expected a multiple of {count}, "
                         f"got {values.batch_size}")
    return chosen


def fit(configs, built, dataset, run_dirs, values, strategy):
    """Train as configured; see training.fit. Models built elsewhere end up with the weights."""
    config = configs[0]
    # Replicas train on one device.
    shared = strategy is not devices.choose_strategy("one_device") and len(configs) == 1

    def polarised(model, x, u):
        return objectives.polarised_kl(model.posterior(x, u), model.prior(u), config["active_threshold"])

    with strategy.scope() if shared else contextlib.nullcontext():
        optimizer = training.make_optimizer(config["optimizer"], config["learning_rate"], config["precision"],
                                       config.get("optimizer_epsilon"))
        model = build_model(config, dataset) if shared else built[0]
    options = {"steps": config["steps"], "batch_size": config["batch_size"],
               "warmup_steps": config["beta_warmup_steps"], "clip_gradients": config["clip_gradients"],
               "log_every": values.log_every, "checkpoint_every": values.checkpoint_every}
    if values.polarised_every and models.find(config["model"]).has_prior:
        options.update(watch=polarised, watch_every=values.polarised_every)
    if len(configs) > 1:
        return training.fit_replicas(built, dataset, optimizer, seeds=[each["seed"] for each in configs],
                                     run_dirs=run_dirs, jit_compile=config["jit_compile"] == "true", **options)
    auto = networks.NETWORKS[config["network"]].faster_compiled and dataset.is_image
    history = training.fit(model, dataset, optimizer, seed=config["seed"], run_dir=run_dirs[0],
                           jit_compile=auto if config["jit_compile"] == "auto" else config["jit_compile"] == "true",
                           **options)
    if shared:
        built[0].set_weights(model.get_weights())
    return [history]
