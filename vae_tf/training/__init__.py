"""Train one model, or several of one kind as one program.

    optimizers      the update rules and schedules of the learning rate, by name
    batches         which examples form a step
    images          pictures of image models while they train
    rows            rows of history, and TensorBoard logs
    failures        errors that end a run: losses that are not finite, data that cannot be read
    callbacks       Keras callbacks, told of a loop that Keras does not run
    validation      the objective on examples that training does not see, and the best weights
    schedule        how long a program trains, and after how many steps what happens
    loop            steps, rows, checkpoints, requests to stop
    fitting         fit and fit_replicas

Randomness is a function of (seed, step): which examples form a step and which noise they get derive from
the seed and the step alone. A resumed run is therefore the same run, and so is a run on other devices.
"""

from vae_tf.errors import DataError, NonFiniteError
from vae_tf.training.callbacks import CALLBACKS, register_callback
from vae_tf.training.fitting import fit, fit_replicas
from vae_tf.training.optimizers import (
    OPTIMIZERS,
    SCHEDULES,
    WARMED_UP,
    depends_on_length,
    make_optimizer,
    schedule_learning_rate,
)
from vae_tf.training.validation import find_best, has_ended

__all__ = ["CALLBACKS", "OPTIMIZERS", "SCHEDULES", "WARMED_UP", "DataError", "NonFiniteError", "depends_on_length",
           "find_best", "fit", "fit_replicas", "has_ended", "make_optimizer", "register_callback",
           "schedule_learning_rate"]
