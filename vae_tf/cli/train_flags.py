"""The flags of train.py."""

from absl import flags

from vae_tf import data, devices, distributions, models, networks, training
from vae_tf.cli.data_flags import _define_data_flags
from vae_tf.cli.groups import _Group
from vae_tf.errors import InputError


def define_train_flags(values=flags.FLAGS):
    """Define train.py's flags; returns {group: names}, in the order of --help."""
    group = _Group(values)
    group.start("Model")
    group.enum("model", models.DEFAULT, models.MODELS, "Kind of model to train.")
    group.enum("network", None, networks.NETWORKS, "Encoder and decoder; by default one that suits the dataset.")
    group.integer("latents", None, "Size of z; by default one that suits the dataset.", lower_bound=1)
    group.enum("likelihood", None, distributions.LIKELIHOODS,
               "p(x|z); bernoulli for images and gaussian for vectors by default.")
    group.float("likelihood_variance", None, "Variance of the gaussian likelihood, per pixel or entry of a vector; the "
                "variance of gaussian_learned starts there; by default one that suits the dataset.")
    group.float("beta", None, f"Weight of the KL term{_other_terms()}; by default {_default_betas()}. A --model "
                "without beta ignores that of a --flagfile.", positive=False)
    group.integer("beta_warmup_steps", 0, "Number of steps in which beta grows linearly from 0.", lower_bound=0)
    _define_data_flags(group, data.DEFAULT, f"Data to train on: one of {', '.join(data.DATASETS)}, or the path "
                       "of an .npz file with images [N,H,W,C] or data [N,n], and optional factors [N,K] and u.")
    group.start("Training")
    group.integer("steps", None, "Number of updates in all; by default one that suits the dataset. 0 exports the "
                  "untrained model, whose weights are random.", lower_bound=0)
    group.float("epochs", None, "Length of training in passes over the training data, instead of --steps.")
    group.integer("batch_size", 64, "Number of examples per update.", lower_bound=1)
    group.enum("optimizer", "adam", training.OPTIMIZERS, "Update rule for the weights.")
    group.float("learning_rate", None, "Step size of the optimizer; by default one that suits the dataset and the "
                "network.")
    group.float("optimizer_epsilon", None, "Number that adam, adagrad and rmsprop add to what they divide by; 1e-7 by "
                "default.")
    group.float("clip_gradients", 0, "Largest norm of a step's gradient, which is scaled down to it where it is "
                "longer; 0 never scales it.", positive=False)
    group.enum("precision", "float32", networks.DTYPES,
               "Number format in which layers compute; weights and results stay float32.")
    group.enum("jit_compile", "auto", ("auto", "true", "false"),
               "Compile the step with XLA; auto does so for wide dense networks on images, where it is faster.")
    group.integer("seed", 0, "Seed for the initial weights, the order of examples and the noise.",
                  lower_bound=0, upper_bound=2_000_000)
    group.path("init_from", None, "Start with the weights of an export of the same kind of model: exported/NAME "
               "(its newest version) or exported/NAME/VERSION; the optimizer starts anew.")
    group.integer("replicas", None, "Train this number of models as one program, with seeds from --seed on. Each has "
                  "its own run, NAME-seedS, the same as if it were trained alone.", lower_bound=1)
    group.list("sweep_beta", None, "Train one model for each of these values of beta, comma-separated, as one program; "
               "their runs are called NAME-betaB.")
    group.enum("strategy", "auto", devices.STRATEGIES, "How devices share the work; the result does not depend on it. "
               "auto takes the machines of TF_CONFIG, the TPU of TPU_NAME, all GPUs, or one device.")
    group.float("active_threshold", 0.5, "A latent is active, in the polarised KL that history shows, if its mean "
                "posterior variance is below this many prior variances.")
    group.start("Output")
    group.path("name", None, "Name of the run and of the export; MODEL_DATASET by default.")
    group.path("run_root", "runs", "Folder for configuration, history, TensorBoard logs and checkpoints: "
               "run_root/NAME/.")
    group.path("export_root", "exported", "Folder for the trained model: export_root/NAME/VERSION/.")
    group.boolean("restart", False, "Start over in a new folder rather than go on with runs/NAME.")
    group.integer("log_every", 50, "Number of steps that one row of history covers.", lower_bound=1)
    group.integer("checkpoint_every", 1_000, "Number of steps from one checkpoint to the next.", lower_bound=1)
    group.integer("keep_versions", None, "Number of versions of the model that are kept once the new one is there; "
                  "older ones are deleted. By default none is deleted.", lower_bound=1)
    group.boolean("accept_dark", False, "The exported model takes batches of images of which no pixel is above 1. By "
                  "default it refuses them, as floats and masks of 0 and 1 look so, unless training images do too.")
    group.integer("polarised_every", 500, "Number of steps between two measurements of how far the KL is from its "
                  "polarised form; 0 measures nothing.", lower_bound=0)
    return _with_options_of_models(group)


def _with_options_of_models(group):
    """Define the flags of the models' own options; returns {group: names} with theirs after those of all models."""
    common, rest = group.names.pop("Model"), dict(group.names)
    taken = set(group.values)
    group.names.clear()
    for name, kind in models.MODELS.items():
        for option in kind.options:
            if option.name in taken:
                raise InputError(f"model: {name} has an option {option.name!r}, which is a flag already; expected a "
                                 "name of its own")
            if option.name not in group.values:         # models may share one
                group.start(f"Model: {name}")
                group.option(option)
    return {"Model": common, **group.names, **rest}


def _other_terms():
    """Of which models beta weighs another term than the KL, in words."""
    other: dict[str, list[str]] = {}
    for name, kind in models.MODELS.items():
        if kind.default_beta is not None and not kind.weighs_kl_by_beta():
            other.setdefault(kind.beta_term, []).append(name)
    listed = ", ".join(f"of the {term} in {' and '.join(names)}" for term, names in other.items())
    return f" ({listed})" if listed else ""


def _default_betas():
    """The default values of beta, and of which models they are, in words."""
    by_value: dict[float, list[str]] = {}
    for name, kind in models.MODELS.items():
        if kind.default_beta is not None:
            by_value.setdefault(kind.default_beta, []).append(name)
    by_value.pop(1.0, None)
    return ", ".join([f"{value:g} for {' and '.join(names)}" for value, names in by_value.items()] + ["else 1"])
