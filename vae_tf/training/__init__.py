"""Train one model, or several of one kind as one program.

    optimizers      the update rules by name
    batches         which examples form a step
    rows            rows of history
    failures        errors that end a run: losses that are not finite, data that cannot be read
    callbacks       Keras callbacks, told of a loop that Keras does not run
    loop            steps, rows, checkpoints, requests to stop
    fitting         fit and fit_replicas

Randomness is a function of (seed, step): which examples form a step and which noise they get derive from
the seed and the step alone. A resumed run is therefore the same run, and so is a run on other devices.
"""

from vae_tf.training.failures import DataError, NonFiniteError
from vae_tf.training.fitting import fit, fit_replicas
from vae_tf.training.optimizers import OPTIMIZERS, make_optimizer

__all__ = ["OPTIMIZERS", "DataError", "NonFiniteError", "fit", "fit_replicas", "make_optimizer"]
