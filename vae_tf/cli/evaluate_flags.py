"""The definitions of evaluate.py's flags."""

from absl import flags

from vae_tf import evaluation, metrics
from vae_tf.cli.data_flags import define_data_flags
from vae_tf.cli.groups import FlagGroups
from vae_tf.errors import join_names

# The largest numbers of examples that --quick uses: for --metrics, and for --geometry and --theory.
QUICK_EXAMPLES = 1_000
QUICK_GEOMETRY = 10
MOST_JOBS, MOST_SAMPLES = 4_096, 1_000_000


def define_evaluate_flags(values: flags.FlagValues = flags.FLAGS) -> dict[str, list[str]]:
    """Define evaluate.py's flags; returns {heading: names}, in the order of --help."""
    group = FlagGroups(values)
    _define_model_flags(group)
    define_data_flags(group, None, "Data to score the model on; by default those that it was trained on.")
    _define_evaluation_flags(group)
    return group.names


def _define_model_flags(group: FlagGroups) -> None:
    group.start("Model")
    group.add_path("export", "exported", "Model to score: exported/ (the newest of all), exported/NAME (its newest "
                   "version) or exported/NAME/VERSION.")
    group.add_paths("compare", None, "Compare several exports, comma-separated, such as 'exported/vae*', instead of "
                    "scoring one. Those that are not scored yet are scored. Models that differ in their seed alone "
                    "form a group, whose means and spreads are written as tables and as one page. The groups' "
                    "distances from orthogonality are compared over seeds. OD-scores are computed from Jacobians or, "
                    "with --geometry=od_score, from fitted local decoders.")
    group.add_list("group_by", None, "Settings whose values make the groups of --compare instead, comma-separated, "
                   "such as model,beta.")
    group.add_path("comparison_dir", "comparison", "Folder for what --compare writes: comparison.html, tables as CSV, "
                   "Markdown and LaTeX, and models.csv with a row for each model except copies of a recipe and seed.")
    group.add_path("codes", None, "Score the codes of an .npz file instead of a model. The file holds codes [N,d] and, "
                   "optionally, factors [N,K] to score them against, factor_names [K], factor_kinds [K] and the "
                   "posterior's stddev [N,d].")
    group.add_boolean("trust_export", False, "Load a model whose graph has operations that read or write files, run "
                      "Python or reach other machines. A SavedModel is a program: set this only if you trust where it "
                      "comes from.")


def _define_evaluation_flags(group: FlagGroups) -> None:
    group.start("Evaluation")
    group.add_list("metrics", "default",
                   "Metrics to compute, comma-separated, from " + ", ".join(metrics.list_names("metrics"))
                   + ". The word default stands for all but " + join_names(_list_slow("metrics")) + ", which take "
                   "minutes; the word all stands for all of them. With a model, names of --geometry and --theory "
                   "may stand here, too.")
    group.add_integer("examples", 10_000, "Number of examples, drawn from the test part, from which a metric is "
                      "estimated. Metrics that learn from examples, and beta_vae_score, factor_vae_score and irs, get "
                      "half as many again.", lower_bound=2)
    group.add_boolean("quick", False, f"Take a first look: at most {QUICK_EXAMPLES:,} examples, or half as "
                      "many again where --examples says so, and no interval for the slow metrics.")
    group.add_boolean("verbose", False, "Print all scores with what they mean, and not the summary alone. Metrics that "
                      "are asked for by name are printed anyway.")
    group.add_boolean("animate", False, "Write traversals.gif and traversals.webp beside a model of images, too: what "
                      "each latent does, moving.")
    group.add_enum("latents", "all", evaluation.LATENTS,
                   "Latents that the metrics look at. The value active leaves out the passive latents, whose "
                   "posterior is the prior.")
    group.add_list("factors", None, "Names of the factors that every metric is to look at, comma-separated, such as "
                   "scale,orientation,x,y; all by default.")
    per_value = [name for name, metric in metrics.METRICS.items() if "samples_per_value" in metric.options]
    group.add_integer("samples_per_value", None, "Number of samples of z that " + join_names(per_value) + " take "
                      "for each value of the factor that has most values; 10,000 samples in all by "
                      "default.", lower_bound=1, upper_bound=MOST_SAMPLES)
    group.add_float("passive_kl", metrics.PASSIVE_KL, "A latent is passive at an example if KL(q(z_j|x) || p(z_j)) is "
                    "below this many nats.")
    group.add_integer("jobs", None, "Number of metrics computed in parallel; by default the number of processors.",
                      lower_bound=1, upper_bound=MOST_JOBS)
    group.add_memory_limit()
    group.add_list("geometry", "default",
                   "Metrics of the decoder around posterior means, comma-separated, from "
                   + ", ".join(metrics.list_names("geometry")) + ". The word default stands for all but "
                   + join_names(_list_slow("geometry")) + ", which take minutes; the word all stands for all of them.")
    group.add_list("theory", "default", "Comparisons of the model with closed "
                   "forms around posterior means, comma-separated, from " + ", ".join(metrics.list_names("theory")) +
                   ". The words default and all stand for all of them. If a comparison does not apply to the model, "
                   "the output says why.")
    group.add_integer("geometry_examples", 200, "Number of examples around whose posterior means --geometry and "
                      f"--theory examine the decoder; at most {QUICK_GEOMETRY} with --quick.", lower_bound=1)
    group.add_integer("seed", 0, "Seed for the choice of examples and for the noise.", lower_bound=0,
                      upper_bound=2_000_000)


def _list_slow(group: str) -> list[str]:
    """Return the names of a group's metrics that take minutes."""
    return [name for name in metrics.list_names(group) if name not in metrics.list_default_names(group)]
