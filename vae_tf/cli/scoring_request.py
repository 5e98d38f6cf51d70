"""Read from evaluate.py's flags what is scored (a model, codes or a comparison), on which data and by which metrics."""

import dataclasses
import pathlib
from collections.abc import Sequence

import joblib
from absl.flags import FlagValues

from vae_tf import evaluation, memory, metrics
from vae_tf.cli import scoring_effects
from vae_tf.cli.effects import check_effects
from vae_tf.cli.evaluate_flags import QUICK_EXAMPLES, QUICK_GEOMETRY

OF_A_JOB = 200 * 2**20       # bytes of a worker process: Python, NumPy, SciPy and scikit-learn


@dataclasses.dataclass(frozen=True)
class DataRequest:
    """The data to score on; None for what a model was trained on.

    Attributes:
        dataset: a key of data.DATASETS, or the path of an .npz file or of a folder of images.
        data_dir: where TFDS keeps prepared datasets; None for $TFDS_DATA_DIR.
        data_seed: the seed for data that are drawn at random, and for a random split.
        split: which examples are for training and which for scoring, see data.Dataset.find_indices.
    """

    dataset: str | None = None
    data_dir: str | None = None
    data_seed: int | None = None
    split: str | None = None


@dataclasses.dataclass(frozen=True)
class ScoringRequest:
    """What evaluate.py is asked.

    Attributes:
        export: the folder of the model to score.
        compare: the folders of the models to compare instead, or patterns of them; empty to compare none.
        codes: the .npz file of codes to score instead, or None.
        trust_export: whether a model whose graph reaches out is loaded.
        data: the data to score on.
        options: metrics, examples, seeds and processes.
        geometry: the names of --geometry.
        verbose: whether all scores are printed.
        named: the metrics that flags ask for by name, whose scores are printed.
        group_by: the columns whose values make a group of models that are compared; empty for their recipes.
        comparison_dir: the folder for the tables and the page of a comparison.
        animate: whether the latents of an image model are drawn moving.
    """

    export: str
    compare: tuple[str, ...]
    codes: str | None
    trust_export: bool
    data: DataRequest
    options: evaluation.Options
    geometry: tuple[str, ...]
    verbose: bool
    named: tuple[str, ...]
    group_by: tuple[str, ...]
    comparison_dir: pathlib.Path
    animate: bool


def read_scoring_request(flags: FlagValues) -> ScoringRequest:
    """Return what flags ask to be scored.

    Raises:
        InputError: there is no such metric, or a flag has no effect beside the others.
    """
    if flags.compare and not flags["codes"].present:        # those of a flagfile are idle
        flags["codes"].value = None
    check_effects(scoring_effects.EFFECTS, flags, flags)
    options = read_options(flags)
    if flags.compare:       # models are compared by scores of all latents and factors, whatever a flagfile says
        options = dataclasses.replace(options, latents="all", factors=None, samples_per_value=None,
                                      passive_kl=metrics.PASSIVE_KL)
    geometry = tuple(map(metrics.find_name, _expand(flags.geometry, "geometry")))
    return ScoringRequest(flags.export, tuple(flags.compare or ()), flags.codes, flags.trust_export,
                          read_data_request(flags), options, geometry, flags.verbose,
                          _list_named(flags), tuple(flags.group_by or ()), pathlib.Path(flags.comparison_dir),
                          flags.animate)


def _list_named(flags: FlagValues) -> tuple[str, ...]:
    """Return the metrics that flags name, other than by the word default or all of those that it stands for."""
    given = {group: getattr(flags, group) for group in ("metrics", "geometry", "theory")}
    return tuple(metrics.find_name(name) for group, words in given.items()
                 if words != [*metrics.list_default_names(group)]
                 for name in _expand([word for word in words if word != "default"], group))


def _expand(given: Sequence[str], group: str) -> list[str]:
    """Return the names of metrics that a flag takes, with those that the words default and all stand for."""
    sets = {"default": metrics.list_default_names(group), "all": metrics.list_names(group)}
    return [name for each in given for name in sets.get(each, (each,))]


def read_data_request(flags: FlagValues) -> DataRequest:
    """Return the data that flags ask to be scored on."""
    return DataRequest(flags.dataset, flags.data_dir, flags.data_seed, flags.split)


def read_options(flags: FlagValues) -> evaluation.Options:
    """Return the metrics of --metrics, --geometry and --theory, and how they are computed.

    Raises:
        InputError: there is no such metric, or so many processes do not fit into memory.
    """
    if flags.jobs is not None:
        memory.check_fits("--jobs", flags.jobs * OF_A_JOB, f"{flags.jobs:,} worker processes", "give fewer")
    names, geometry, theory = (_expand(getattr(flags, group), group) for group in ("metrics", "geometry", "theory"))
    # Without --codes there is a model, and --metrics may name what the other two flags are for.
    metrics.check_names(names, "metrics" if flags.codes else None)
    metrics.check_names(geometry, "geometry")
    metrics.check_names(theory, "theory")
    return evaluation.Options(
        names=tuple(dict.fromkeys(map(metrics.find_name, (*names, *geometry, *theory)))),
        examples=min(flags.examples, QUICK_EXAMPLES) if flags.quick else flags.examples,
        around=min(flags.geometry_examples, QUICK_GEOMETRY) if flags.quick else flags.geometry_examples,
        seed=flags.seed, jobs=flags.jobs or joblib.cpu_count(), quick=flags.quick, latents=flags.latents,
        factors=flags.factors, samples_per_value=flags.samples_per_value, passive_kl=flags.passive_kl)
