"""Find what ends a run: a loss or a weight that is not finite, or examples that cannot be read."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf import replicas, runs
from vae_tf.errors import DataError, NonFiniteError

SMALLEST = 2.0**-24         # a scale of the loss that no float16 needs: its smallest number above 0


def check_loss(program: replicas.Program, step: int, terms: Mapping[str, Any], folders: Sequence[pathlib.Path],
               counting: Sequence[bool]) -> None:
    """Raise NonFiniteError if the loss of a replica that counts is not finite.

    Args:
        program: what was trained.
        step: the number of the step that gave the terms.
        terms: the terms of the objective, {name: [S]}.
        folders: the folders of the runs.
        counting: whether each replica counts; one that was stopped early, whose best weights are kept, does not.
    """
    if not np.isfinite(terms["loss"])[list(counting)].all():
        raise NonFiniteError(_describe_non_finite(program, step, terms, folders, "a loss that is not finite", counting))


def check_weights(program: replicas.Program, step: int, terms: Mapping[str, Any], folders: Sequence[pathlib.Path],
                  states: Sequence[Mapping[str, np.ndarray]], counting: Sequence[bool]) -> None:
    """Raise NonFiniteError if an array of the checkpoint of a replica that counts is not finite, or its gradients were.

    An optimizer that scales its loss for 16 bits leaves out each step whose gradients are not finite, and halves the
    scale.

    Args:
        program: what was trained.
        step: the number of the step that gave the terms.
        terms: the terms of the objective, {name: [S]}.
        folders: the folders of the runs.
        states: {name: array} of each replica.
        counting: whether each replica counts, see `check_loss`.
    """
    for seed, state, checked in zip(program.seeds, states, counting, strict=True):
        if any(checked and name.endswith("/dynamic_scale") and array < SMALLEST for name, array in state.items()):
            what = f"gradients of seed {seed} that were not finite, step after step, so that the weights stayed"
            raise NonFiniteError(_describe_non_finite(program, step, terms, folders, what, counting))
        bad = [name for name, array in state.items() if checked and not np.isfinite(array).all()]
        if bad:
            what = f"weights of seed {seed} that are not finite, {bad[0]}"
            raise NonFiniteError(_describe_non_finite(program, step, terms, folders, what, counting))


def explain_data_failure(failures: Sequence[tuple[int, Exception]], folders: Sequence[pathlib.Path]) -> DataError:
    """Return the DataError for the first of some failures, each (step, exception)."""
    step, reason = failures[0]
    return DataError(f"step {step}: its examples could not be read ({type(reason).__name__}: {reason}); "
                     f"{describe_last_good(folders)}")


def _describe_non_finite(program: replicas.Program, step: int, terms: Mapping[str, Any],
                         folders: Sequence[pathlib.Path], what: str, counting: Sequence[bool]) -> str:
    values = []
    for i, model in enumerate(program.models):
        if len(program.models) == 1 or (counting[i] and not np.isfinite(terms["loss"][i])):
            replica = f"seed {program.seeds[i]}, beta {model.beta:g}: " if len(program.models) > 1 else ""
            values.append(replica + ", ".join(f"{name} {float(value[i]):g}" for name, value in terms.items()))
    listed = f" ({'; '.join(values)})" if values else ""
    smaller = "--learning_rate" + (" or --beta" if program.models[0].default_beta is not None else "")
    return f"step {step}: {what}{listed}; {describe_last_good(folders)}. Try a smaller {smaller}"


def describe_last_good(folders: Sequence[pathlib.Path]) -> str:
    """Say which checkpoint a run goes on from."""
    path = runs.find_newest(folders[0]) if folders else None
    return f"last good checkpoint: {path}" if path else "no checkpoint was written before it"
