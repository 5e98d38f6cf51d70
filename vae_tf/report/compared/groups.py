"""Models in groups: the mean of each score, and which settings vary within and between the groups."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from vae_tf import comparison, metrics
from vae_tf.errors import InputError, join_names, make_printable
from vae_tf.metrics import bound
from vae_tf.report.answers import HEADLINES
from vae_tf.report.frame import NOT_SCORES, OVER_X, SETTINGS, summarise
from vae_tf.report.rows import GROUPS, find_group

# The scores that a table shows first, where models have them.
FIRST = ("elbo", "reconstruction", "kl", *HEADLINES, "dto", "column_cosine", "active_latents", "passive_latents")

Row = dict[str, Any]
Members = dict[str, dict[str, str]]     # {label: {name of a model: the first model that it is a copy of}}


@dataclasses.dataclass(frozen=True)
class Groups:
    """Models in groups.

    members: the models of each group.
    rows: a row for each model as of `results_frame`, with the label of its group as `group`, but for copies.
    means: a row for each group as of `summarise`, with the settings that all its models share.
    recipes: {label: the entries of its models' recipe that have no column}, without those that differ in some group.
    differ: the settings that differ within some group, which the spread is over.
    unsaid: whether a group has several models, and the card of one does not say all of how it was trained.
    """

    members: Members
    rows: list[Row]
    means: list[Row]
    recipes: dict[str, Row]
    differ: tuple[str, ...]
    unsaid: bool

    @property
    def labels(self) -> list[str]:
        """The labels of the groups, as they are printed."""
        return [make_printable(label) for label in self.members]

    @property
    def spread(self) -> str:
        """What a spread is over, in words."""
        alike = self.differ in ((), ("seed",))
        return "over seeds" if alike else f"over models that differ in {join_names(self.differ)}"

    def list_limits(self) -> list[str]:
        """Return a sentence for each way in which the models of a group, or their scores, are not alike."""
        found = []
        if self.spread != "over seeds":
            found.append(f"The models of a group differ in {join_names(self.differ)}: tests and spreads are over "
                         "models, not over seeds of one recipe.")
        if self.unsaid:
            found.append("Some cards do not say all of how their models were trained, such as the optimizer: the "
                         "models of a group may differ in more than the seed.")
        counts = {row["examples"] for row in self.rows if row.get("examples")}
        if len(counts) > 1:
            found.append(f"Some models were scored on {min(counts):,} examples, others on up to {max(counts):,}: "
                         "mutual information is overestimated with fewer.")
        return found


def check_columns(by: Sequence[str]) -> None:
    """Raise InputError unless models can be grouped by these columns, before anything is scored."""
    scores = {*metrics.METRICS, *bound.MEANING, *FIRST}
    for name in by:
        if name not in ("export", *SETTINGS) and name not in scores:
            raise InputError(f"--group_by: expected names of export, {', '.join(SETTINGS)}, or of scores; got {name!r}")


def group_models(rows: Mapping[str, Row], recipes: Mapping[str, dict[str, Any]], by: Sequence[str] = (),
                 weights: Mapping[str, str] | None = None) -> Groups:
    """Put models into groups.

    Args:
        rows: {name: row of `results_frame`}.
        recipes: {name: recipe of the model's card}.
        by: the columns whose values make a group; empty for the recipe without its seed.
        weights: {name: checksum of the model's weights}, where it is known.

    Raises:
        InputError: a column that no model has.
    """
    for name in by:
        if not any(name in row for row in rows.values()):
            raise InputError(f"--group_by: expected names of columns; no model has {name!r}")
    copies = comparison.find_copies(recipes, weights or {})
    recipes = comparison.leave_out_unsaid(recipes)
    members: Members = {label: {name: copies[name] for name in names} for label, names in
                        comparison.group_by_recipe(recipes).items()} if not by else {}
    for name, row in rows.items() if by else ():
        label = " ".join(str(row.get(column)) if column == "model" else f"{column}={_shorten(row.get(column))}"
                         for column in by)
        members.setdefault(label, {})[name] = copies[name]
    kept = {label: _leave_out_copies(names) for label, names in members.items()}
    labelled = [{"group": label, **rows[name]} for label, names in kept.items() for name in names]
    same = [name for name in SETTINGS if name not in by and not _varies(name, rows, members)]
    # A seed that every group shares, because it has one model, is no setting of the group.
    shared = [name for name in same if name != "seed"]
    # Recipes hold settings that have no column, such as the optimizer's, and the steps before an early end.
    others = dict.fromkeys(name for recipe in recipes.values() for name in recipe
                           if name not in by and (name == "steps" or name not in SETTINGS))
    mixed = [name for name in others if _varies(name, recipes, members)]
    differ = (*(name for name in SETTINGS if name not in (*same, *by, *others)), *mixed)
    alike = {label: {name: recipes[names[0]].get(name) for name in others if name not in mixed}
             for label, names in kept.items()}
    unsaid = any(not comparison.is_whole(recipes[name]) for names in kept.values() if len(names) > 1 for name in names)
    # A label decides what a group is: the values of its columns may differ in digits that the label does not show.
    first = {label: rows[names[0]] for label, names in kept.items()}
    means = [{"group": row["group"], **{name: first[row["group"]].get(name) for name in by if name in SETTINGS}, **row}
             for row in summarise(labelled, ("group", *shared))]
    return Groups(members, labelled, means, alike, differ, unsaid)


def _varies(name: str, entries: Mapping[str, Mapping[str, Any]], members: Members) -> bool:
    """Return whether the models of some group have several values of an entry."""
    return any(len({json.dumps(entries[each].get(name), sort_keys=True) for each in names}) > 1
               for names in members.values())


def _leave_out_copies(names: Mapping[str, str]) -> list[str]:
    """Return the models of a group without copies of others there, which are no repetitions and narrow the spread."""
    first: dict[str, str] = {}
    for name, original in names.items():
        first.setdefault(original, name)
    return list(first.values())


def list_scores(groups: Groups) -> list[str]:
    """Return the names of the scores that some model has a number for, by the order of their groups."""
    found = list(dict.fromkeys(
        name for row in groups.rows for name, value in row.items()
        if name not in NOT_SCORES and not name.endswith(OVER_X) and value is not None))
    headings = list(GROUPS.values())
    known = [name for name in found if name in metrics.METRICS]
    order = sorted(known, key=lambda name: headings.index(find_group(name)))
    terms = [name for name in bound.MEANING if name in found]
    return [*terms, *order, *(name for name in found if name not in (*terms, *order))]


def list_first_scores(groups: Groups) -> list[str]:
    """Return the names of the scores that a table shows first; all if it has none of these."""
    found = list_scores(groups)
    return [name for name in FIRST if name in found] or found


def find_varying_setting(groups: Groups) -> str | None:
    """Return the first setting over which some groups make a line of two points or more, see `list_series`, or None."""
    for name in ("beta", "latents", "learning_rate", "batch_size", "steps"):
        if any(len(rows) > 1 for rows in list_series(groups, name).values()):
            return name
    return None


def list_series(groups: Groups, setting: str) -> dict[str, list[Row]]:
    """Return {label: groups by rising value of a number among the settings}, one series for what else they differ in.

    Groups that neither a column of `results_frame` nor an entry of their recipes tells apart make no series.
    """
    series: dict[str, list[Row]] = {}
    entries = {row["group"]: {**{name: row.get(name) for name in SETTINGS}, **groups.recipes[row["group"]]}
               for row in groups.means}
    # A network that is not built by name has the number of its parameters in the recipe, which latents decide, too.
    ignored = (setting, *["parameters"] * (setting == "latents"))
    others = [name for name in dict.fromkeys(name for of in entries.values() for name in of) if name not in ignored
              and len({json.dumps(of.get(name), sort_keys=True) for of in entries.values()}) > 1]
    for row in groups.means:
        if isinstance(row.get(setting), int | float):
            values = {name: entries[row["group"]].get(name) for name in others}
            label = " ".join(str(value) if name in ("model", "network", "likelihood") else f"{name}={_shorten(value)}"
                             for name, value in values.items()) or "all models"
            series.setdefault(make_printable(label), []).append(row)
    return {label: sorted(rows, key=lambda row: row[setting]) for label, rows in series.items()
            if len({row[setting] for row in rows}) == len(rows)}


def _shorten(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
