"""Find networks and learning rates whose losses stay finite on images of other sizes, and count informative latents.

    python benchmarks/image_sizes.py [--steps=24] [--rows=0,1,...] [--alive=300]

It makes images of bright rectangles on dark grounds, trains a VAE of ten latents on them for 24 steps with seeds 0 and
1, and prints a line of a Markdown table per setting: nats per pixel at the end, or the step whose loss is not finite.
--alive=N trains 128x128x3 images with their default settings for N steps and prints the number of informative
latents.
docs/defaults.md has the table.
"""

import argparse
import pathlib
import tempfile

import numpy as np
from defaults import count_informative, train_one

from vae_tf import training

# The size, channels, flags and batch size of each row; the first flag is a network.
ROWS = [
    (28, 1, ("conv_locatello", 1e-3, 0), 64),
    (28, 1, ("mlp_mnist", 1e-3, 0), 64),
    (64, 3, ("mlp_mnist", 1e-3, 0), 64),
    (64, 3, ("mlp_mnist", 3.3e-4, 0), 64),
    (100, 3, ("conv_locatello", 1e-3, 0), 64),
    (128, 3, ("mlp_mnist", 1e-3, 0), 64),
    (128, 3, ("mlp_mnist", 1e-3, 1), 64),
    (128, 3, ("mlp_mnist", 8.3e-5, 0), 64),
    (128, 3, ("conv_locatello", 1e-3, 0), 64),
    (256, 3, ("conv_locatello", 1e-3, 0), 16),
    (256, 1, ("conv_locatello", 1e-3, 1), 16),
]


def draw_rectangles(size, channels, examples):
    """Return images of a bright rectangle on a dark ground: uint8 [examples, size, size, channels]."""
    rng = np.random.default_rng(0)
    place, reach = rng.uniform(0.2, 0.8, (examples, 2)) * size, rng.uniform(0.1, 0.3, (examples, 2)) * size
    rows, columns = (np.abs(np.arange(size) - place[:, [axis]]) < reach[:, [axis]] for axis in (0, 1))
    inside = rows[:, :, np.newaxis] & columns[:, np.newaxis]
    return np.where(inside[..., np.newaxis], rng.integers(130, 256, (examples, 1, 1, channels)),
                    rng.integers(0, 120, (examples, 1, 1, channels))).astype(np.uint8)


def describe_end(path, size, channels, setting, batch, seed, steps):
    """Return the nats per pixel after some steps, or the step whose loss is not finite."""
    network, rate, clip = setting
    try:
        *_, history = train_one(f"--dataset={path}", "--model=vae", f"--network={network}", f"--learning_rate={rate}",
                                f"--clip_gradients={clip}", f"--batch_size={batch}", f"--seed={seed}", "--log_every=1",
                                most_steps=steps)
    except training.NonFiniteError as error:
        return f"**not finite at {str(error).split(':')[0]}**"
    return f"{history[-1]['loss'] / (size * size * channels):.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--rows", default=",".join(map(str, range(len(ROWS)))))
    parser.add_argument("--alive", type=int)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "rectangles.npz")
        if given.alive:
            np.savez(path, images=draw_rectangles(128, 3, 2_000))
            config, model, dataset, history = train_one(f"--dataset={path}", "--model=vae", most_steps=given.alive)
            print(f"128x128x3, {config.network}, rate {config.learning_rate:g}, {given.alive} steps of "
                  f"{config.batch_size}: loss {history[-1]['loss']:.1f}, KL {history[-1]['kl']:.2f}, "
                  f"{count_informative(model, dataset)} of {model.latents} latents informative")
            return
        print("| images | network | learning rate | `--clip_gradients` | batch | seeds 0 and 1 |")
        print("|---|---|---|---|---|---|")
        for size, channels, setting, batch in (ROWS[int(row)] for row in given.rows.split(",")):
            np.savez(path, images=draw_rectangles(size, channels, 640))
            ends = [describe_end(path, size, channels, setting, batch, seed, given.steps) for seed in (0, 1)]
            network, rate, clip = setting
            print(f"| {size}x{size}x{channels} | `{network}` | {rate:g} | {clip} | {batch} | {'; '.join(ends)} |",
                  flush=True)


if __name__ == "__main__":
    main()
