"""Train every dataset with every model at the default settings, and other networks with the VAE.

    python benchmarks/defaults.py [--datasets=synthetic_linear,...] [--models=vae,...] [--networks=mlp_tcl,...]
                                  [--most_steps=N] [--seed=0]
    python benchmarks/defaults.py --replicas=8 --datasets=synthetic_linear --models=vae,full_covariance_vae

It prints a line of a Markdown table per run: the settings, the KL, and how many latents are informative, which means
that their mean KL on training examples is at least 0.01 nats. For an autoencoder, it prints how many latents vary. A
run does what train.py does, without checkpoints and export.
With --replicas it prints the distance to orthogonality (DtO) of the decoder for as many seeds instead.
"""

import argparse
import dataclasses
import itertools
import math

import numpy as np
import tensorflow as tf
from absl import flags

from vae_tf import activity, cli, configured, data, defaults, jacobians, metrics, models, networks, objectives

EXAMPLES = 2_000


def train_all(*argv, most_steps=None):
    """Train as `train.py ARGV` would, with at most `most_steps` steps: (configurations, models, dataset, histories)."""
    values = flags.FlagValues()
    cli.define_train_flags(values)
    cli.read_flags(values, ["train.py", "--polarised_every=0", "--log_every=500", *argv])
    dataset = data.load(values.dataset, data_dir=values.data_dir, seed=values.data_seed)
    dataset = dataset.split(values.split, "train", values.data_seed)
    configs = list(cli.configure_all(values, dataset).values())
    if most_steps:
        configs = [dataclasses.replace(config, steps=min(config.steps, most_steps)) for config in configs]
    built = [configured.build_model(config, dataset) for config in configs]
    histories = configured.fit(configs, built, dataset, [None] * len(built), cli.read_settings(values),
                               tf.distribute.get_strategy())
    return configs, built, dataset, histories


def train_one(*argv, most_steps=None):
    """Return the configuration, model, dataset and history of one run."""
    (config,), (model,), dataset, (history,) = train_all(*argv, most_steps=most_steps)
    return config, model, dataset, history


def measure_orientations(*argv, most_steps=None):
    """Return the DtO [S] of the decoders of several seeds, around the posterior means of 500 training examples."""
    _, built, dataset, _ = train_all(*argv, most_steps=most_steps)
    indices = np.arange(min(500, len(dataset)))
    x = models.scale_to_unit_range(tf.constant(dataset.images_at(indices)))
    u = tf.constant(dataset.u_at(indices)) if built[0].u_size else None
    return [metrics.dto(jacobians.gram(model.decoder, model.posterior(x, u).mean())).score for model in built]


def count_informative(model, dataset):
    """Return how many latents have a mean KL_j of at least 0.01 nats; for an autoencoder, how many vary."""
    indices = np.random.default_rng(0).choice(len(dataset), min(EXAMPLES, len(dataset)), replace=False)
    x = models.scale_to_unit_range(tf.constant(dataset.images_at(indices)))
    u = tf.constant(dataset.u_at(indices)) if model.u_size else None
    posterior, prior = model.posterior(x, u), model.prior(u)
    if prior is None:
        return int(np.sum(np.var(posterior.mean(), 0) > 1e-6))
    return int(activity.is_informative(np.mean(objectives.kl_per_latent(posterior, prior), 0)).sum())


def write_line(*argv, most_steps=None):
    """Return one line of the table."""
    config, model, dataset, history = train_one(*argv, most_steps=most_steps)
    last = history[-1]
    assert all(math.isfinite(value) for value in last.values())
    variance = f"{config.likelihood_variance:g}" if config.likelihood != "bernoulli" else "bernoulli"
    return (f"| `{dataset.name}` | `{config.model}` | `{config.network}` | {variance} | "
            f"{config.learning_rate:g} | {last['step']:,} | {last['reconstruction']:.2f} | "
            f"{last.get('kl', 0):.2f} | {count_informative(model, dataset)} of {model.latents} | "
            f"{defaults.predict_collapse(config, dataset)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(data.DATASETS))
    parser.add_argument("--models", default=",".join(models.MODELS))
    parser.add_argument("--networks", default="")
    parser.add_argument("--most_steps", type=int)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--replicas", type=int)
    given = parser.parse_args()
    if given.replicas:
        for dataset, model in itertools.product(given.datasets.split(","), given.models.split(",")):
            found = measure_orientations(f"--dataset={dataset}", f"--model={model}", f"--seed={given.seed}",
                                         f"--replicas={given.replicas}", most_steps=given.most_steps)
            print(f"{dataset} {model}: DtO {np.mean(found):.3f} ± {np.std(found, ddof=1):.3f}, "
                  f"{min(found):.3f} to {max(found):.3f}", flush=True)
        return
    print("| dataset | model | network | s² | rate | steps | reconstruction | KL | informative "
          "| said before training |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for dataset in given.datasets.split(","):
        for model in given.models.split(","):
            for network in given.networks.split(",") if given.networks else [None]:
                chosen = [f"--network={network}"] if network in networks.NETWORKS else []
                print(write_line(f"--dataset={dataset}", f"--model={model}", f"--seed={given.seed}", *chosen,
                                 most_steps=given.most_steps), flush=True)


if __name__ == "__main__":
    main()
