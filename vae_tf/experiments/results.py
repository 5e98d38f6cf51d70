"""Results: what was measured of each run, in one small file of results/ that is found by its content.

A result is a dict:

    schema         SCHEMA
    checksum       of all other entries, in the file alone; results of schema 1 have none
    recipe, flags  the recipe's name, and its flags without seed and length (recipes.Recipe.flags)
    seed, steps, epochs
    stopped_at     the step at which early stopping ended the run, of those `steps`; in results of such runs alone
    configuration  the run's config.json: all that it depends on, the data's fingerprint included
    numerics       configuration.NUMERICS when it was trained
    command        what trains the same model
    versions, machine, seconds     seconds {"training", "scoring"}; training is None for a run that others made
    verdict        {"state", "words", "informative", "kl"}
    metrics        {name: {"score", "interval", ...} or {"skipped": why}}; the name is followed by the flags of
                   evaluate.py that it was measured with, if any
    polarised_regime               {name: {"score", ...}}, as in metrics.json
    history        {column: numbers}, thinned to at most ROWS rows

That of an experiment which trains nothing has `experiment`, the table's name, and `source`, a digest of the code that
measured it, in place of recipe to configuration, and no verdict or history.
"""

import hashlib
import json
import pathlib
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from vae_tf import files, schemas
from vae_tf.configuration import NUMERICS
from vae_tf.errors import InputError
from vae_tf.experiments.tables import Metric
from vae_tf.experiments.tasks import are_of_one_run

SCHEMA = 2
ROWS = 50

Result = dict[str, Any]
_SECONDS = {"seconds.training": schemas.or_null(schemas.NUMBER), "seconds.replicas": schemas.or_null(schemas.SIZE),
            "seconds.scoring": schemas.or_null(schemas.NUMBER)}
# What a result must hold, and what it may hold besides, by dotted name.
REQUIRED: schemas.Schema = {
    "schema": schemas.WHOLE, "numerics": schemas.WHOLE, "machine": schemas.TEXT, "versions": schemas.Kind(
        "an object of texts", lambda value: isinstance(value, dict) and all(map(schemas.TEXT.holds, value.values()))),
    "metrics": schemas.Kind("an object of objects", lambda value: isinstance(value, dict) and all(
        isinstance(of, dict) for of in value.values())), "seconds": schemas.OBJECT}
OF_RUN: schemas.Schema = {
    "recipe": schemas.TEXT, "flags": schemas.OBJECT, "seed": schemas.COUNT, "steps": schemas.COUNT,
    "epochs": schemas.NUMBER, "configuration": schemas.OBJECT, "command": schemas.TEXT}
OF_EXPERIMENT: schemas.Schema = {"experiment": schemas.TEXT, "source": schemas.TEXT}
OPTIONAL: schemas.Schema = {**_SECONDS, "history": schemas.OBJECT, "stopped_at": schemas.COUNT,
                            "verdict": schemas.or_null(schemas.OBJECT)}


def write(folder: str | pathlib.Path, result: Result) -> pathlib.Path:
    """Write a result, whole or not at all, in place of an older one of the same run; return its path."""
    path = pathlib.Path(folder) / name_file(result)
    written = json.loads(_format({"schema": SCHEMA, **result}))
    files.write_text(path, _format({**written, "checksum": schemas.compute_checksum(written)}))
    return path


def _format(result: Result) -> str:
    """Return a result as the text of its file, with a line for each list of numbers."""
    text = json.dumps(result, indent=1, allow_nan=False) + "\n"
    return re.sub(r"\[[^][{}\"]+\]", lambda numbers: " ".join(numbers[0].split()), text)


def name_file(result: Result) -> pathlib.Path:
    """Return where a result is below results/: PAPER/RECIPE-DIGEST-seedS-STEPS.json, or NAME.json of an experiment.

    From 2 on, numerics N end the name: those of another number stay where they are.
    """
    numerics = f"-numerics{result['numerics']}" if result["numerics"] > 1 else ""
    if "experiment" in result:
        return pathlib.Path(f"{result['experiment']}{numerics}.json")
    told = json.dumps(result["flags"], sort_keys=True)
    digest = hashlib.sha256(told.encode()).hexdigest()[:6]
    return pathlib.Path(f"{result['recipe']}-{digest}-seed{result['seed']}-{result['steps']}{numerics}.json")


def read_all(folder: str | pathlib.Path) -> list[Result]:
    """Read every result below a folder, in the order of paths; a damaged file is passed over with a warning.

    Results of the same flags on several data give a warning, too, because a table shows those of one of them.
    """
    read = {}
    for path in sorted(pathlib.Path(folder).rglob("*.json")):
        if path.name.startswith("."):       # being written
            continue
        try:
            read[path] = _read(path)
        except (FileNotFoundError, InputError) as error:
            print(f"warning: {error}", file=sys.stderr)
    found = list(_drop_copies(pathlib.Path(folder), read).values())
    for runs in _group(found, lambda run: json.dumps([run.get("flags"), run["numerics"]], sort_keys=True)).values():
        if "flags" not in runs[0] or len({_describe_settings(run) for run in runs}) == 1:
            continue
        shown = _describe_settings(find_by_length(runs, runs[0]["flags"], numerics=runs[0]["numerics"])[0][0])
        other = next(run for run in runs if _describe_settings(run) != shown)
        one, two = (json.loads(settings) for settings in (shown, _describe_settings(other)))
        differ = ", ".join(sorted(name for name in {*one, *two} if one.get(name) != two.get(name)))
        print(f"warning: {folder}: {runs[0]['recipe']} has results that differ in {differ}. Tables show those of which "
              f"there are most. Delete the results that are out of date; {name_file(other)} is not shown.",
              file=sys.stderr)
    return found


