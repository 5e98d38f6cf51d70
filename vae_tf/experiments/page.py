"""Write docs/results.md: every table with the printed numbers beside ours, from tables/ and results/ alone."""

import html
import pathlib
import re
import shlex
import statistics
from collections.abc import Mapping, Sequence

from vae_tf import files
from vae_tf.errors import InputError
from vae_tf.experiments import figures, results, tables
from vae_tf.experiments.summaries import (
    ALONE,
    FAILS,
    HOLDS,
    INSIDE,
    NEITHER,
    NO_SCORE,
    ORDER,
    SO_FAR,
    Summary,
    describe_length,
    format_spread,
    format_value,
    is_shortened,
)

PAGE = pathlib.Path("docs/results.md")
VERDICTS = INSIDE, ORDER, NEITHER, ALONE
COMMAND = "python -m vae_tf.experiments"
OWN = "This page and its figures are generated from"       # on every page that is written here
INTRODUCTION = f"""# Results

What the five papers print, beside what this code measures. {OWN}
[`vae_tf/experiments/tables/`](../vae_tf/experiments/tables) and [`results/`](../results), a file for each run, by
`{COMMAND} --page`. Nothing on it was typed in.
"""
RULE = f"""## How to read it

A number is the mean over seeds ± their standard deviation; the line below it has the paper's, and below that stand how
many seeds there are and how long they trained: "40 of 400 epochs" is a run that was shortened. The word after the
paper's number is a verdict:

- **{INSIDE}**: our mean is within the printed spread of the printed number. Where no spread is printed, or one that is
  smaller than half of the last printed digit, that half is the spread.
- **{ORDER}**: our mean is not inside, but it lies on the same side of every other measured model of that row as in
  the paper (of that column, if the row has one model).
- **{NEITHER}**: it is neither.
- **{ALONE}**: it is not inside, and of that row (or column) no other model with another printed number is measured.

Models are compared only if they trained for the same share of the length that their recipes have. If all models of a
row were trained in full, the row shows these trainings. Otherwise it shows the common share of which each model has the
most seeds, or the longest of several such shares. If they have no common share, each model is shown at its longest
training. Below the table is the longest training of each model that has a longer one.

The latents of a *dead* model carry no information about x (posterior collapse), and those of a nearly dead one less
than log 2 nats together; [metrics.md](metrics.md#what-stands-before-the-scores-the-verdict) has the rule. Scores of
such a model mean nothing, and are left out of the mean; what it has none the less, such as its KL, stands with the word
"dead". *Not run* is just that. What the papers claim in words stands under "Claims", with the measured numbers: it
{HOLDS}, it {FAILS}, or it {SO_FAR}, as far as cells are measured. Whether it does {NO_SCORE} if the models lack the
score that it is about (fewer than half of the seeds have it), or cannot be compared. An order is judged by the means
alone; models whose means are less than two standard errors of the difference apart are named, for other seeds may well
put them the other way round. So are models of one seed, of which no standard error is known.
"""


def write(folder: str | pathlib.Path = "results", path: str | pathlib.Path = PAGE,
          also: Mapping[str, tables.Table] | None = None) -> pathlib.Path:
    """Write the page, and its figures into a folder of the same name beside it; return the path of the page.

    Args:
        folder: the folder of results.
        path: the path of the page.
        also: tables that come after those of the papers, by what is typed to run them, such as the path of a file.

    Raises:
        InputError: there is no such folder, or somebody else's page is at the path. All files are left as they are.
    """
    if not pathlib.Path(folder).is_dir():
        raise InputError(f"results: expected a folder of results, which experiments write; got {folder}")
    path = pathlib.Path(path)
    before, found = list_figures(path), results.read_all(folder)
    typed = {**{name: tables.load(name) for name in tables.list_names()}, **(also or {})}
    summaries = [Summary(table, found) for table in typed.values()]
    drawn = {summary.table.name: figures.draw(summary, path.with_suffix("")) for summary in summaries}
    text = "\n".join([INTRODUCTION, write_overview(summaries), RULE,
                      *(write_section(summary, drawn[summary.table.name], name)
                        for name, summary in zip(typed, summaries, strict=True)),
                      write_machines(summaries)])
    files.write_text(path, text)
    for old in before - {file for pictures in drawn.values() for _, file in pictures}:
        old.unlink(missing_ok=True)
    return path


def list_figures(path: pathlib.Path) -> set[pathlib.Path]:
    """Return the figures that a page of `write` shows; none if there is no page.

    Raises:
        InputError: the page is somebody else's.
    """
    if not path.exists():
        return set()
    text = path.read_text("utf-8", "replace")
    if OWN not in text:
        raise InputError(f"page: expected nothing at {path}, or a page that `{COMMAND} --page` wrote; got another "
                         "file; move it, or run this in another folder")
    return {path.with_suffix("") / name for name in re.findall(rf"\]\({re.escape(path.stem)}/([^/)]+\.svg)\)", text)}


