"""Plan what is left to do of a table: a task for each run of its cells that has no result yet.

A run is known by its configuration, which holds everything that it depends on. Settings that flags leave open depend on
the data, so planning needs the data, and TensorFlow.
"""

import dataclasses
import functools
import hashlib
import importlib
import importlib.util
import json
import math
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import joblib
from absl import flags as absl_flags

from vae_tf import cli, data, metrics, networks
from vae_tf.configuration import Configuration
from vae_tf.errors import InputError
from vae_tf.evaluation.scored import may_change
from vae_tf.experiments import finding, looks, recipes, results, tables
from vae_tf.experiments.tasks import Places, Task, Wanted, covers, digest
from vae_tf.experiments.values import Share, are_equal_shares

ALWAYS = ("elbo", "reconstruction", "kl")      # what an evaluation gives whatever it is asked


class Plan(NamedTuple):
    """The tasks to do, the number of runs that are finished, and a line for each reason why cells cannot be run."""

    tasks: list[Task]
    finished: int
    problems: list[str]


class Asked(NamedTuple):
    """What a command asks of a table's cells; `plan` says what each entry means."""

    budget: str = "full"
    seeds: int | None = None
    score_only: bool = False


def plan(table: tables.Table, found: Sequence[results.Result], asked: Asked, jobs: int, places: Places) -> Plan:
    """Return what is left to do of a table.

    Args:
        table: the table.
        found: the results that exist already.
        asked: budget is one of tables.BUDGETS; seeds is the number of seeds of each cell, None for the budget's own;
            score_only takes the longest trained models that exist and trains nothing.
        jobs: the number of tasks that run at a time; the work is divided into as many tasks if there is enough of it.
        places: where runs, exports and results go. If a run has a result under the name of another recipe, that result
            is written there once more.

    Raises:
        InputError: a recipe or a metric that does not exist.
    """
    places = places.make_absolute()
    if table.measure:
        task = Task(name=table.name, function=table.measure, places=places)
        source = digest_source(table.measure)
        there = [result for result in results.find_of_experiment(found, table.name) if result["source"] == source]
        return Plan([] if there else [task], len(there), [])
    check_metrics(table)
    cells = _choose_cells(table, asked)
    full = _judge_rows(table, asked, found)
    cards = finding.find_exports(finding.list_export_roots(places)) if asked.score_only else {}
    tasks, finished = [], 0
    not_run: dict[str, list[str]] = {}
    for cell, length, count in cells:
        recipe = cell.recipe or ""
        try:
            config = make_configuration(recipe, cell.flags, length)
        except (InputError, OSError) as error:
            not_run.setdefault(str(cell.needs or error), []).append(f"{cell.row}, {cell.column}")
            continue
        seeds: Iterable[int] = range(config.seed, config.seed + count)
        # A run that several rows share is trained again unless each that would be shortened is shown at full length.
        longer = not length or all(full.get(each.row, True) for each in table.cells if _share_runs(each, cell))
        if asked.score_only:
            steps, seeds = finding.find_trained(config, cards)
            config, length = dataclasses.replace(config, steps=steps), f"--steps={steps}"
        needed = list_wanted(cell, [table])
        left = [seed for seed in seeds
                if not reuse(dataclasses.replace(config, seed=seed), recipe, cell.flags, needed, found, places,
                             longer=longer)]
        finished += len(list(seeds)) - len(left)
        # Several seeds train faster as one program, on CPUs, if the networks are narrow.
        narrow = networks.NETWORKS[config.network].narrow
        size = math.ceil(count / math.ceil(jobs / len(cells))) if narrow else 1
        name = f"{pathlib.Path(recipe).name}-{digest(config)[:8]}-{config.steps}"
        wanted = list_wanted(cell, [table, *tables.load_readable().values()])
        tasks += [Task(name, places, recipe, cell.flags, length, tuple(left[i:i + size]), config.steps,
                       digest(config), wanted, narrow=narrow, score_only=asked.score_only)
                  for i in range(0, len(left), size)]
    problems = [_describe_problem(cells, reason) for reason, cells in not_run.items()]
    if not cells:
        problems.append(f"no cell of {table.name} has a budget {asked.budget}, so that none is run; --budget=full runs "
                        "all of them")
    return Plan(tasks, finished, problems)


def _describe_problem(cells: Sequence[str], reason: str) -> str:
    """Return one line for the cells that are not run for one reason."""
    if len(cells) == 1:
        return f"{cells[0]} is not run: {reason}"
    others = len(cells) - 1
    return f"{cells[0]} and {others} more cell{'s' * (others > 1)} are not run: {reason}"


