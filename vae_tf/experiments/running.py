"""Perform one task in a process of its own: find or train the runs of some seeds, score them, write their results.

`python -m vae_tf.experiments.running TASK` gets a tasks.Task as JSON; scheduling starts it.
"""

if __name__ == "__main__":
    import sys

    from vae_tf import console
    from vae_tf.experiments.tasks import Task
    console.start()     # before the slow imports
    console.import_tensorflow(narrow=Task.from_json(sys.argv[1]).narrow)

import contextlib
import dataclasses
import importlib
import json
import math
import os
import pathlib
import platform
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import flags

from vae_tf import checks, cli, console, data, evaluation, export, extensions, metrics, runs, training, workers
from vae_tf.configuration import Configuration
from vae_tf.data.spreading import spread_evenly
from vae_tf.errors import InputError, make_printable
from vae_tf.experiments import finding, looks, planning, recipes, results, tasks
from vae_tf.programs import evaluate
from vae_tf.programs import train as train_program

STOPPED = 3             # the exit code of a task that was asked to stop; its runs go on from their checkpoints
LARGEST_PART = 64       # numbers of a metric's part that a result keeps


def perform(task: tasks.Task) -> bool:
    """Find, train and score the runs of a task; return whether it came to its end.

    Raises:
        InputError: this process comes to other configurations than the command did.
    """
    if task.function:
        measure_function(task)
        return True
    values = planning.read_train_flags(recipes.list_arguments(task.recipe, task.flags, task.length))
    dataset = planning.load_training_part(values)
    first = planning.make_configuration(task.recipe, task.flags, task.length)
    if tasks.digest(first) != task.digest:
        raise InputError(f"worker: expected the configuration that the command has, {task.digest[:8]}; got "
                         f"{tasks.digest(first)[:8]} from {recipes.CHECKOUT}; a worker needs "
                         "the same checkout and data")
    configs = {seed: dataclasses.replace(first, seed=seed) for seed in task.seeds}
    with contextlib.ExitStack() as held:
        for seed in task.seeds:     # another command may be at the same run: wait until it is done with it
            held.enter_context(runs.hold(name_folder(task, seed), wait=True))
        if not train_missing(task, configs):
            return False
        for i, (seed, config) in enumerate(configs.items(), 1):
            print(f"scoring {i} of {len(configs)}: seed {seed}", flush=True)
            write_result(task, config, len(dataset))
    return True


def name_folder(task: tasks.Task, seed: int) -> pathlib.Path:
    """Return the folder in which a task trains a seed."""
    return pathlib.Path(task.places.run_root, f"{task.name}-seed{seed}")


def train_missing(task: tasks.Task, configs: Mapping[int, Configuration]) -> bool:
    """Train the runs that have no export; return False if the process was asked to stop."""
    cards = finding.find_exports(finding.list_export_roots(task.places))
    missing = {seed: config for seed, config in configs.items() if not finding.find_export(config, cards)}
    if missing and task.score_only:
        raise InputError("--score_only: expected whole exports of the models that there were, because nothing is "
                         f"trained; got none of seed {', '.join(map(str, missing))}")
    for seed, config in missing.items():
        finding.bring(config, name_folder(task, seed), finding.list_run_roots(task.places))
    for seeds in group_seeds({seed: name_folder(task, seed) for seed in missing}):
        train(task, seeds)
        cards = finding.find_exports([pathlib.Path(task.places.export_root)])
        if not all(finding.find_export(configs[seed], cards) for seed in seeds):
            return False
    return True


def group_seeds(folders: Mapping[int, pathlib.Path]) -> list[list[int]]:
    """Divide seeds into lists that can be trained as one program: consecutive seeds that start from a common step."""
    steps = {seed: set(runs.find_checkpoints(folder)) for seed, folder in folders.items()}
    together = not any(steps.values()) or (steps and set.intersection(*steps.values()))
    groups: list[list[int]] = []
    for seed in sorted(folders, key=lambda seed: (0 if together else max(steps[seed], default=0), seed)):
        before = groups[-1][-1] if groups else None
        if before is not None and seed == before + 1 and (
                together or max(steps[seed], default=0) == max(steps[before], default=0)):
            groups[-1].append(seed)
        else:
            groups.append([seed])
    return groups


