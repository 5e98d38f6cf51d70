"""How far float32 rounding alone can drive two runs of the same training apart."""

import keras
import numpy as np
from cases import build, dataset

from vae_tf import training

STEPS = 10
BATCH = 16


def train(case, seed, steps=STEPS, model=None, optimizer=None, **options):
    """The weights after training a case of cases.py, and the history."""
    model = model or build(*case, seed)
    history = training.fit(model, dataset(case[2]), optimizer or keras.optimizers.Adam(1e-3), steps=steps,
                           batch_size=BATCH, seed=seed, log_every=5, **options)
    return model.get_weights(), history


def apart(one, other):
    """The largest difference of any weight."""
    return max(np.abs(a - b).max() for a, b in zip(one, other, strict=True))


def tolerance(case, seed, weights, **options):
    """A bound on `apart` for runs that differ in the order of float32 sums alone.

    Sums of n terms in another order differ by about sqrt(n) units in the last place; n is some 60 here, so 8 units.
    What such an error does by the end is measured: by a run that starts from weights 8 units away. One enters with
    each step, none grows longer than one at the start, and to first order they add: STEPS times that drift.
    """
    return STEPS * apart(weights, train(case, seed, model=perturb(build(*case, seed), seed), **options)[0])


def perturb(model, seed=0):
    """Move every weight of a model by 8 units in the last place."""
    signs = np.random.default_rng(seed)
    model.set_weights([(w * (1 + signs.choice([-8, 8], w.shape) * 2.0**-23)).astype(np.float32)
                       for w in model.get_weights()])
    return model
