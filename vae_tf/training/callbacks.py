"""Keras callbacks, told of a loop that Keras does not run."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import keras


@contextlib.contextmanager
def tell_callbacks(callbacks: Sequence[keras.callbacks.Callback], model: keras.Model,
                   optimizer: Any) -> Iterator[keras.callbacks.CallbackList]:
    """Begin training for some callbacks; while entered, model.optimizer is the optimizer.

    Whatever the caller's `compile` has set is as before in the end.
    """
    told = keras.callbacks.CallbackList(list(callbacks), add_history=False, add_progbar=False, model=model)
    model.stop_training = False
    attributes = vars(model)        # bypasses Keras, which would track an attribute as a part of the model
    compiled = {name: attributes[name] for name in ("optimizer",) if name in attributes}
    if callbacks:
        attributes["optimizer"] = optimizer
    try:
        told.on_train_begin()
        yield told
    finally:
        attributes.pop("optimizer", None)
        attributes.update(compiled)
