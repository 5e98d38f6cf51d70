"""Compare training steps on parts of batches with steps on whole batches, on a machine with two processors.

    python benchmarks/parts.py              (some minutes on an idle machine)

TensorFlow reads its threads when it begins to compute, so each measurement is a process of its own. They take turns.
"""

import sys

from onednn import time_in_turns

from vae_tf.console import environment

KERNELS = {"TF_ENABLE_ONEDNN_OPTS": "1"}
STEPS = (("conv_locatello", 32, 40), ("conv_locatello", 64, 20), ("conv_locatello", 256, 6), ("conv_bhowal", 64, 20))


def compare():
    """Print the time of each kind of step on parts, and how many times as fast that is as on whole batches."""
    threads = {}
    environment.choose_threads(threads)
    if not threads:
        sys.exit(f"processors: expected {environment.PROCESSORS}; got {environment.count_processors()}")
    for network, batch_size, steps in STEPS:
        whole, parts = time_in_turns(("dsprites", network, batch_size, 1, steps), [KERNELS, {**KERNELS, **threads}])
        print(f"{network} batch {batch_size} on dsprites: a step of {parts:.1f} ms on parts, {whole / parts:.2f} times "
              f"as fast as the {whole:.1f} ms of whole batches", flush=True)


if __name__ == "__main__":
    compare()
