"""The definitions of train.py's flags."""

from collections.abc import Mapping

from absl import flags

from vae_tf import data
from vae_tf.arguments import LARGEST_SEED
from vae_tf.cli import choices
from vae_tf.cli.choices import Choices, Model
from vae_tf.cli.data_flags import define_data_flags
from vae_tf.cli.groups import FlagGroups
from vae_tf.errors import InputError

# The largest number of models that are trained as one program: each has a folder, and takes a second to build.
MOST_REPLICAS = 10_000


def define_train_flags(values: flags.FlagValues = flags.FLAGS) -> dict[str, list[str]]:
    """Define train.py's flags; returns {heading: names}, in the order of --help."""
    group, known = FlagGroups(values), choices.find()
    _define_model_flags(group, known)
    define_data_flags(group, data.DEFAULT, f"Data to train on: one of {', '.join(data.DATASETS)}, or "
                       "tfds:NAME, or the path of your own data: an .npz file with images [N,H,W,C] or data [N,n] and, "
                       "optionally, factors [N,K] and u; a folder of images and, optionally, metadata.csv; or a folder "
                       "of Hugging Face's datasets.")
    _define_optimization_flags(group, known)
    _define_validation_flags(group)
    _define_penalty_flags(group, known)
    _define_run_flags(group, known)
    _define_output_flags(group)
    return _add_options_of_models(group, known.models)


def _define_model_flags(group: FlagGroups, known: Choices) -> None:
    group.start("Model")
    group.add_enum("model", known.default_model, known.models, "Kind of model to train.")
    group.add_enum("network", None, known.networks,
                   "Architecture of encoder and decoder; by default one that suits the dataset.")
    group.add_integer("latents", None, "Number of latents, the size of z; by default one that suits the dataset.",
                      lower_bound=1)
    group.add_enum("likelihood", None, known.likelihoods,
                   "Likelihood p(x|z); by default bernoulli for images and gaussian for vectors.")
    group.add_float("likelihood_variance", None, "Variance of the gaussian likelihood, per pixel or entry of a vector; "
                    "by default one that suits the dataset. The variance of gaussian_learned starts at "
                    "this value, unless --init_from gives one.")
    group.add_float("beta", None,
                    f"Weight of the KL term{_describe_other_terms(known.models)}; by default "
                    f"{_describe_default_betas(known.models)}; the other models have none. "
                    "If a --model beside a --flagfile has no beta, the value in the file is ignored.", positive=False)
    group.add_integer("beta_warmup_steps", 0, "Number of steps in which beta grows linearly from 0 to its value.",
                      lower_bound=0)


def _define_optimization_flags(group: FlagGroups, known: Choices) -> None:
    group.start("Training")
    group.add_integer("steps", None, "Total number of training steps; by default one that suits the dataset. 0 exports "
                      "the untrained model, whose weights are random.", lower_bound=0)
    group.add_float("epochs", None, "Length of training in passes over the training data, instead of --steps. If both "
                    "are given, the last one counts.")
    group.add_integer("batch_size", 64, "Number of examples per training step.", lower_bound=1)
    group.add_enum("optimizer", "adam", known.optimizers, "Optimizer that updates the weights.")
    group.add_float("learning_rate", None, "Step size of the optimizer; by default one that suits the dataset and the "
                    "network.")
    group.add_enum("learning_rate_schedule", "constant", known.schedules, "How the learning rate changes over "
                   "--steps. cosine and linear end at 0, exponential at a hundredth of --learning_rate.")
    group.add_integer("learning_rate_warmup_steps", 0, "Number of steps in which the learning rate grows linearly from "
                      f"0, with the schedules {' and '.join(known.warmed_up)}.", lower_bound=0)
    group.add_float("optimizer_epsilon", None, "Small number that adam, adagrad and rmsprop add to the denominator of "
                    "their update; 1e-7 by default.")
    group.add_float("clip_gradients", 0, "Largest norm of the gradient of a step; a gradient with a larger norm is "
                    "scaled down to this norm. 0 turns clipping off.", positive=False)


def _define_validation_flags(group: FlagGroups) -> None:
    group.add_integer("validate_every", 0, "Number of steps between two validations, which measure the objective on "
                      "examples of the validation part of --split=random, 5,000 at most. 0 turns validation off.",
                      lower_bound=0)
    group.add_integer("early_stopping", 0, "Number of validations in a row without a lower validation_loss after which "
                      "training stops; the weights with the lowest one are exported. 0 never stops early.",
                      lower_bound=0)


def _define_penalty_flags(group: FlagGroups, known: Choices) -> None:
    group.add_enum("jacobian_penalty", "none", ("none", *known.penalties),
                   "Penalty on the decoder's Jacobian J, for every model. orthogonality is log(product of the "
                   "lengths of its columns / volume that they span), l1 is the sum of the sizes of its entries, "
                   "and hessian is the largest variance, over outputs, of second derivatives in random "
                   "directions.")
    group.add_float("jacobian_weight", 1.0, "Weight of --jacobian_penalty in the loss.", positive=False)
    group.add_integer("jacobian_examples", 16, "Number of a batch's examples at which --jacobian_penalty is computed.",
                      lower_bound=1)


