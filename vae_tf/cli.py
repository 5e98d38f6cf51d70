"""Every flag, once; what the programs print; flags turned into objects.

Only this module touches flags: everything else takes arguments.
"""

import contextlib
import dataclasses
import glob
import importlib.metadata
import itertools
import math
import os
import pathlib
import sys
import textwrap
import warnings

import joblib
from absl import app, flags, logging


@contextlib.contextmanager
def _without_native_logs():
    """TensorFlow's native code logs to file descriptor 2 while it is imported, before any setting can stop it."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if os.environ["TF_CPP_MIN_LOG_LEVEL"] != "3":      # the user asked for logs
        yield
        return
    sys.stderr.flush()
    kept, null = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(null)


with _without_native_logs():
    from vae_tf import (
        console,
        data,
        defaults,
        devices,
        distributions,
        evaluation,
        export,
        metrics,
        models,
        networks,
        objectives,
        runs,
        training,
    )
    from vae_tf.errors import InputError, printable
    from vae_tf.metrics import closed_forms, geometry

# What --quick looks at.
QUICK_EXAMPLES = 1_000
QUICK_GEOMETRY = 10

# Flags that a configuration has only where they are set: it equals those from before there was such a flag.
ONLY_WHERE_SET = ("optimizer_epsilon",)


def define_train_flags(values=flags.FLAGS):
    """Define train.py's flags; returns {group: names}, in the order of --help."""
    group = _Group(values)
    group.start("Model")
    group.enum("model", "ivae", models.MODELS, "Kind of model to train.")
    group.enum("network", None, networks.NETWORKS, "Encoder and decoder; by default one that suits the dataset.")
    group.integer("latents", None, "Size of z; by default one that suits the dataset.", lower_bound=1)
    group.enum("likelihood", None, distributions.LIKELIHOODS,
               "p(x|z); bernoulli for images and gaussian for vectors by default.")
    group.float("likelihood_variance", None, "Variance of the gaussian likelihood, per pixel or entry of a vector; the "
                "variance of gaussian_learned starts there; by default one that suits the dataset.")
    group.float("beta", None, "Weight of the KL term (of the total correlation in beta_tcvae); "
                "by default 4 for beta_vae and full_covariance_vae, 6 for beta_tcvae, else 1. A --model without beta "
                "ignores that of a --flagfile.", positive=False)
    group.integer("beta_warmup_steps", 0, "Number of steps in which beta grows linearly from 0.", lower_bound=0)
    group.enum("tc_estimator", "weighted", objectives.TC_ESTIMATORS, "Minibatch estimator of q(z) in beta_tcvae.")
    group.enum("prior_mean", "zero", models.PRIOR_MEANS, "Mean of the prior p(z|u) in ivae.")
    _define_data_flags(group, "dsprites", f"Data to train on: one of {', '.join(data.DATASETS)}, or the path "
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
    return group.names


def define_evaluate_flags(values=flags.FLAGS):
    """Define evaluate.py's flags; returns {group: names}, in the order of --help."""
    group = _Group(values)
    group.start("Model")
    group.path("export", "exported", "Model to score: exported/ (the newest of all), exported/NAME (its newest "
               "version) or exported/NAME/VERSION.")
    group.paths("compare", None, "Compare several exports, comma-separated, such as 'exported/vae*', instead of "
                "scoring one. Models that differ in their seed alone form a group, and the groups' distances from "
                "orthogonality are compared over seeds. OD-scores are of Jacobians, or of fitted local decoders with "
                "--geometry=od_score.")
    group.path("codes", None, "Score the codes of an .npz file instead of a model: codes [N,d], factors [N,K] to score "
               "them against, and optional factor_names [K], factor_kinds [K] and stddev [N,d] of the posterior.")
    group.boolean("trust_export", False, "Load a model whose graph has operations that read or write files, run Python "
                  "or reach other machines. A SavedModel is a program: set this only if you trust where it comes from.")
    _define_data_flags(group, None, "Data to score the model on; by default those that it was trained on.")
    group.start("Evaluation")
    group.list("metrics", "default", "Metrics to compute, comma-separated, of " + ", ".join(metrics.ALL) + ". Instead "
               "of names, default takes all but " + " and ".join(metrics.HEAVY) + ", which take minutes, and all takes "
               "all of them.")
    group.integer("examples", 10_000, "Number of examples that a metric estimates from, drawn from the test part; half "
                  "as many again are drawn for metrics that learn, to be tested on.", lower_bound=2)
    group.boolean("quick", False, f"Take a first look: at most {QUICK_EXAMPLES:,} examples, "
                  "and no interval for the slow metrics.")
    group.enum("latents", "all", evaluation.LATENTS,
               "Latents whose codes the metrics get; active leaves out the passive ones, whose posterior is the prior.")
    group.list("factors", None, "Names of the factors that every metric is to look at, comma-separated, such as "
               "scale,orientation,x,y; all by default.")
    group.integer("samples_per_value", None, "Number of samples of z that " + " and ".join(metrics.PER_VALUE) + " take "
                  "for each value of the factor that has most values; 10,000 samples in all by default.", lower_bound=1)
    group.float("passive_kl", metrics.PASSIVE_KL, "A latent is passive at an example if KL(q(z_j|x) || p(z_j)) is "
                "below this many nats.")
    group.integer("jobs", None, "Number of metrics computed at a time; by default as many as there are processors.",
                  lower_bound=1)
    group.list("geometry", ",".join(name for name in geometry.GEOMETRY if name not in geometry.FITTED),
               "Metrics of the decoder around posterior means, comma-separated, of " + ", ".join(geometry.GEOMETRY)
               + "; the last " + str(len(geometry.FITTED)) + " fit local decoders, which takes minutes.")
    group.list("theory", ",".join(closed_forms.THEORY), "Comparisons of the model with closed forms around posterior "
               "means, comma-separated, of " + ", ".join(closed_forms.THEORY) + "; those that do not apply say why.")
    group.integer("geometry_examples", 200, "Number of examples around which --geometry and --theory look at the "
                  f"decoder; {QUICK_GEOMETRY} at most with --quick.", lower_bound=1)
    group.integer("seed", 0, "Seed for the choice of examples and for the noise.", lower_bound=0, upper_bound=2_000_000)
    return group.names


def _define_data_flags(group, dataset, text):
    trained = "; by default as in training" if dataset is None else ""
    group.start("Data")
    group.path("dataset", dataset, text)
    group.path("data_dir", None, "Folder where TFDS keeps prepared datasets; $TFDS_DATA_DIR by default.")
    group.integer("data_seed", None if trained else 0, "Seed for data that are drawn at random, and for a random split"
                  f"{trained}.", lower_bound=0)
    group.enum("split", None if trained else "auto", data.SPLITS,
               "Which examples are for training and which for scoring. grid: the published train and test parts, or "
               "else the whole for both; random: 80, 10 and 10 % for training, validation and test; random_90_10: 90 "
               "and 10 % for training and test; auto: grid for a complete grid of factors and for data with published "
               f"parts, random for all other data{trained}.")


class _Group:
    """Defines flags under headings."""

    def __init__(self, values):
        self.values, self.names = values, {}

    def start(self, heading):
        self.heading = heading
        self.names[heading] = []

    def _define(self, define, name, *args, **options):
        define(name, *args, flag_values=self.values, module_name=self.heading, **options)
        self.names[self.heading].append(name)

    def enum(self, name, default, choices, text):
        self._define(flags.DEFINE_enum, name, default, list(choices), text)

    def integer(self, name, default, text, **bounds):
        self._define(flags.DEFINE_integer, name, default, text, **bounds)

    def float(self, name, default, text, positive=True):
        """A finite number, above 0 or, unless positive, 0 too."""
        def check(value):
            if value is None or (math.isfinite(value) and (value > 0 or (value == 0 and not positive))):
                return True
            raise flags.ValidationError(f"expected a finite number {'above' if positive else 'not below'} 0")

        self._define(flags.DEFINE_float, name, default, text)
        flags.register_validator(name, check, flag_values=self.values)

    def path(self, name, default, text):
        """Text that is not empty: an empty path is an unset variable of a shell, and would mean the root."""
        self._define(flags.DEFINE_string, name, default, text)
        self._refuse_empty(name)

    def paths(self, name, default, text):
        """Comma-separated texts of which none is empty."""
        self._define(flags.DEFINE_list, name, default, text)
        self._refuse_empty(name)

    def _refuse_empty(self, name):
        def check(value):
            given = value if isinstance(value, list) else [value]
            if value is None or (given and all(part and part.strip() for part in given)):
                return True
            raise flags.ValidationError("expected a name or path; got an empty one")

        flags.register_validator(name, check, flag_values=self.values)

    def boolean(self, name, default, text):
        self._define(flags.DEFINE_boolean, name, default, text)

    def list(self, name, default, text):
        self._define(flags.DEFINE_list, name, default, text)


def run(main, define_flags, description):
    """Run a program: `main(FLAGS)` with its flags parsed; bad input is one line on stderr and exit code 2."""
    program = pathlib.Path(sys.argv[0]).name
    groups = define_flags()

    def parse(argv):
        if {"--help", "-h", "-help"} & set(argv[1:]):
            print(help_text(program, description, groups))
            sys.exit(0)
        try:
            rest = read(flags.FLAGS, argv)
        except flags.Error as error:
            _fail(program, error)
        return rest

    def guarded(argv):
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)      # TensorFlow tells its own progress at INFO
        warnings.showwarning = lambda message, *_: print(f"{program}: warning: {printable(message)}", file=sys.stderr)
        try:
            console.run(program, lambda: main(flags.FLAGS))
        except (InputError, OSError, training.NonFiniteError, training.DataError) as error:
            _fail(program, error)

    app.run(guarded, flags_parser=parse)