def train(task: tasks.Task, seeds: Sequence[int]) -> None:
    """Train consecutive seeds as one program, with train.py."""
    values = planning.read_train_flags([
        *recipes.list_arguments(task.recipe, task.flags, task.length), f"--seed={seeds[0]}", f"--replicas={len(seeds)}",
        f"--name={task.name}", f"--run_root={task.places.run_root}", f"--export_root={task.places.export_root}"])
    train_program.main(values)


def write_result(task: tasks.Task, config: Configuration, examples: int) -> None:
    """Score a run and write its result, unless there is one already."""
    found = results.read_all(task.places.results)
    if planning.reuse(config, task.recipe, task.flags, task.wanted, found, task.places, longer=not task.length):
        return
    started = time.perf_counter()
    cards = finding.find_exports(finding.list_export_roots(task.places))
    path = finding.find_export(config, cards)
    assert path         # train_missing has seen to it
    recipe = cards[path]["recipe"]
    scored = score(path, task.wanted, results.gather_metrics(found, recipe))
    results.write(task.places.results, {
        "recipe": task.recipe, "flags": dict(recipes.read(task.recipe, task.flags).flags), "seed": config.seed,
        "steps": config.steps, "epochs": round(config.steps * config.batch_size / examples, 3), "configuration": recipe,
        "numerics": results.NUMERICS,
        "command": recipes.write_command(task.recipe, task.flags, seed=config.seed, length=task.length),
        "versions": {"python": platform.python_version(), **cards[path].get("versions", {})}, "machine": name_machine(),
        **read_run(task, config, time.perf_counter() - started), **scored})


def read_run(task: tasks.Task, config: Configuration, scoring: float) -> dict[str, Any]:
    """Read from a run's folder what its result needs, as far as it is known: seconds, history and an early stop."""
    folders = finding.find_folders(config, finding.list_run_roots(task.places))
    folder, rows = finding.find_history(config, folders)
    seconds = {"training": None, "replicas": None, "scoring": float(f"{scoring:.3g}")}
    if not folder:
        return {"seconds": seconds, "history": {}}
    lengths = np.diff([0, *(row["step"] for row in rows)])
    rates = np.array([row["examples_per_second"] or np.inf for row in rows])       # 0 is of steps that nobody timed
    seconds.update(training=round(float((lengths * config.batch_size / rates).sum()), 1),
                   replicas=finding.count_replicas(folder, rows, config.early_stopping))
    kept = [rows[i] for i in spread_evenly(len(rows), results.ROWS)]
    columns = dict.fromkeys(name for row in rows for name in row)
    reached = rows[-1]["step"]
    return {"seconds": seconds, "history": {name: [round_numbers(row.get(name)) for row in kept] for name in columns},
            **({"stopped_at": reached} if reached < config.steps else {})}


def score(path: pathlib.Path, wanted: tasks.Wanted, there: Mapping[str, Any]) -> dict[str, Any]:
    """Measure verdict, metrics, polarised_regime and scored_on of an export; keep the metrics in `there`."""
    model = export.load(path)
    whole = {"metrics": dict(there)}
    for given, names in wanted or (((), ()),):
        values = planning.read_evaluate_flags(given)
        dataset, settings, _ = evaluate.choose_test_part(model.card, cli.read_data_request(values))
        left = [name for name in names if not planning.is_measured(" ".join([name, *given]), there)]
        if unknown := [name for name in left if name not in (*planning.ALWAYS, *looks.LOOKS, *metrics.METRICS)]:
            raise InputError(f"worker: expected the metrics that the command has; got none named {unknown[0]}; a "
                             "worker needs the same version and extensions")
        whole["metrics"].update({" ".join([name, *given]): round_numbers(looks.LOOKS[name](model, dataset))
                                 for name in left if name in looks.LOOKS})
        left = [name for name in left if name not in looks.LOOKS]
        refused = "it is not of this model"
        try:
            told = json.loads(measure_export(model, dataset, left, values))
        except InputError as error:     # flags ask for the active latents, and all are passive
            refused, others = str(error), [flag for flag in given if not flag.startswith("--latents")]
            told = json.loads(measure_export(model, dataset, [], planning.read_evaluate_flags(others)))
        entries = {name: told["metrics"].get(name) or {"skipped": told["skipped"].get(name, refused)}
                   for name in left}
        whole["metrics"].update({" ".join([name, *given]): slim(entry) for name, entry in entries.items()})
        whole.setdefault("verdict", slim(told["verdict"] or {}))
        absent = {name: {"skipped": why} for name, why in told["skipped"].items() if name not in left}
        whole.setdefault("polarised_regime", {name: slim(entry) for name, entry in told["polarised_regime"].items()}
                         | absent)
        whole.setdefault("scored_on", settings)
    return whole