def _choose_cells(table: tables.Table, asked: Asked) -> list[tuple[tables.Cell, str, int]]:
    """Return (cell, length as a flag, number of seeds) of the cells to run.

    Cells that share their runs count once, with the seeds of the one that has most.

    Raises:
        InputError: two cells differ in their length or their seed alone.
    """
    cells: dict[str, tuple[tables.Cell, str, int]] = {}
    for cell in table.cells:
        if chosen := table.choose_length(cell, "full" if asked.score_only else asked.budget, asked.seeds):
            recipe = recipes.read(cell.recipe, cell.flags)
            if chosen[0] and recipe.steps is None and recipe.epochs is None and "steps" not in recipe.flags:
                raise InputError(f"{table.name}: {cell.row}, {cell.column}: expected a recipe with --steps or "
                                 f"--epochs for --budget={asked.budget} to shorten; {cell.recipe} has neither")
            key = json.dumps(recipe.flags)
            other, length, most = cells.get(key, (cell, *chosen))
            own = recipes.read(other.recipe, other.flags)
            if (chosen[0] or (recipe.steps, recipe.epochs)) != (length or (own.steps, own.epochs)):
                raise InputError(f"{table.name}: {cell.row}, {cell.column} differs from {other.row}, {other.column} in "
                                 "its length alone; expected cells of other flags, by which results are found")
            if _find_seed(cell) != _find_seed(other):
                raise InputError(f"{table.name}: {cell.row}, {cell.column} differs from {other.row}, {other.column} in "
                                 "its seed alone; expected one cell for all seeds, whose mean a table shows")
            cells[key] = (other, length, max(most, chosen[1]))
    return list(cells.values())


def _find_seed(cell: tables.Cell) -> str:
    """Return the flag by which a cell begins at another seed than its recipe; "" if it does not."""
    return next((flag for flag in reversed(cell.flags) if flag.startswith("--seed=")), "")


def _share_runs(one: tables.Cell, other: tables.Cell) -> bool:
    return (recipes.read_flags_if_possible(one.recipe or "", one.flags)
            == recipes.read_flags_if_possible(other.recipe or "", other.flags))


def _judge_rows(table: tables.Table, asked: Asked, found: Sequence[results.Result]) -> dict[str, bool]:
    """Return {row: whether it is shown at full length} of the rows that the budget would shorten.

    It is if all seeds of its models are there at a common share of their recipes' lengths, see `values.find_of_row`.
    """
    there: dict[str, list[list[Share]]] = {}        # for each run of a row, the shares at which there is a result
    for cell in table.cells:
        chosen = None if asked.score_only else table.choose_length(cell, asked.budget, asked.seeds)
        if not chosen or not chosen[0]:
            continue
        try:
            config = make_configuration(cell.recipe or "", cell.flags)
        except (InputError, OSError):
            there.setdefault(cell.row, []).append([])
            continue
        if not config.steps:        # an untrained model is compared with any other
            continue
        wanted = list_wanted(cell, [table])
        there.setdefault(cell.row, []).extend(
            [Share(fit["configuration"]["steps"] / config.steps, fit["configuration"]["steps"]) for fit in
             _find_fit(dataclasses.replace(config, seed=config.seed + i), wanted, found, longer=True)]
            for i in range(chosen[1]))
    return {row: any(all(any(are_equal_shares(share, other) for other in shares) for shares in runs)
                     for share in runs[0]) for row, runs in there.items()}


def choose_jobs() -> int:
    """Return how many tasks run at a time on this machine: one per processor, or one where there is a GPU."""
    import tensorflow as tf

    return 1 if tf.config.list_physical_devices("GPU") else joblib.cpu_count()


def digest_source(function: str) -> str:
    """Return a digest of the file that holds a function "module:function".

    Raises:
        InputError: there is no such module, it cannot be imported, or it has no such function.
    """
    module, _, name = function.partition(":")
    try:
        spec = importlib.util.find_spec(module) if module else None
    except (ImportError, ValueError):
        spec = None
    if not spec or not spec.origin or not pathlib.Path(spec.origin).is_file():
        raise InputError(f"measure: expected module:function; got {function!r}, and there is no module {module}")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except Exception as error:
        raise InputError(f"measure: expected module:function; got {function!r}, and importing {module} fails: "
                         f"{type(error).__name__}: {error}") from error
    if not callable(found):
        raise InputError(f"measure: expected module:function; got {function!r}, and {module} has no function {name}")
    return hashlib.sha256(pathlib.Path(spec.origin).read_bytes()).hexdigest()


def read_train_flags(arguments: Sequence[str]) -> absl_flags.FlagValues:
    """Parse flags of train.py.

    Raises:
        InputError: a flag that does not exist, or a value that does not fit.
    """
    return _parse(cli.define_train_flags, "train.py", arguments)


def read_evaluate_flags(arguments: Sequence[str]) -> absl_flags.FlagValues:
    """Parse flags of evaluate.py.

    Raises:
        InputError: a flag that does not exist, or a value that does not fit.
    """
    return _parse(cli.define_evaluate_flags, "evaluate.py", arguments)


