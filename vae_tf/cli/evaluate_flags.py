"""The flags of evaluate.py."""

from absl import flags

from vae_tf import evaluation, metrics
from vae_tf.cli.data_flags import _define_data_flags
from vae_tf.cli.groups import _Group

# What --quick looks at.
QUICK_EXAMPLES = 1_000
QUICK_GEOMETRY = 10


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
    group.list("metrics", "default", "Metrics to compute, comma-separated, of " + ", ".join(metrics.names("metrics"))
               + ". Instead of names, default takes all but " + _and(_long("metrics")) + ", which take "
               "minutes, and all takes all of them.")
    group.integer("examples", 10_000, "Number of examples that a metric estimates from, drawn from the test part; half "
                  "as many again are drawn for metrics that learn, to be tested on.", lower_bound=2)
    group.boolean("quick", False, f"Take a first look: at most {QUICK_EXAMPLES:,} examples, "
                  "and no interval for the slow metrics.")
    group.enum("latents", "all", evaluation.LATENTS,
               "Latents whose codes the metrics get; active leaves out the passive ones, whose posterior is the prior.")
    group.list("factors", None, "Names of the factors that every metric is to look at, comma-separated, such as "
               "scale,orientation,x,y; all by default.")
    per_value = [name for name, metric in metrics.METRICS.items() if "samples_per_value" in metric.options]
    group.integer("samples_per_value", None, "Number of samples of z that " + _and(per_value) + " take "
                  "for each value of the factor that has most values; 10,000 samples in all by default.", lower_bound=1)
    group.float("passive_kl", metrics.PASSIVE_KL, "A latent is passive at an example if KL(q(z_j|x) || p(z_j)) is "
                "below this many nats.")
    group.integer("jobs", None, "Number of metrics computed at a time; by default as many as there are processors.",
                  lower_bound=1)
    group.list("geometry", ",".join(metrics.default_names("geometry")),
               "Metrics of the decoder around posterior means, comma-separated, of "
               + ", ".join(metrics.names("geometry")) + "; " + _and(_long("geometry")) + " take minutes.")
    group.list("theory", ",".join(metrics.default_names("theory")), "Comparisons of the model with closed forms around "
               "posterior means, comma-separated, of " + ", ".join(metrics.names("theory")) + "; those that do not "
               "apply say why.")
    group.integer("geometry_examples", 200, "Number of examples around which --geometry and --theory look at the "
                  f"decoder; {QUICK_GEOMETRY} at most with --quick.", lower_bound=1)
    group.integer("seed", 0, "Seed for the choice of examples and for the noise.", lower_bound=0, upper_bound=2_000_000)
    return group.names


def _long(group):
    """The names of a group's metrics that take minutes."""
    return [name for name in metrics.names(group) if name not in metrics.default_names(group)]


def _and(names):
    return " and ".join([", ".join(names[:-1]), *names[-1:]] if len(names) > 1 else names)