def _define_run_flags(group: FlagGroups, known: Choices) -> None:
    group.add_enum("precision", "float32", known.precisions,
                   "Number format in which layers compute; weights and results stay float32.")
    group.add_enum("jit_compile", "auto", ("auto", "true", "false"),
                   "Whether XLA compiles the training step; auto compiles it where XLA is faster: on a CPU for dense "
                   "networks that train on vectors for 10,000 steps or more, those of replicas added up, in float32 "
                   "and without a penalty on the Jacobian; on a GPU for narrow networks, and for wide dense ones on "
                   "images. On a CPU, optimizers other than adam have their update of a wide dense network on images "
                   "compiled.")
    group.add_integer("seed", 0, "Seed for the initial weights, the order of examples and the noise.",
                      lower_bound=0, upper_bound=LARGEST_SEED)
    group.add_path("init_from", None, "Start with the weights of an export of the same kind of model: exported/NAME "
                   "(its newest version) or exported/NAME/VERSION; the optimizer starts anew.")
    group.add_integer("replicas", None, "Train this number of models as one program, with seeds from --seed on. Each "
                      "has its own run, NAME-seedS, which equals a training alone with that seed except for rounding.",
                      lower_bound=1, upper_bound=MOST_REPLICAS)
    group.add_list("sweep_beta", None, "Train one model for each of these values of beta, comma-separated, as one "
                   "program; their runs are called NAME-betaB.")
    group.add_enum("strategy", "auto", known.strategies, "How devices share the work; the result does not depend on "
                   "it. auto takes the machines of TF_CONFIG, the TPU of TPU_NAME, all GPUs, or one device.")
    group.add_memory_limit()
    group.add_float("active_threshold", 0.5, "Threshold of the polarised KL that history.csv shows: a latent counts as "
                    "active there if its mean posterior variance is below this many prior variances.")


def _define_output_flags(group: FlagGroups) -> None:
    group.start("Output")
    group.add_path("name", None, "Name of the run and of the export; MODEL_DATASET by default.")
    group.add_path("run_root", "runs", "Folder for configuration, history, TensorBoard logs and checkpoints: "
                   "run_root/NAME/. evaluate.py looks for the history of a run in runs/ alone.")
    group.add_path("export_root", "exported", "Folder for the trained model: export_root/NAME/VERSION/.")
    group.add_boolean("restart", False, "Start a new run in a new folder instead of resuming the run in runs/NAME.")
    group.add_integer("log_every", 50, "Number of steps from one row of history.csv to the next. A row also ends at "
                      "multiples of --checkpoint_every, --polarised_every and --validate_every.", lower_bound=1)
    group.add_integer("checkpoint_every", 1_000, "Number of steps from one checkpoint to the next.", lower_bound=1)
    group.add_integer("keep_versions", None, "Number of versions of the exported model to keep, the new one included; "
                      "older versions are deleted. By default none is deleted.", lower_bound=1)
    group.add_enum("export_weights", None, ("last", "best"), "Weights to export: those of the last step, or those with "
                   "the lowest validation_loss; by default the best with --early_stopping, and otherwise the last.")
    group.add_boolean("accept_dark", False, "Let the exported model accept batches of images in which no pixel is "
                      "above 1. By default it refuses such batches, unless some training images are as dark, because "
                      "they may be floats in [0, 1] or masks that were sent by mistake.")
    group.add_integer("polarised_every", 500, "Number of steps between two measurements of how far the KL is from its "
                      "polarised form; 0 measures nothing.", lower_bound=0)
    group.add_integer("images_every", 0, "Number of steps between two pictures of reconstructions and traversals in "
                      "the TensorBoard logs, for images; 0 draws none.", lower_bound=0)


def _add_options_of_models(group: FlagGroups, known: Mapping[str, Model]) -> dict[str, list[str]]:
    """Define the flags of the models' own options; return {heading: names}, the common flags first."""
    common, rest = group.names.pop("Model"), dict(group.names)
    taken = set(group.values)
    group.names.clear()
    for name, kind in known.items():
        for option in kind.options:
            if option.name in taken:
                raise InputError(f"model: {name} has an option {option.name!r}, which is a flag already; expected a "
                                 "name of its own")
            if option.name not in group.values:         # models may share an option
                sharing = [other for other, each in known.items() if option in each.options]
                group.start(f"Model: {', '.join(sharing)}")
                group.add_option(option)
    return {"Model": common, **group.names, **rest}


def _describe_other_terms(known: Mapping[str, Model]) -> str:
    """Return, in words, the models whose beta weighs another term than the KL."""
    other: dict[str, list[str]] = {}
    for name, kind in known.items():
        if kind.default_beta is not None and not kind.weighs_kl_by_beta:
            other.setdefault(kind.beta_term, []).append(name)
    listed = ", ".join(f"of the {term} in {' and '.join(names)}" for term, names in other.items())
    return f" ({listed})" if listed else ""


def _describe_default_betas(known: Mapping[str, Model]) -> str:
    """Return, in words, the default values of beta and the models that have them."""
    by_value: dict[float, list[str]] = {}
    for name, kind in known.items():
        if kind.default_beta is not None:
            by_value.setdefault(kind.default_beta, []).append(name)
    return ", ".join(f"{value:g} for {' and '.join(names)}" for value, names in sorted(by_value.items()))
