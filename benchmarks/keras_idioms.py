"""Train every model by Keras' idioms alone and by train.py's loop: `python benchmarks/keras_idioms.py`.

Both see the 40,000 training examples of `synthetic_linear`. Keras gets them as arrays, so order and noise differ from
those of train.py's loop. The table has the negative ELBO of the test part, mean and standard deviation over the seeds,
in nats; of `ae`, its reconstruction.
"""

import argparse
import pathlib
import tempfile

import keras
import numpy as np

from vae_tf import data, models, training

RATE, BATCH_SIZE = 3e-3, 64
OPTIONS = {"factor_vae": {"discriminator_units": 32}}       # Kim's 1,000 units take minutes on a processor


def build(name, dataset, seed):
    """Return an untrained model."""
    return models.build(name, dataset.shape, network="linear", latents=2, likelihood="gaussian",
                        likelihood_variance=0.01, u_size=dataset.u_size, examples=len(dataset), seed=seed,
                        **OPTIONS.get(name, {}))


def read_arrays(model, part):
    """Return all examples of a part: x, or [x, u]."""
    rows = np.arange(len(part))
    return [part.images_at(rows), part.u_at(rows)] if model.u_size else part.images_at(rows)


def train_by_keras(name, parts, seed, epochs, folder):
    """Return the weights of the best epoch, by nothing but Keras' idioms."""
    model = build(name, parts["train"], seed)
    keras.utils.set_random_seed(seed)
    model.compile(keras.optimizers.Adam(RATE), seed=seed, steps_per_execution=100)
    x, validation = (read_arrays(model, parts[part]) for part in ("train", "validation"))
    best = folder / f"{name}-{seed}.keras"
    model.fit(x, batch_size=BATCH_SIZE, epochs=epochs, validation_data=validation, verbose=0, callbacks=[
        keras.callbacks.EarlyStopping("val_loss", patience=5),
        keras.callbacks.ReduceLROnPlateau("val_loss", patience=3),
        keras.callbacks.CSVLogger(folder / f"{name}-{seed}.csv"),
        keras.callbacks.ModelCheckpoint(best, monitor="val_loss", save_best_only=True)])
    loaded = keras.models.load_model(best)
    assert loaded.predict(validation, batch_size=500, verbose=0).shape == (len(parts["validation"]), 3)
    return loaded


def train_by_our_loop(name, parts, seeds, epochs):
    """Return the models of all seeds, trained as `train.py --replicas` does."""
    built = [build(name, parts["train"], seed) for seed in seeds]
    steps = epochs * -(-len(parts["train"]) // BATCH_SIZE)
    training.fit_replicas(built, parts["train"], keras.optimizers.Adam(RATE), seeds=seeds, steps=steps,
                          batch_size=BATCH_SIZE, log_every=steps, checkpoint_every=steps)
    for model in built:
        model.compile()
    return built


def score(model, part):
    """Return the negative ELBO of a part, in nats per example."""
    terms = model.evaluate(read_arrays(model, part), batch_size=500, verbose=0, return_dict=True)
    return terms["reconstruction"] + terms.get("kl", 0.0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=list(models.MODELS))
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=3)
    flags = parser.parse_args()
    whole, seeds = data.load("synthetic_linear"), range(flags.seeds)
    parts = {part: whole.split("random", part) for part in ("train", "validation", "test")}
    print("| model | Keras' idioms | train.py's loop |\n|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name in flags.models:
            by_keras = [train_by_keras(name, parts, seed, flags.epochs, pathlib.Path(folder)) for seed in seeds]
            both = by_keras, train_by_our_loop(name, parts, list(seeds), flags.epochs)
            scores = [[score(model, parts["test"]) for model in trained] for trained in both]
            print(f"| `{name}` | " + " | ".join(f"{np.mean(of):.3f} ± {np.std(of, ddof=1):.3f}" for of in scores)
                  + " |", flush=True)


if __name__ == "__main__":
    main()
