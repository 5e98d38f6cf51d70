"""Measure the time and peak memory of every metric: `python benchmarks/metrics.py [NAME ...]`, all of them by default.

Codes of 10 latents follow the 5 dSprites factors, mixed and with noise. Each metric runs alone, in a process of its
own, on one thread. Seconds are of processor time, the median of three if one is less than a second; memory is what the
process needs beyond having the libraries and the arrays. Growth is the ratio of 10,000 examples to 5,000, and of 10
latents to 5.
"""

import json
import resource
import subprocess
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

from vae_tf import metrics
from vae_tf.data import dsprites

EXAMPLES, LATENTS = 10_000, 10
WARMING = 500


def example(examples, latents):
    """Return codes [N, d], and the factors of examples drawn from dSprites [N, 5]."""
    rng = np.random.default_rng(0)
    factors = dsprites.factors_at(rng.integers(0, np.prod(dsprites.SIZES), examples))
    mixing = rng.standard_normal((5, latents)) / 3 + np.eye(5, latents)
    codes = factors / factors.std(0) @ mixing + 0.3 * rng.standard_normal((examples, latents))
    return codes, factors


def make_context(examples, latents):
    """Return the metrics.Context of `example`."""
    codes, factors = example(examples, latents)
    return metrics.Context(codes, factors, stddevs=np.full(codes.shape, 0.3))


def measure(name, examples, latents):
    """Return the seconds and the peak megabytes of one metric."""
    # The first call imports libraries, which count neither as time nor as memory.
    metrics.METRICS[name].measure(make_context(WARMING, latents))
    context = make_context(examples, latents)
    before, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, []
    with threadpool_limits(1):
        while len(seconds) < 3 and sum(seconds) < 1:
            context.seed = len(seconds)         # because metrics of one posterior keep its densities
            started = time.process_time()
            metrics.METRICS[name].measure(context)
            seconds.append(time.process_time() - started)
    return {"seconds": float(np.median(seconds)),
            "megabytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}


def alone(*case):
    """Return what `measure` returns in a process of its own."""
    command = [sys.executable, __file__, "--one", *map(str, case)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main(names):
    print(f"| metric | CPU s | MB | time, N x 2 | time, d x 2 | memory, N x 2 | memory, d x 2 |\n|---|{'--:|' * 6}")
    for name in names:
        base, fewer, smaller = (alone(name, *case) for case in
                                ((EXAMPLES, LATENTS), (EXAMPLES // 2, LATENTS), (EXAMPLES, LATENTS // 2)))
        growth = [f"{base[key] / other[key]:.1f}" if other[key] >= least else "-"
                  for key, least in (("seconds", 0), ("megabytes", 1)) for other in (fewer, smaller)]
        cells = [f"`{name}`", f"{base['seconds']:.3g}", f"{base['megabytes']:.0f}", *growth]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2], *map(int, sys.argv[3:]))))
    else:
        main(sys.argv[1:] or metrics.list_names("metrics"))