def read(values, argv):
    """Parse argv into values, flagfiles included; of --steps and --epochs the one given last counts.

    A flagfile's beta is left out if a --model outside of the file names a model without one.

    Raises:
        flags.Error: an unknown flag, a value that does not fit, or something that is no flag.
    """
    outside = {arg.lstrip("-").partition("=")[0] for arg in argv}
    argv = values.read_flags_from_files(argv)
    rest = values(argv)
    if rest[1:]:
        raise flags.Error(f"expected flags alone, such as --model=vae; got {' '.join(rest[1:])!r}")
    given = [arg.lstrip("-").partition("=")[0] for arg in argv if arg.startswith("-")]
    lengths = [name for name in given if name in ("steps", "epochs")]
    if len(set(lengths)) > 1:
        values[{"steps": "epochs", "epochs": "steps"}[lengths[-1]]].value = None
    if "model" in outside and "beta" not in outside and not issubclass(models.MODELS[values.model], models.BetaVAE):
        values["beta"].value = None
    return rest


def _fail(program, error):
    line = " ".join(str(error).removeprefix("ERROR:: ").split())
    print(f"{program}: error: {printable(line)}", file=sys.stderr)
    sys.exit(2)


def help_text(program, description, groups, values=flags.FLAGS):
    """The --help page: what the program does, then every flag under its heading."""
    lines = [f"python {program} [--flag=value ...] [--flagfile=FILE]", "", description]
    for heading, names in groups.items():
        lines += ["", heading]
        for name in names:
            flag = values[name]
            choices = getattr(flag.parser, "enum_values", None)
            default = "" if flag.default is None else f" [{flag.default_as_str}]".replace("'", "")
            text = flag.help.split(">: ")[-1] + (f" One of {', '.join(choices)}." if choices else "") + default
            lines += textwrap.wrap(text, 110, initial_indent=f"  --{name:<20} ", subsequent_indent=" " * 25)
    lines += ["", "  --flagfile=FILE      Read flags from FILE; flags after it override it. Recipes: flags/*/*.flags"]
    return "\n".join(lines)