def _parse(define: Callable[[absl_flags.FlagValues], Any], program: str,
           arguments: Sequence[str]) -> absl_flags.FlagValues:
    values = absl_flags.FlagValues()
    absl_flags.DEFINE_string("flagfile", "", "", flag_values=values)     # absl's own, which only FLAGS has
    define(values)
    try:
        cli.read_flags(values, [program, *arguments])
    except absl_flags.Error as error:
        raise InputError(f"{program}: {error}") from None
    return values


def make_configuration(recipe: str, extra: tuple[str, ...] = (), length: str = "") -> Configuration:
    """Return the configuration of a recipe's first seed.

    Raises:
        InputError: the flags do not go together, or the data are not there.
    """
    values = read_train_flags(recipes.list_arguments(recipe, extra, length))
    return next(iter(cli.configure_all(values, load_training_part(values)).values()))


def load_training_part(values: absl_flags.FlagValues) -> data.Dataset:
    """Load the part of the data that flags train on."""
    return _load(values.dataset, values.data_dir, values.data_seed).split(values.split, "train", values.data_seed)


@functools.lru_cache(maxsize=2)       # the cells of a table come by dataset
def _load(name: str, data_dir: str | None, seed: int) -> data.Dataset:
    return data.load(name, data_dir=data_dir, seed=seed)


def list_wanted(cell: tables.Cell, among: Iterable[tables.Table]) -> Wanted:
    """Return what tables read of a cell's runs: names of metrics, by the flags of evaluate.py for them."""
    flags = recipes.read(cell.recipe or "", cell.flags).flags
    wanted: dict[tuple[str, ...], set[str]] = {}
    for each in among:
        for other in each.cells:
            if other.recipe and flags == recipes.read_flags_if_possible(other.recipe, other.flags):
                for metric in (each.get_metric(other, name) for name in each.metrics):
                    if key := results.find_key(metric):
                        wanted.setdefault(tuple(sorted(metric.evaluate)), set()).add(key.split(" ")[0])
    return tuple((given, tuple(sorted(names))) for given, names in sorted(wanted.items()))


def check_metrics(table: tables.Table) -> None:
    """Raise InputError for what no result will have: metrics, other paths, flags; before hours of training."""
    known = (*ALWAYS, *metrics.METRICS, *looks.LOOKS)
    for metric in {table.get_metric(cell, name) for cell in table.cells for name in table.metrics}:
        read_evaluate_flags(metric.evaluate)
        where, (head, *rest) = f"{table.name}: metrics.{metric.name}", metric.read.split(".")
        if head not in results.READ:
            raise InputError(f"{where}.read: expected a path that begins with one of {', '.join(results.READ)}; got "
                             f"{metric.read!r}")
        if head == "metrics" and (not rest or rest[0] not in known):
            raise InputError(f"{where}.read: expected metrics.NAME of {', '.join(known)}; got {metric.read!r}")
        if head in ("metrics", "polarised_regime") and len(rest) < 2:
            raise InputError(f"{where}.read: expected a number of {metric.read}, such as {metric.read}.score; got the "
                             "whole entry")
        if metric.evaluate and head != "metrics":
            raise InputError(f"{where}.evaluate: flags change what is read of metrics alone; expected none for "
                             f"{metric.read}, got {' '.join(metric.evaluate)}")


def reuse(config: Configuration, name: str, extra: tuple[str, ...], wanted: Wanted,
          found: Sequence[results.Result], places: Places, *, longer: bool) -> bool:
    """Say whether this run has a result with all wanted metrics; with `longer`, one of a longer training will do.

    If only results that other recipes led to are such, one is written once more with this recipe's flags, because
    tables find it by them; what else was measured of the same run goes along.
    """
    flags = recipes.read(name, extra).flags
    fit = _find_fit(config, wanted, found, longer=longer)
    if fit and not any(result["flags"] == flags for result in fit):
        measured = results.gather_metrics(found, fit[0]["configuration"])
        results.write(places.results, {**fit[0], "recipe": name, "flags": flags, "metrics": measured})
    return bool(fit)


def _find_fit(config: Configuration, wanted: Wanted, found: Sequence[results.Result], *, longer: bool
              ) -> list[results.Result]:
    """Return the results of a run that have all wanted metrics."""
    keys = [" ".join([metric, *given]) for given, names in wanted for metric in names]
    return [result for result in found
            if covers(config, result.get("configuration"), longer=longer) and result["numerics"] == results.NUMERICS
            and all(is_measured(key, result["metrics"]) for key in keys)]


def is_measured(key: str, found: Mapping[str, Any]) -> bool:
    """Return whether a result has a metric: its score, or a reason why there is none that would be the same again."""
    entry = found.get(key)
    return entry is not None and not ("skipped" in entry and may_change(key.split(" ")[0], entry["skipped"]))