def write_overview(summaries: Sequence[Summary]) -> str:
    """Return the table at the top: how many printed numbers are measured, and how they compare."""
    printed = [(summary, cell, name) for summary in summaries for cell in summary.table.cells for name in cell.printed]
    measured = [each for each in printed if each[0].is_measured(*each[1:])]
    free = [each for each in printed if not each[1].needs]
    lines = [f"Of {len(printed)} printed numbers, {len(measured)} are measured; {len(free)} need no "
             f"download, and of these {sum(each in measured for each in free)} are.\n",
             f"| | printed | measured | {' | '.join(VERDICTS)} | claims that hold, as far as measured |",
             "|---|---|---|---|---|---|---|---|"]
    for summary in summaries:
        numbers = [each[1:] for each in printed if each[0] is summary]
        verdicts = [summary.judge(*number) for number in numbers]
        counts = [len(numbers), sum(summary.is_measured(*number) for number in numbers),
                  *(verdicts.count(verdict) for verdict in VERDICTS)]
        states = [summary.check(check)[0] for check in summary.table.checks]
        claims = f"{sum(state in (HOLDS, SO_FAR) for state in states)} of {len(states)}" if states else ""
        heading = write_heading(summary.table)
        lines.append(" | ".join([f"| [{escape(heading)}](#{make_anchor(heading)})",
                                 *(str(count) if numbers else "" for count in counts), f"{claims} |"]))
    return "\n".join(lines) + "\n"


def write_heading(table: tables.Table) -> str:
    """Return the heading of a table on the page."""
    return f"{table.paper.split(',')[0].split(' ')[0]} {table.where}: {table.title}"