def configuration(values, dataset):
    """Everything a run depends on, as a dict of JSON values; what flags leave open is filled in to suit the data.

    Raises:
        InputError: flags that do not go together.
    """
    by_heading = values.flags_by_module_dict()
    config = {flag.name: flag.value for heading in ("Model", "Data", "Training") for flag in by_heading[heading]
              if flag.name not in runs.OUTPUT and (flag.name not in ONLY_WHERE_SET or flag.value is not None)}
    suited = defaults.suited(dataset)
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
    if config["tc_estimator"] == "stratified" and not 2 <= config["batch_size"] <= len(dataset):
        raise InputError(f"--batch_size: the stratified estimator needs 2 to {len(dataset)} (the training set); "
                         f"got {config['batch_size']}")
    return config


def scaled_as_init_from(config, dataset):
    """The dataset as the export that --init_from names wants it: with u made of factors by the range of its training.

    Raises:
        InputError: that export's u cannot be made of this dataset's factors.
    """
    if not config["init_from"] or config["model"] != "ivae":
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
    names = ("network", "latents", "likelihood", "likelihood_variance", "beta", "tc_estimator", "prior_mean", "seed")
    model = models.build(config["model"], dataset.shape, u_size=dataset.u_size, examples=len(dataset),
                         dtype=config["precision"], **{name: config[name] for name in names})
    if config["init_from"]:
        export.load_weights(model, config["init_from"], config, dataset)
    return model


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
    if not issubclass(models.MODELS[model], models.BetaVAE):
        with_beta = [key for key, kind in models.MODELS.items() if issubclass(kind, models.BetaVAE)]
        raise InputError(f"--sweep_beta: {model} has no beta; models with beta: {', '.join(with_beta)}")
    try:
        betas = [float(value) for value in given]
    except ValueError:
        betas = [math.nan]
    finite = all(math.isfinite(beta) and beta >= 0 for beta in betas)
    if not finite or len({f"{beta:g}" for beta in betas}) < len(betas):
        raise InputError("--sweep_beta: expected different finite numbers, not below 0, such as 0.5,1,4; "
                         f"got {','.join(given)}")
    return betas