def measure_export(model: export.Exported, dataset: data.Dataset, names: Sequence[str],
                   values: flags.FlagValues) -> str:
    """Measure some metrics of an export as evaluate.py does with these flags; return the text of metrics.json."""
    options = {**vars(cli.read_options(values)), "names": [name for name in names if name in metrics.METRICS],
               "jobs": int(os.environ.get("OMP_NUM_THREADS", 1))}
    return evaluation.as_json(evaluation.evaluate(model, dataset, **options))


def measure_function(task: tasks.Task) -> None:
    """Call the function of an experiment that trains nothing, and write its result."""
    module, name = task.function.split(":")
    started = time.perf_counter()
    told = getattr(importlib.import_module(module), name)()
    if not isinstance(told, Mapping) or not all(isinstance(entry, Mapping) for entry in told.values()):
        raise InputError(f"measure: expected {task.function} to return {{name: {{\"score\": number}}}}; got "
                         f"{checks.describe(told)}")
    results.write(task.places.results, {
        "experiment": task.name, "source": planning.digest_source(task.function), "numerics": results.NUMERICS,
        "command": f"python -m vae_tf.experiments {task.name}", "versions": {"python": platform.python_version()},
        "machine": name_machine(), "metrics": round_numbers(told),
        "seconds": {"training": None, "scoring": float(f"{time.perf_counter() - started:.3g}")}})


def slim(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of metrics.json without its long lists."""
    return {name: round_numbers(part) for name, part in entry.items() if count(part) <= LARGEST_PART}


def count(value: Any) -> int:
    """Count the numbers in nested lists and dicts."""
    if isinstance(value, dict):
        return sum(map(count, value.values()))
    return sum(map(count, value)) if isinstance(value, list) else 1


def round_numbers(value: Any) -> Any:
    """Round the numbers in nested lists, arrays and dicts to six digits; replace those that are not finite by None."""
    if isinstance(value, dict):
        return {name: round_numbers(part) for name, part in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [round_numbers(part) for part in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value.item() if isinstance(value, np.generic) else value


def name_machine() -> str:
    """Name the kind of this machine: its processor, the number of its cores, and its GPUs."""
    name = platform.processor() or platform.machine()
    with contextlib.suppress(OSError, StopIteration):
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "a GPU") for gpu in gpus]
    return ", ".join([f"{name}, {os.cpu_count()} cores", *names])


def stop_with(parent: int) -> None:
    """Stop this process, as a signal would, when the process that started it has ended, because nobody else can."""
    workers.wait_for_end(parent)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)      # time for a checkpoint
    os._exit(STOPPED)


def main() -> None:
    task, parent = tasks.Task.from_json(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=stop_with, args=(parent,), daemon=True).start()
    try:
        extensions.load()
        if not perform(task):
            sys.exit(STOPPED)
    except (InputError, OSError, training.NonFiniteError, training.DataError) as error:
        print(f"error: {make_printable(' '.join(str(error).split()))}", file=sys.stderr, flush=True)
        sys.exit(2)


if __name__ == "__main__":
    console.run("task", main)