def make_anchor(text: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


def write_section(summary: Summary, drawn: Sequence[tuple[str, pathlib.Path]], typed: str) -> str:
    """Return the section of one table.

    Args:
        summary: the table, and what is measured of it.
        drawn: (title, path) of each of its figures.
        typed: what is typed to run it: its name, or the path of its file.
    """
    table = summary.table
    lines = [f"## {write_heading(table)}\n", f"{table.paper}, {table.where}. {table.shows}"
             + (f" The paper's ±: {table.spread}." if table.spread else "") + "\n",
             *(f"- {note}" for note in table.notes), *([""] if table.notes else []),
             f"    {COMMAND} {shlex.quote(typed)}\n"]
    for name, metric in table.metrics.items():
        if any(name in cell.printed for cell in table.cells) or (name not in list_shown_metrics(table) and any(
                summary.get_number(cell, name).is_scalar for cell in table.cells)):
            lines += [f"**{metric.label}**" + (f" ({metric.better} is better)" if metric.better != "neither" else "")
                      + "\n", *write_matrix(summary, name), ""]
    lines += [f"![{html.escape(title)}]({file.parent.name}/{file.name})\n" for title, file in drawn]
    lines += write_longer(summary)
    lines += write_claims(summary)
    lines += write_missing(summary)
    if any(cell.recipe for cell in table.cells):
        lines += write_commands(summary)
    return "\n".join(lines)


def list_shown_metrics(table: tables.Table) -> set[str]:
    """Return the names of the metrics that a figure or a claim shows."""
    return {name for figure in table.figures for name in (figure.x, *figure.y)} | {
        check.metric for check in table.checks}


def write_matrix(summary: Summary, name: str) -> list[str]:
    """Return a metric as a table of rows by columns."""
    cells = {(cell.row, cell.column): cell for cell in summary.table.cells}
    rows, columns = (list(dict.fromkeys(place[i] for place in cells)) for i in (0, 1))
    lines = [f"| | {' | '.join(map(escape, columns))} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        entries = [write_entry(summary, cells[row, column], name) if (row, column) in cells else ""
                   for column in columns]
        lines.append(f"| {escape(row)} | {' | '.join(entries)} |")
    return lines


def escape(text: str) -> str:
    """Return a text as a cell of a table of Markdown shows it."""
    return text.replace("|", r"\|").replace("<", "&lt;")


def write_entry(summary: Summary, cell: tables.Cell, name: str) -> str:
    """Return one cell: our number, the paper's number with the verdict, seeds and length of training."""
    number, decimals = summary.get_number(cell, name), summary.table.metrics[name].decimals
    if number.mean is not None:
        ours = f"**{format_with_spread(number.mean, number.spread, decimals)}**"
    else:
        ours = ("not run" if not number.runs else "**dead**" if number.dead == number.runs
                else f"no score: {summary.explain_none(cell, name)}")
    verdict = summary.judge(cell, name)
    lines = [ours]
    if name in cell.printed:
        lines.append(f"paper {format_with_spread(*cell.printed[name], decimals)}" + (f": {verdict}" if verdict else ""))
    if number.runs and cell.recipe:
        lacking = number.runs - number.dead - len(number.values)
        lines.append(describe_runs(summary, cell) + f"; {lacking} without the score" * (0 < lacking < number.runs))
    return "<br>".join(lines)


def format_with_spread(mean: float, spread: float | None, decimals: int) -> str:
    """Write a number with its spread, such as 0.99 ± 0.01."""
    if spread is None:
        return format_value(mean, decimals)
    return f"{format_value(mean, decimals)} ± {format_spread(spread, decimals)}"


def write_longer(summary: Summary) -> list[str]:
    """Return the numbers of models that were trained for longer than the row that they stand in shows."""
    table, longer = summary.table, summary.longer
    lines = []
    for cell in summary.longer_cells:
        numbers = [f"{table.metrics[name].label} {format_with_spread(number.mean, number.spread, metric.decimals)}"
                   for name, metric in table.metrics.items()
                   if (number := longer.get_number(cell, name)).mean is not None]
        lines.append(f"- {cell.row}, {cell.column}, {describe_runs(longer, cell)}: {', '.join(numbers) or 'no number'}")
    return ["Longer trainings, which fewer seeds or not all models of the row have:\n", *lines, ""] if lines else []


def describe_runs(summary: Summary, cell: tables.Cell) -> str:
    """Say how many seeds of a measured cell there are, how many of them are dead, and how long they were trained."""
    runs = summary.of[cell.row, cell.column]
    dead = sum(map(results.is_dead, runs))
    return (f"{len(runs)} seed{'s' * (len(runs) > 1)}" + (f", {dead} of them dead" if dead else "")
            + f", {describe_length(summary, cell)}")


def write_claims(summary: Summary) -> list[str]:
    """Return the claims that the paper makes in words, and whether they hold."""
    if not summary.table.checks:
        return []
    lines = ["**Claims**\n", "| claim | measured | |", "|---|---|---|"]
    for check in summary.table.checks:
        state, measured = summary.check(check)
        if measured and state != NO_SCORE and any(is_shortened(summary, cell) for cell in summary.list_cells(check)):
            state += " after shortened training"
        label = summary.table.metrics[check.metric].label
        said = "<br>".join(map(escape, [f"{label}:", *measured])) if measured else ""
        lines.append(f"| {escape(check.says)} | {said} | {state} |")
    return [*lines, ""]


def write_missing(summary: Summary) -> list[str]:
    """Say which data are missing for cells that nobody ran, and how to get them."""
    cells = [cell for cell in summary.table.cells if cell.needs and not summary.of[cell.row, cell.column]]
    needs = {need: [f"{cell.row}, {cell.column}" for cell in cells if cell.needs == need]
             for need in dict.fromkeys(cell.needs for cell in cells)}
    return [f"Not run ({'; '.join(places)}): {need}\n" for need, places in needs.items()]


def write_commands(summary: Summary) -> list[str]:
    """Return the command of every cell, and how long its training took, by the median over seeds."""
    lines = ["<details><summary>The command of each cell</summary>\n", "| | | training | command |",
             "|---|---|---|---|"]
    for cell in summary.table.cells:
        there = summary.of[cell.row, cell.column]
        seconds = [each for each in map(compute_seconds, there) if each]
        took = f"{statistics.median(seconds) / 60:.3g} min a seed" if seconds else ""
        command = there[0]["command"] if there else " ".join(
            ["python train.py", f"--flagfile=flags/{cell.recipe}.flags", *cell.flags])
        command = command.replace("|", r"\|")
        lines.append(f"| {escape(cell.row)} | {escape(cell.column)} | {took} | `{command}` |")
    return [*lines, "\n</details>\n"]


def compute_seconds(result: results.Result) -> float:
    """Return the seconds of a run's training, divided among seeds that were trained as one program; 0 if unknown."""
    return (result["seconds"].get("training") or 0) / (result["seconds"].get("replicas") or 1)


def write_machines(summaries: Sequence[Summary]) -> str:
    """Say on which machines, and with which versions, everything was measured."""
    there = {id(result): result for compared in summaries for summary in (compared, compared.longer)
             for some in summary.of.values() for result in some}.values()
    if not there:
        return "## Machines and versions\n\nNothing is measured yet.\n"
    hours = sum(map(compute_seconds, there)) / 3600
    lines = ["## Machines and versions\n",
             f"{len(there)} runs and experiments, {hours:.1f} hours of training, pauses included.\n"]
    lines += [f"- {machine}: {sum(result['machine'] == machine for result in there)}"
              for machine in sorted({result["machine"] for result in there})]
    versions: dict[str, set[str]] = {}
    for result in there:
        for package, version in result["versions"].items():
            versions.setdefault(package, set()).add(version)
    lines.append("- " + ", ".join(f"{package} {' and '.join(sorted(of))}" for package, of in sorted(versions.items())))
    return "\n".join(lines) + "\n"