def strategy(values):
    """The tf.distribute strategy of --strategy; before TensorFlow computes anything.

    Raises:
        InputError: there is no such hardware or cluster, or it cannot do what other flags ask.
    """
    try:
        chosen = devices.strategy(values.strategy)
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
    shared = strategy is not devices.strategy("one_device") and len(configs) == 1     # replicas train on one device

    def polarised(model, x, u):
        return objectives.polarised(model.posterior(x, u), model.prior(u), config["active_threshold"])

    with strategy.scope() if shared else contextlib.nullcontext():
        optimizer = training.optimizer(config["optimizer"], config["learning_rate"], config["precision"],
                                       config.get("optimizer_epsilon"))
        model = build_model(config, dataset) if shared else built[0]
    options = {"steps": config["steps"], "batch_size": config["batch_size"],
               "warmup_steps": config["beta_warmup_steps"], "clip_gradients": config["clip_gradients"],
               "log_every": values.log_every, "checkpoint_every": values.checkpoint_every}
    if values.polarised_every and config["model"] != "ae":
        options.update(watch=polarised, watch_every=values.polarised_every)
    if len(configs) > 1:
        return training.fit_replicas(built, dataset, optimizer, seeds=[each["seed"] for each in configs],
                                     run_dirs=run_dirs, jit_compile=config["jit_compile"] == "true", **options)
    auto = config["network"] in ("mlp_dsprites", "mlp_mnist") and dataset.is_image
    history = training.fit(model, dataset, optimizer, seed=config["seed"], run_dir=run_dirs[0],
                           jit_compile=auto if config["jit_compile"] == "auto" else config["jit_compile"] == "true",
                           **options)
    if shared:
        built[0].set_weights(model.get_weights())
    return [history]


