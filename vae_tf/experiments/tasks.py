"""Tasks, each of some seeds of a recipe; and the rule by which two configurations are of the same run."""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from vae_tf.configuration import Configuration


class Places(NamedTuple):
    """The folders of runs, exports and results, and further folders whose runs and exports are used but not changed."""

    run_root: str = "runs"
    export_root: str = "exported"
    results: str = "results"
    adopt: tuple[str, ...] = ()

    def make_absolute(self) -> "Places":
        """Return the same places as absolute paths, for a process in any folder."""
        def absolute(path: str) -> str:
            return str(pathlib.Path(path).absolute())

        return Places(absolute(self.run_root), absolute(self.export_root), absolute(self.results),
                      tuple(map(absolute, self.adopt)))


Wanted = tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]       # ((flags of evaluate.py, names of metrics), ...)


@dataclasses.dataclass(frozen=True)
class Task:
    """Some seeds of a recipe, which are trained together and scored.

    name: the name of their runs and exports before "-seedS". A digest in it tells recipes of one name apart.
    places: the folders of runs, exports and results.
    length: the flag that says how long to train, "" for the recipe's own length.
    steps: the number of steps in all.
    digest: a digest of the configuration, which a worker must come to as well.
    wanted: the metrics to measure.
    function: "module:function" of an experiment that trains nothing; the recipe is then empty.
    narrow: whether the networks are narrow, see networks.Maker.
    score_only: whether runs that have no export are an error, instead of being trained.
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
    narrow: bool = False
    score_only: bool = False

    @property
    def label(self) -> str:
        """The name of the task for people, which no other task of a plan has: names are equal where runs are."""
        if not self.seeds:
            return self.name
        seeds = f"{self.seeds[0]} to {self.seeds[-1]}" if len(self.seeds) > 1 else str(self.seeds[0])
        return f"{' '.join([self.recipe, *self.flags])}, seed{'s' * (len(self.seeds) > 1)} {seeds}"

    def as_json(self) -> str:
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Task":
        read = {name: _make_tuples(value) for name, value in json.loads(text).items()}
        return cls(**{**read, "places": Places(*read["places"])})


def _make_tuples(value: Any) -> Any:
    return tuple(map(_make_tuples, value)) if isinstance(value, list) else value


def digest(config: Configuration) -> str:
    """Return a digest of a configuration that is the same for all seeds and lengths."""
    kept = {name: value for name, value in config.as_json().items() if name not in ("seed", "steps")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def is_same_run(config: Configuration, other: Any) -> bool:
    """Return whether the entries of another configuration are of the same run, however long.

    A beta that is left open is the model's own. Data that have a fingerprint are known by it, whatever their name.

    Args:
        config: the configuration of a run.
        other: what a config.json, a card or a result holds; anything else is no configuration.
    """
    return isinstance(other, dict) and _identify(other) == _identify(config.as_json())


def are_of_one_run(one: Any, other: Any) -> bool:
    """Return whether the entries of two configurations are of the same run, and of the same length."""
    return (isinstance(one, dict) and isinstance(other, dict) and one.get("steps") == other.get("steps")
            and _identify(one) == _identify(other))


def _identify(entries: Mapping[str, Any]) -> Mapping[str, Any]:
    left_out = ("steps", "dataset") if entries.get("data_fingerprint") else ("steps",)
    return {name: value for name, value in _fill_in_beta(entries).items() if name not in left_out}


def _fill_in_beta(entries: Mapping[str, Any]) -> Mapping[str, Any]:
    from vae_tf import models  # TensorFlow: listing tables does without

    kind = models.MODELS.get(entries["model"]) if "model" in entries else None
    own = kind.default_beta if kind else None
    return entries if own is None or entries.get("beta") is not None else {**entries, "beta": own}


def covers(config: Configuration, other: Any, *, longer: bool) -> bool:
    """Return whether the entries of another configuration are of the same run, and as long.

    Args:
        config: the configuration of a run.
        other: what a config.json, a card or a result holds; anything else is no configuration.
        longer: whether a longer training will do, too, unless the run has no steps.
    """
    return is_same_run(config, other) and (
        other["steps"] == config.steps or (longer and 0 < config.steps < other["steps"]))
