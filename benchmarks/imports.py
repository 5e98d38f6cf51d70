"""Measure how long programs and parts of the package take to start, against the import of TensorFlow alone.

    python benchmarks/imports.py [--repeats=3]

It prints a line of a Markdown table per command: the CPU seconds (user and system, the fewest of some repeats) of a
process of its own, and their ratio to those of `import tensorflow`. CPU seconds hardly depend on what else runs.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
COMMANDS = {
    "`import tensorflow`": ["-c", "import tensorflow"],
    "`import vae_tf.metrics`": ["-c", "import vae_tf.metrics"],
    "`import vae_tf.evaluation`": ["-c", "import vae_tf.evaluation"],
    "`train.py --help`": ["train.py", "--help"],
    "`train.py --model=wae`, refused": ["train.py", "--model=wae"],
    "`evaluate.py --help`": ["evaluate.py", "--help"],
    "`evaluate.py --metrics=magic`, refused": ["evaluate.py", "--metrics=magic"],
    "`evaluate.py --export=none`, refused": ["evaluate.py", "--export=none"],
    "`evaluate.py --codes=codes.npz --metrics=mig`": ["evaluate.py", "--codes=codes.npz", "--metrics=mig", "--jobs=1"],
    "`python -m vae_tf.data`": ["-m", "vae_tf.data"],
    "`python -m vae_tf.experiments`": ["-m", "vae_tf.experiments"],
    "`python -m vae_tf.metrics`": ["-m", "vae_tf.metrics"],
}


def measure(arguments, folder, repeats):
    """The fewest CPU seconds of `python ARGUMENTS` in a folder."""
    if arguments[0].endswith(".py"):
        arguments = [ROOT / arguments[0], *arguments[1:]]
    seconds = []
    for _ in range(repeats):
        before = os.times()
        subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True,
                       env={**os.environ, "PYTHONPATH": str(ROOT)})
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    rng = np.random.default_rng(0)
    factors = rng.integers(0, 5, (1_000, 3))
    with tempfile.TemporaryDirectory() as folder:
        np.savez(f"{folder}/codes.npz", codes=factors + rng.normal(0, 0.1, factors.shape), factors=factors)
        print("| command | CPU seconds | times `import tensorflow` |\n|---|---|---|")
        alone = None
        for name, arguments in COMMANDS.items():
            seconds = measure(arguments, folder, repeats)
            alone = alone or seconds
            print(f"| {name} | {seconds:.2f} | {seconds / alone:.2f} |", flush=True)


if __name__ == "__main__":
    main()
