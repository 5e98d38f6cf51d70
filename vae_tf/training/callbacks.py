"""Keras callbacks, told of a loop that Keras does not run."""

import contextlib
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras

# A function of a run's configuration as JSON has it and of the run's folder.
MakeCallback = Callable[[Mapping[str, Any], pathlib.Path], keras.callbacks.Callback]
CALLBACKS: list[MakeCallback] = []


def register_callback(make: MakeCallback) -> MakeCallback:
    """Have `make(config, run_dir)` give a callback to every run that train.py trains alone; a decorator.

    Args:
        make: a function, or the class of the callback. config is the run's configuration, a dict, and run_dir the
            folder of the run. Where several machines share the work, the first alone has the callback.
    """
    CALLBACKS.append(make)
    return make


@contextlib.contextmanager
def tell_callbacks(callbacks: Sequence[keras.callbacks.Callback], model: keras.Model, optimizer: Any,
                   epochs: int) -> Iterator[keras.callbacks.CallbackList]:
    """Begin training for some callbacks; while entered, model.optimizer is the optimizer.

    Whatever the caller's `compile` has set is as before in the end. `epochs` is the number of rows of a whole run, in
    the params of callbacks; their `steps` is None, because rows may differ in length.
    """
    callbacks = list(callbacks)
    told = keras.callbacks.CallbackList(callbacks, add_history=False, add_progbar=False, model=model,
                                        verbose=0, epochs=epochs, steps=None)
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
