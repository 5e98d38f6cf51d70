"""Compare training steps with the kernels of oneDNN and with TensorFlow's own, on processors that have both.

    python benchmarks/onednn.py             (about ten minutes on an idle machine)

TensorFlow reads its choice when it is imported, so each measurement is a process of its own. They take turns.
"""

import os
import pathlib
import statistics
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))

# The steps that are compared: dataset, network, batch size, replicas, and how many steps are timed together.
KINDS_OF_STEP = (
    ("dsprites", "conv_locatello", 64, 1, 10), ("dsprites", "conv_locatello", 256, 1, 3),
    ("dsprites", "mlp_dsprites", 64, 1, 10), ("dsprites", "mlp_mixture", 64, 1, 30),
    ("synthetic_nonlinear", "mlp_synthetic", 64, 1, 400), ("synthetic_nonlinear", "mlp_synthetic", 64, 20, 100),
    ("synthetic_linear", "linear", 64, 1, 400), ("synthetic_linear", "linear", 64, 20, 100))
TURNS = 2


def compare():
    """Print the time of each kind of step with oneDNN, and how many times as fast that is."""
    for row in KINDS_OF_STEP:
        own, onednn = time_in_turns(row, [{"TF_ENABLE_ONEDNN_OPTS": value} for value in "01"])
        name, network, batch_size, count, _ = row
        print(f"{count} of {network} batch {batch_size} on {name}: a step of {onednn:.2f} ms with oneDNN, "
              f"{own / onednn:.2f} times as fast as without", flush=True)


def time_in_turns(row, environments):
    """Return the mean milliseconds of a kind of step in processes with each of some environments."""
    taken = [[] for _ in environments]
    for _ in range(TURNS):
        for times, given in zip(taken, environments, strict=True):
            done = subprocess.run([sys.executable, __file__, *map(str, row)], check=True, capture_output=True,
                                  text=True, env={**os.environ, **given})
            times.append(1e3 * float(done.stdout))
    return map(statistics.mean, taken)


def time_step(name, network, batch_size, count, steps):
    """Return the median seconds of a step without XLA, with the kernels of this process."""
    from training import medians, ours

    from vae_tf import data

    chunk = ours(data.load(name), network, int(batch_size), int(steps), seeds=range(int(count)))
    return medians(chunk)[0] / int(steps)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(time_step(*sys.argv[1:]))
    else:
        compare()
