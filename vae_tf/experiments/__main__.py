"""Reproduce the papers' tables and figures: `vae-tf experiments` lists them, with a NAME it runs one.

Results, trained models and checkpoints that exist already are reused, whoever made them.
"""

if __name__ == "__main__":
    from vae_tf import console
    console.start()     # before the slow imports

import argparse
import os
import sys
from collections.abc import Sequence

from vae_tf import console, extensions
from vae_tf.errors import InputError, shorten
from vae_tf.experiments import listing, progress, results, scheduling, summaries, tables, tasks


def read_positive(text: str) -> int:
    """Parse a whole number above 0."""
    if not (text.isdecimal() and len(text) < 10 and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, of at most 9 digits, got {shorten(text)!r}")
    return int(text)


def make_parser() -> argparse.ArgumentParser:
    made = console.Parser(__doc__)
    made.add_argument("names", nargs="*", metavar="NAME", help="The tables or figures to run, or files of "
                      "one's own such as my.toml; without it, all are listed.")
    made.add_argument("--budget", choices=tables.BUDGETS, default="full", help="full trains as long as the paper does, "
                      "with as many seeds, or as the recipe and the table's file say where the paper does not; quick "
                      "and standard are shortened, as the table's file says. [full]")
    made.add_argument("--seeds", type=read_positive, help="Number of seeds per cell; by default what the budget says.")
    made.add_argument("--jobs", type=read_positive, help="Number of tasks at a time on this machine; by default one "
                      "per processor, or 1 where there is a GPU.")
    made.add_argument("--scheduler", metavar="ADDRESS", help="Address of a dask scheduler, such as tcp://host:8786, "
                      "whose workers share this folder; by default a cluster is started on this machine.")
    made.add_argument("--score_only", action="store_true", help="Train nothing: score the longest trained models that "
                      "there are of each cell, with all of their seeds.")
    made.add_argument("--results", type=os.path.expanduser, default="results",
                      help="Folder for results, one JSON file per run. [results]")
    made.add_argument("--page", action="store_true", help="Write docs/results.md and its figures from the results; "
                      "after the tables of NAME are run, if any is given.")
    made.add_argument("--run_root", type=os.path.expanduser, default="runs",
                      help="Folder for histories and checkpoints. [runs]")
    made.add_argument("--export_root", type=os.path.expanduser, default="exported",
                      help="Folder for trained models. [exported]")
    made.add_argument("--adopt", action="append", type=os.path.expanduser, default=[], metavar="FOLDER",
                      help="A folder with runs/ and exported/ of train.py: what equals a wanted run is taken from "
                      "there, and nothing there is changed. May be given several times.")
    return made


def run(table: tables.Table, asked: argparse.Namespace) -> bool:
    """Run what is left to do of a table; return whether every task came to its end."""
    scheduling.import_distributed()        # before the slow imports
    found = results.read_all(asked.results)
    console.import_tensorflow(narrow=True)     # so that the choice of kernels is left to the processes of the tasks
    from vae_tf.experiments import planning

    places = tasks.Places(asked.run_root, asked.export_root, asked.results, tuple(asked.adopt))
    jobs = asked.jobs or planning.choose_jobs()
    plan = planning.plan(table, found, planning.Asked(asked.budget, asked.seeds, asked.score_only), jobs, places)
    for problem in plan.problems:
        print(f"warning: {problem}", file=sys.stderr)
    left = sum(max(1, len(task.seeds)) for task in plan.tasks)
    print(f"{table.name}: {table.title}, {table.paper}, {table.where}. Runs finished: {plan.finished}; left: {left}.")
    outcomes = {}
    if plan.tasks:
        shown = progress.Progress(plan.tasks, found)
        try:
            outcomes = scheduling.run(plan.tasks, asked.scheduler, min(jobs, len(plan.tasks)), shown.show)
        except KeyboardInterrupt:
            shown.end()
            print("Stopped. The same command goes on from the newest checkpoints.", file=sys.stderr)
            raise
        shown.end()
    measured = results.read_all(asked.results)
    print("\n".join([*listing.list_numbers(table, measured),
                     *summaries.list_claims(summaries.Summary(table, measured))]))
    failed = sum(state != "done" for state, _ in outcomes.values())
    if failed:
        failures = f"{failed} of {len(outcomes)} tasks failed, see above; the same command tries them again"
        print(console.describe_error(console.name_program(), failures), file=sys.stderr)
    return not failed


def check_names(own: Sequence[str]) -> None:
    """Raise InputError unless the figures of the page, which have the names of the tables, can stand beside another."""
    taken = next((name for i, name in enumerate(own) if name in (*own[:i], *tables.list_names())), None)
    if taken:
        raise InputError("--page: expected tables of different names, and of other names than this package's have; "
                         f"got another {taken}; rename the file {taken}.toml")


def main() -> None:
    asked = make_parser().parse_args()
    try:
        extensions.load()
        if not asked.names and not asked.page:
            print("\n".join(listing.list_tables(results.read_all(asked.results))))
        for folder in asked.adopt:
            if not any(os.path.isdir(os.path.join(folder, part)) for part in ("runs", "exported")):
                raise InputError(f"--adopt: expected a folder that holds runs/ or exported/; got {folder}")
        chosen = [tables.load(name) for name in asked.names]        # a mistake in any is told before the first is run
        if asked.page:
            from vae_tf.experiments import page  # Matplotlib takes a second
            page.list_figures(page.PAGE)        # one of somebody else's is told before the first run, too
            own = {name: table for name, table in zip(asked.names, chosen, strict=True)
                   if name not in tables.list_names()}
            check_names([table.name for table in own.values()])
        done = [run(table, asked) for table in chosen]
        if asked.page:
            print(f"Written: {page.write(asked.results, also=own)}")
        if not all(done):
            sys.exit(1)
    except (InputError, OSError) as error:
        console.fail(error)


if __name__ == "__main__":
    console.run(console.name_program(), main)
