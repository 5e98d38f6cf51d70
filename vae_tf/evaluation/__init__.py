"""Score codes, which are an exported model's or come from a file, by every metric asked for.

    codes       Codes: what is scored, of a model or of an .npz file
    encoding    the examples that are scored, encoded by a model
    regime      which latents are active, and what the codes are worth
    intervals   how a score would spread over other examples
    options     the options of an evaluation
    kept        what an evaluation has computed so far, in a file
    computing   every metric on every draw of the codes, in worker processes
    scoring     `score` codes, `evaluate` a model: every metric with its chance level and interval
    sizes       the memory that an evaluation takes, estimated
    numbers     the scores as JSON
    scored      whether the scores beside a model are those that an evaluation would compute

Each metric comes with a chance level and an interval. The chance level is the same metric on codes that have
nothing to do with the factors: the same codes, in shuffled order. The interval is a bootstrap of half-samples, see
`intervals.estimate_interval`.
"""

from vae_tf.evaluation.codes import LATENTS, PER_LATENT, Codes, check_factors, draw_rows, read_codes, select_factors
from vae_tf.evaluation.computing import import_libraries
from vae_tf.evaluation.intervals import FEWEST_FOR_INTERVAL, RESAMPLES, SLOW_RESAMPLES, estimate_interval
from vae_tf.evaluation.kept import BOUNDED, FILE, forget
from vae_tf.evaluation.numbers import as_json
from vae_tf.evaluation.options import Options
from vae_tf.evaluation.regime import judge
from vae_tf.evaluation.scored import explain_missing, list_scored
from vae_tf.evaluation.scoring import (
    Evaluation,
    check_dataset,
    count_examples,
    evaluate,
    measure_around,
    score,
)

__all__ = [
    "BOUNDED",
    "FEWEST_FOR_INTERVAL",
    "FILE",
    "LATENTS",
    "PER_LATENT",
    "RESAMPLES",
    "SLOW_RESAMPLES",
    "Codes",
    "Evaluation",
    "Options",
    "as_json",
    "check_dataset",
    "check_factors",
    "count_examples",
    "draw_rows",
    "estimate_interval",
    "evaluate",
    "explain_missing",
    "forget",
    "import_libraries",
    "judge",
    "list_scored",
    "measure_around",
    "read_codes",
    "score",
    "select_factors",
]