def _drop_copies(folder: pathlib.Path, read: dict[pathlib.Path, Result]) -> dict[pathlib.Path, Result]:
    """Return the results by path, one of each run; a warning names each further file of a run.

    Of the files of a run, the one that lies where `write` puts it is kept, or else the first.
    """
    kept: dict[tuple[Any, ...], pathlib.Path] = {}
    for path, result in sorted(read.items(), key=lambda each: each[0] != folder / name_file(each[1])):
        first = kept.setdefault((name_file(result), result["numerics"], _get_fingerprint(result)), path)
        if first != path:
            print(f"warning: {path}: a result of the same run as {first}; it is passed over", file=sys.stderr)
    return {path: result for path, result in read.items() if path in kept.values()}


def _group(found: Iterable[Result], key: Callable[[Result], str]) -> dict[str, list[Result]]:
    """Return results by a key."""
    groups: dict[str, list[Result]] = {}
    for result in found:
        groups.setdefault(key(result), []).append(result)
    return groups


def _get_fingerprint(result: Result) -> str:
    """Return the fingerprint of the data of a run, "" where it is not known."""
    return str(result.get("configuration", {}).get("data_fingerprint") or "")


def _describe_settings(result: Result) -> str:
    """Return as JSON what the runs of a cell must share: their configuration, but for seed, length and data's name."""
    left_out = {"seed", "steps", *(["dataset"] if _get_fingerprint(result) else [])}
    return json.dumps({name: value for name, value in result.get("configuration", {}).items() if name not in left_out},
                      sort_keys=True)


def _read(path: pathlib.Path) -> Result:
    """Return a result; raises InputError if the file holds none."""
    remedy = "it is passed over"
    result = schemas.read_json(path, {}, ("schema",), remedy)
    needed = {**REQUIRED, **(OF_EXPERIMENT if "experiment" in result else OF_RUN)}
    if result["schema"] == SCHEMA:
        needed["checksum"] = schemas.TEXT
    wrong = (f"expected a result of schema 1 or {SCHEMA}" if result["schema"] not in (1, SCHEMA)
             else schemas.find_mistake(result, {**needed, **OPTIONAL}, needed))
    if not wrong and not schemas.is_untouched(result):
        wrong = "its entries are not those that its checksum was made of"
    if wrong:
        raise InputError(f"{path}: {wrong}; {remedy}")
    return {name: value for name, value in result.items() if name != "checksum"}


def find_by_length(found: Iterable[Result], flags: Mapping[str, Any], *, numerics: int = NUMERICS
                   ) -> list[list[Result]]:
    """Return the results of a recipe's flags: a list for each length of training, longest first, ordered by seed.

    All of a list are of the same data and settings. Of several with a training of that length, it is those with the
    most results.
    """
    same = [result for result in found if result.get("flags") == flags and result["numerics"] == numerics]
    by_length = []
    for steps in sorted({result["steps"] for result in same}, reverse=True):
        by_settings = _group((result for result in same if result["steps"] == steps), _describe_settings)
        most = max(by_settings.values(), key=len)
        by_length.append(sorted(most, key=lambda result: result["seed"]))
    return by_length


def find_of_experiment(found: Iterable[Result], name: str) -> list[Result]:
    """Return the result of an experiment that trains nothing, in a list of one or none."""
    return [result for result in found if result.get("experiment") == name and result["numerics"] == NUMERICS]


def gather_metrics(found: Iterable[Result], configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics of a run in all its results, of which each recipe that led to it has one."""
    return {name: entry for result in found
            if are_of_one_run(configuration, result.get("configuration")) and result["numerics"] == NUMERICS
            for name, entry in result["metrics"].items()}


def is_dead(result: Result) -> bool:
    """Say whether a result is of a model that says nothing about x, or next to nothing."""
    return (result.get("verdict") or {}).get("state") in ("dead", "nearly dead")


# The entries of a result that a table may read.
READ = ("metrics", "polarised_regime", "verdict", "history", "seconds", "steps", "epochs", "stopped_at", "seed")


def find_key(metric: Metric) -> str | None:
    """Return the key in a result's `metrics` that a metric reads; None if it reads something else, such as history."""
    head, _, rest = metric.read.partition(".")
    return " ".join([rest.partition(".")[0], *sorted(metric.evaluate)]) if head == "metrics" else None


def find_missing_entry(result: Result, metric: Metric) -> str | None:
    """Return the name in metric.read that a result lacks although the metric was measured, or None."""
    names, key = metric.read.split("."), find_key(metric)
    entry = result["metrics"].get(key, {}) if key else {}
    return names[2] if len(names) > 2 and "score" in entry and names[2] not in entry else None


def read_value(result: Result, metric: Metric) -> Any:
    """Return what a metric reads in a result: a number, a list of numbers, or None where it was not measured.

    metric.read is a path of names with dots between them; a whole number is an index into a list, from the end if it is
    negative. A score that has no meaning for the model (see `verdicts`) is None too.
    """
    parts = metric.read.split(".")
    if key := find_key(metric):
        parts[1] = key
    at: Any = result
    for part in parts:
        if isinstance(at, dict) and "no_meaning" in at:
            return None
        if isinstance(at, dict):
            at = at.get(part)
        elif isinstance(at, list) and re.fullmatch(r"-?\d+", part) and -len(at) <= int(part) < len(at):
            at = at[int(part)]
        else:
            return None
    return at
