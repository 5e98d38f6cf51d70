"""What is left to do for some cells: their configurations, less the results that are there, as tasks.

A run is known by its configuration, which holds all that it depends on. What flags leave open is filled in to suit the
data, so this needs the data, and TensorFlow.
"""

import dataclasses
import functools
import hashlib
import importlib.util
import json
import math
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import joblib
from absl import flags as absl_flags

from vae_tf import cli, data, metrics
from vae_tf.errors import InputError
from vae_tf.experiments import recipes, results, tables
from vae_tf.metrics import closed_forms, geometry

ALWAYS = ("elbo", "reconstruction", "kl")      # what an evaluation gives whatever it is asked


class Places(NamedTuple):
    """Where runs, exports and results go, and further folders whose runs and exports are taken but not changed."""

    run_root: str = "runs"
    export_root: str = "exported"
    results: str = "results"
    adopt: tuple[str, ...] = ()

    def absolute(self) -> "Places":
        """The same places for a process in any folder."""
        def absolute(path):
            return str(pathlib.Path(path).absolute())

        return Places(absolute(self.run_root), absolute(self.export_root), absolute(self.results),
                      tuple(map(absolute, self.adopt)))


Wanted = tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]       # ((flags of evaluate.py, names of metrics), ...)


@dataclasses.dataclass(frozen=True)
class Task:
    """Some seeds of a recipe, trained side by side, and scored.

    name: of their runs and exports, before "-seedS"; a digest in it tells recipes apart, whatever they are called.
    places: where they are.
    length: the flag that says how long, "" for the recipe's own.
    steps: in all.
    digest: of the configuration, which a worker must come to as well.
    wanted: what is measured.
    function: "module:function", of an experiment that trains nothing; the recipe is empty then.
    """

    name: str
    places: Places
    recipe: str = ""
    flags: tuple[str, ...] = ()
    length: str = ""
    seeds: tuple[int, ...] = ()
    steps: int = 0
    digest: str = ""
    wanted: Wanted = ()
    function: str = ""

    @property
    def label(self) -> str:
        """What people call it."""
        if not self.seeds:
            return self.name
        seeds = f"{self.seeds[0]} to {self.seeds[-1]}" if len(self.seeds) > 1 else str(self.seeds[0])
        return f"{self.name}, seed{'s' * (len(self.seeds) > 1)} {seeds}"

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Task":
        read = {name: _tuples(value) for name, value in json.loads(text).items()}
        return cls(**{**read, "places": Places(*read["places"])})


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


class Plan(NamedTuple):
    """tasks to do; how many runs are there already; what cannot be done, in lines."""

    tasks: list[Task]
    finished: int
    problems: list[str]


def plan(table: tables.Table, found: Sequence[results.Result], *, budget: str, seeds: int | None, jobs: int,
         places: Places) -> Plan:
    """What is left to do of a table.

    Args:
        table: see tables.
        found: results that are there.
        budget: of tables.BUDGETS.
        seeds: how many per cell; None for what the budget says.
        jobs: how many tasks run at a time: so many are made, where there is so much to do.
        places: where results go; one of a run that is known by another recipe is written there once more.

    Raises:
        InputError: a recipe or a metric that does not exist.
    """
    places = places.absolute()
    if table.measure:
        task = Task(name=table.name, function=table.measure, places=places)
        there = [result for result in results.of_experiment(found, table.name)
                 if result["source"] == source_of(table.measure)]
        return Plan([] if there else [task], len(there), [])
    cells: dict[str, tuple[tables.Cell, str, int]] = {}
    for cell in table.cells:
        if cell.recipe and (asked := table.length(cell, budget, seeds)):
            flags = recipes.read(cell.recipe, cell.flags).flags
            cells.setdefault(json.dumps([flags, asked[0]]), (cell, *asked))       # several cells may share runs
    check_metrics(table)
    tasks, finished, problems = [], 0, []
    for cell, length, count in cells.values():
        recipe = cell.recipe or ""
        try:
            config = configuration(recipe, cell.flags, length)
        except (InputError, OSError) as error:
            problems.append(f"{cell.row}, {cell.column} is not run: {cell.needs or error}")
            continue
        wanted = wanted_of(cell, table)
        left = [seed for seed in range(config["seed"], config["seed"] + count)
                if not reuse({**config, "seed": seed}, recipe, cell.flags, wanted, found, places)]
        finished += count - len(left)
        # A stack of convolutions is no faster than one after the other (see replicas): those go to workers one by one.
        size = 1 if config["network"].startswith("conv") else math.ceil(count / math.ceil(jobs / len(cells)))
        name = f"{pathlib.Path(recipe).name}-{digest(config)[:8]}-{config['steps']}"
        tasks += [Task(name, places, recipe, cell.flags, length, tuple(left[i:i + size]), config["steps"],
                       digest(config), wanted) for i in range(0, len(left), size)]
    return Plan(tasks, finished, problems)