def card(config, model, dataset, history):
    """What an export says of itself: model, data, factors, recipe, scores of its history and versions."""
    if config["dataset"].endswith(".npz"):      # the card is read in other folders than this
        config = {**config, "dataset": str(pathlib.Path(config["dataset"]).absolute())}
    polarised = metrics.polarised_fraction(history)
    of_history = {polarised.name: dataclasses.asdict(polarised)} if polarised else {}
    return {
        "model": config["model"], "beta": model.beta, "latents": model.latents, "u_size": model.u_size,
        "likelihood": config["likelihood"],
        "likelihood_variance": (None if config["likelihood"] == "bernoulli"
                                else math.exp(float(model.likelihood_layer.log_variance))),
        "data": {"name": dataset.name, "shape": dataset.shape,
                 "dtype": "uint8" if dataset.is_image else "float32", "training_examples": len(dataset),
                 "factors": [factor._asdict() for factor in dataset.factors]},
        "steps": config["steps"], "final_terms": history[-1] if history else {}, "recipe": config,
        "history": of_history,
        "versions": {name: importlib.metadata.version(name)
                     for name in ("vae_tf", "tensorflow", "tensorflow-probability", "keras", "numpy")},
    }


def polarised_line(config, history):
    """What train.py says of the polarised regime; empty if history does not say."""
    polarised = metrics.polarised_fraction(history)
    if not polarised:
        return ""
    said = (f"stays within 3 % of its polarised form for the last {polarised.score:.1%} of training" if polarised.score
            else "is not within 3 % of its polarised form at the end")
    return (f"\n             The KL {said};\n             that form counts latents whose mean posterior variance "
            f"is below {config['active_threshold']:g} prior variances.")


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


def listed(run_dirs, file=""):
    """A file of every run, for people: the first to the last."""
    return " to ".join(f"{run_dir}{file}" for run_dir in dict.fromkeys((run_dirs[0], run_dirs[-1])))


def run_folder(values, config, suffix="", write=True):
    """runs/NAME, ready to be trained in: a new one, or one to go on with; write=False leaves that to another process.

    Raises:
        InputError: it cannot be written, or holds a run with another configuration.
    """
    name = (values.name or f"{config['model']}_{pathlib.Path(config['dataset']).stem}") + suffix
    if name in (".", "..") or "/" in name:
        raise InputError(f"--name: expected a folder's name, got {name!r}")
    for flag in ("run_root", "export_root"):
        try:
            export.check_writable(pathlib.Path(values[flag].value) / name)
        except InputError as error:
            raise InputError(f"--{flag}: {error}") from None
    run_dir = pathlib.Path(values.run_root) / name
    if values.restart:
        candidates = itertools.chain([run_dir], (run_dir.with_name(f"{name}-{i}") for i in itertools.count(2)))
        run_dir = next(path for path in candidates if not path.exists())
    changed = _without_same_data(run_dir, config, runs.differences(run_dir, config))
    if changed:
        listed = "; ".join(f"--{name}: {was} there, {now} now" for name, (was, now) in changed.items())
        raise InputError(f"{run_dir} holds a run with another configuration ({listed}); "
                         "give this one a --name, or --restart to start over in a new folder")
    if write:
        runs.write_config(run_dir, config)
    return run_dir


def _without_same_data(run_dir, config, changed):
    """The differences of a run's configuration, less those between two names of the same data.

    Raises:
        InputError: the data have changed under the same name.
    """
    was, now = changed.pop("data_fingerprint", (config["data_fingerprint"],) * 2)
    if was == now:
        changed.pop("dataset", None)
    elif was and not {"dataset", "data_seed"} & set(changed):
        raise InputError(f"{run_dir} was trained on other data than {config['dataset']} holds now (fingerprint "
                         f"{was[:8]} there, {now[:8]} now); go on with those data, or give this run a --name, or "
                         "--restart to start over in a new folder")
    return changed


if __name__ == "__main__":
    for program, define in (("train.py", define_train_flags), ("evaluate.py", define_evaluate_flags)):
        defined = flags.FlagValues()
        print(help_text(program, f"The flags of {program}; this module runs nothing.", define(defined), defined), "\n")
