"""Measure where the time of `python evaluate.py` goes: `python benchmarks/evaluation.py [--export=exported/NAME]`.

For each metric of the default it prints the processor seconds of its score, its chance level and its interval
together, and their share of all. Then it prints the time of some steps as a ratio to what they replaced, in the same
run: densities of the aggregate posterior on a grid to densities at each sample, Newton's steps of a logistic
regression to L-BFGS, and histogram gradient boosting to scikit-learn's exact trees. Each is computed on one thread.
"""

import argparse
import os
import statistics
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")     # as train.py and evaluate.py have it

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from vae_tf import data, evaluation, export, metrics
from vae_tf.evaluation import computing, encoding, intervals
from vae_tf.metrics import boosted_trees, importance, mixtures, readout

EXAMPLES = 15_000       # of the default: 10,000, and half as many again for metrics that learn


def spend(function):
    """Return the processor seconds of a call."""
    started = time.process_time()
    function()
    return time.process_time() - started


def measure_codes(codes, asked):
    """Return the processor seconds of each metric of codes, by name; the first that needs what metrics share pays."""
    found = {}
    for draw in ("score", "shuffled", 0):           # the other halves take as long as the first
        for name in metrics.list_default_names("metrics"):
            metric = metrics.METRICS[name]
            if metric.explain_lack(codes.make_context()):
                continue
            draws = intervals.list_draws(metric, len(codes.mean), quick=False)
            times = sum(isinstance(each, int) for each in draws) if draw == 0 else draw in draws
            seconds = spend(lambda m=metric, d=draw: computing.measure(m, d, codes, asked)) if times else 0
            found[name] = found.get(name, 0) + times * seconds
    return found


def measure_model(model, dataset, indices):
    """Return the processor seconds of encoding, and of each metric of the decoder and of theory, by name."""
    found = {"encoding": spend(lambda: encoding.encode(model, dataset, indices, 0))}
    context = metrics.Context.from_model(model, dataset, indices[:200])
    for name in (*metrics.list_default_names("geometry"), *metrics.list_default_names("theory")):
        metric = metrics.METRICS[name]
        if not metric.explain_lack(context):
            found[name] = spend(lambda m=metric: metrics.measure([m.name], context))    # what they share counts once
    return found


def compare(codes):
    """Yield names of steps and the ratio of their time to that of what they replaced."""
    means, stddevs = (a[:10_000].astype(np.float64) for a in (codes.mean, codes.stddev))
    mean, stddev = means[:, 0], stddevs[:, 0]
    for samples in (10_000, 100_000):
        z = np.resize(mean, samples) + np.resize(stddev, samples) * np.random.default_rng(0).standard_normal(samples)
        yield (f"densities of {samples:,} samples, on a grid to at each",
               lambda z=z: mixtures.log_mixture(z, mean, stddev),
               lambda z=z: mixtures._compute_log_mixture(z, mean, stddev))
    scale = np.unique(codes.factors[:10_000, 1], return_inverse=True)[1]
    yield ("logistic regression, Newton to L-BFGS", lambda: readout.fit_logistic(means, scale),
           lambda: LogisticRegression(max_iter=1_000).fit(means, scale))
    yield ("boosting, binned trees to exact ones", lambda: boosted_trees.fit(means, scale),
           lambda: importance.fit_boosted(means, scale, 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--export", default="exported/readme-ivae-dsprites")
    model = export.load(parser.parse_args().export)
    dataset = data.load(model.card["recipe"]["dataset"])
    indices = np.random.default_rng(0).permutation(len(dataset))[:EXAMPLES]
    codes, _ = encoding.encode(model, dataset, indices, 0)
    seconds = {**measure_model(model, dataset, indices), **measure_codes(codes, evaluation.Options(None))}
    whole = sum(seconds.values())
    print("| part | processor s | share |\n|---|--:|--:|")
    for name, each in sorted(seconds.items(), key=lambda pair: -pair[1]):
        if each > 0.01 * whole:
            print(f"| {name} | {each:.1f} | {each / whole:.0%} |")
    print(f"| all | {whole:.1f} | |\n\n| step | ratio of times |\n|---|--:|")
    with threadpool_limits(1):
        for name, new, old in compare(codes):
            print(f"| {name} | {statistics.median(spend(new) / spend(old) for _ in range(3)):.2f} |", flush=True)


if __name__ == "__main__":
    main()