def usual_jobs() -> int:
    """How many tasks run at a time on this machine: one per processor, or one alone where there is a GPU."""
    import tensorflow as tf  # cli quietens its import

    return 1 if tf.config.list_physical_devices("GPU") else joblib.cpu_count()


def source_of(function: str) -> str:
    """A digest of the file that a function "module:function" is in.

    Raises:
        InputError: there is no such module.
    """
    module = function.partition(":")[0]
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if not spec or not spec.origin:
        raise InputError(f"measure: expected module:function; got {function!r}, and there is no module {module}")
    return hashlib.sha256(pathlib.Path(spec.origin).read_bytes()).hexdigest()


def train_flags(arguments: Sequence[str]) -> absl_flags.FlagValues:
    """train.py's flags, parsed.

    Raises:
        InputError: a flag that does not exist, or a value that does not fit.
    """
    return _parsed(cli.define_train_flags, "train.py", arguments)


def evaluate_flags(arguments: Sequence[str]) -> absl_flags.FlagValues:
    """evaluate.py's flags, parsed; raises as `train_flags`."""
    return _parsed(cli.define_evaluate_flags, "evaluate.py", arguments)


def _parsed(define, program, arguments):
    values = absl_flags.FlagValues()
    absl_flags.DEFINE_string("flagfile", "", "", flag_values=values)     # absl's own, which only FLAGS has
    define(values)
    try:
        cli.read(values, [program, *arguments])
    except absl_flags.Error as error:
        raise InputError(f"{program}: {error}") from None
    return values


def configuration(recipe: str, extra: tuple[str, ...] = (), length: str = "") -> dict[str, Any]:
    """The configuration of a recipe's first seed, as config.json has it.

    Raises:
        InputError: the flags do not go together, or the data are not there.
    """
    values = train_flags(recipes.arguments(recipe, extra, length))
    config = next(iter(cli.configurations(values, training_part(values)).values()))
    return json.loads(json.dumps(config))


def training_part(values: absl_flags.FlagValues) -> data.Dataset:
    """The part of the data that flags train on."""
    return _loaded(values.dataset, values.data_dir, values.data_seed).split(values.split, "train", values.data_seed)


@functools.lru_cache(maxsize=2)       # the cells of a table come by dataset
def _loaded(name, data_dir, seed):
    return data.load(name, data_dir=data_dir, seed=seed)


def digest(config: Mapping[str, Any]) -> str:
    """A digest of a configuration, the same for all seeds and lengths."""
    kept = {name: value for name, value in config.items() if name not in ("seed", "steps")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def same_run(config: Mapping[str, Any], other: Any) -> bool:
    """Whether another configuration is that of the same run, however long."""
    return isinstance(other, dict) and {**other, "steps": 0} == {**config, "steps": 0}


def covers(config: Mapping[str, Any], other: Any) -> bool:
    """Whether another configuration is that of the same run, at least as long; of no step, if this one is."""
    return same_run(config, other) and (other["steps"] >= config["steps"] if config["steps"] else not other["steps"])


def wanted_of(cell: tables.Cell, table: tables.Table) -> Wanted:
    """((flags of evaluate.py, names of metrics), ...) that any table reads of a cell's runs: all at once."""
    flags = recipes.read(cell.recipe, cell.flags).flags
    wanted: dict[tuple[str, ...], set[str]] = {}
    for each in {table.name: table, **tables.readable()}.values():
        for other in each.cells:
            if other.recipe and flags == recipes.flags_or_none(other.recipe, other.flags):
                for key in filter(None, (results.measured_as(each.metric(other, name)) for name in each.metrics)):
                    metric, *given = key.split(" ")
                    wanted.setdefault(tuple(given), set()).add(metric)
    return tuple((given, tuple(sorted(names))) for given, names in sorted(wanted.items()))


def check_metrics(table: tables.Table) -> None:
    """Raise InputError for metrics or flags of evaluate.py that do not exist: before hours of training."""
    for metric in {table.metric(cell, name) for cell in table.cells for name in table.metrics}:
        evaluate_flags(metric.evaluate)
        key = results.measured_as(metric)
        if key and key.split(" ")[0] not in (known := (*ALWAYS, *metrics.ALL, *geometry.GEOMETRY,
                                                       *closed_forms.THEORY)):
            raise InputError(f"{table.name}: metrics.{metric.name}.read: expected metrics.NAME of {', '.join(known)}; "
                             f"got {metric.read!r}")


def reuse(config: Mapping[str, Any], name: str, extra: tuple[str, ...], wanted: Wanted,
          found: Iterable[results.Result], places: Places) -> bool:
    """Whether a result of this run is there, at least as long and with all metrics wanted.

    One that another recipe led to is written once more, with this recipe's flags, by which tables find it.
    """
    keys = [" ".join([metric, *given]) for given, names in wanted for metric in names]
    for result in found:
        if (covers(config, result.get("configuration")) and result["numerics"] == results.NUMERICS
                and all(key in result["metrics"] for key in keys)):
            flags = recipes.read(name, extra).flags
            if result["flags"] != flags:
                results.write(places.results, {**result, "recipe": name, "flags": flags})
            return True
    return False
