"""Train, save, load and use a model with nothing but Keras' idioms: `python examples/keras_loops.py vae 20`."""

import sys

import keras
import numpy as np

from vae_tf import data, models

name, epochs = [*sys.argv[1:], *("vae", "20")[len(sys.argv) - 1:]]

# Data: 50,000 vectors that two factors make, a tenth of them for validation.
dataset = data.load("synthetic_linear")
train, validation = (dataset.split("random", part) for part in ("train", "validation"))

# Model: compiled with an optimizer alone, because the objective is the model's own.
model = models.build(name, dataset.shape, network="linear", latents=2, likelihood="gaussian", likelihood_variance=0.01,
                     u_size=dataset.u_size, examples=len(train))
model.compile(keras.optimizers.Adam(3e-3))
model.fit(train, batch_size=64, epochs=int(epochs), validation_data=validation, verbose=2, callbacks=[
    keras.callbacks.EarlyStopping("val_loss", patience=5),
    keras.callbacks.ModelCheckpoint("best.keras", monitor="val_loss", save_best_only=True)])

# The best weights, back from their file, score and decode as before.
best = keras.models.load_model("best.keras")
print(best.evaluate(validation, batch_size=500, verbose=0, return_dict=True))
rows = np.arange(3)
given = [validation.images_at(rows), validation.u_at(rows)] if best.u_size else validation.images_at(rows)
print("x\n", validation.images_at(rows), "\nreconstructed\n", best.predict(given, verbose=0))
