"""Score anybody's codes: `vae-tf evaluate --codes=my.npz`. No model is loaded, and TensorFlow is not imported."""

import pathlib
import time
from collections.abc import Sequence

from vae_tf import checks, cli, evaluation, files, report
from vae_tf.errors import InputError


def score_codes(asked: cli.ScoringRequest) -> None:
    """Score codes without a model: print the summary, and write the numbers beside the file."""
    started = time.perf_counter()
    path, options = asked.codes, asked.options
    assert path
    numbers = pathlib.Path(path).with_suffix(".metrics.json")
    check_results(numbers.parent, numbers)
    every = evaluation.read_codes(path)
    codes = evaluation.select_factors(evaluation.draw_rows(every, options.examples, options.seed), options.factors)
    drawn = f", drawn at random from {len(every.mean):,}" * (len(codes.mean) < len(every.mean))
    latents = codes.mean.shape[1]
    print(f"{path}: {len(codes.mean):,} codes of {latents} latent{'s' * (latents != 1)}{drawn}"
          f"{name_factors(options.factors)}")
    show_first_look(codes, options.names or ())
    of_codes = {**vars(options), "names": options.list_metrics_of_codes()}
    keep = numbers.with_suffix(".scores")
    scored = evaluation.score(codes, progress=report.Progress(), keep=keep, **of_codes)
    show_scores(report.Facts(scored, quick=options.quick), asked.verbose or bool(asked.named))
    text = evaluation.as_json(scored, codes=str(path), seed=options.seed, passive_kl=options.passive_kl,
                              samples_per_value=options.samples_per_value, quick=options.quick)
    files.write_text(numbers, text)
    evaluation.forget(keep)
    print(f"Scored in {time.perf_counter() - started:.0f} s.\n  numbers    {numbers}")


def show_first_look(codes: evaluation.Codes, names: Sequence[str] = ()) -> None:
    """Print the first numbers, which are there long before the others."""
    if said := report.describe_first_look(codes, names):
        print(f"First look: {said}", flush=True)


def show_scores(facts: report.Facts, verbose: bool) -> None:
    """Print the summary, and the tables of all scores if they are asked for."""
    report.show(lambda width: report.make_summary(report.answer_all(facts)))
    if verbose:
        report.show(lambda width: report.make_tables(facts.scored, width))


def check_results(folder: pathlib.Path, *paths: pathlib.Path, name: str = "results") -> None:
    """Raise InputError unless results could be written to a folder, before hours go into computing them.

    Args:
        folder: the folder.
        paths: the files there that will be written.
        name: what errors call the folder.
    """
    try:
        files.check_writable(folder)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    for path in paths:
        checks.check_path(name, path)
        if path.is_dir():
            raise InputError(f"{name}: expected a file or nothing at {path}; got a folder")


def name_factors(factors: Sequence[str] | None) -> str:
    """Return the end of a line that names the factors that were asked for; empty if all were."""
    return f", against {', '.join(factors)} alone" if factors else ""
