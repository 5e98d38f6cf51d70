"""Train a variational autoencoder and export it: `python train.py --model=ivae`."""

import time

from vae_tf import cli, data, export


def main(flags):
    # Data: images by index, their factors, and u.
    dataset = data.load(flags.dataset, data_dir=flags.data_dir, seed=flags.data_seed)
    dataset = dataset.split(flags.split, "train", flags.data_seed)

    # Model: q(z|x), p(z), p(x|z) and the objective.
    config = cli.configuration(flags, dataset)
    model = cli.build_model(config, dataset)
    run_dir = cli.run_folder(flags, config)
    print(f"{config['model']} ({config['network']}, {config['latents']} latents, {model.count_params():,} weights) "
          f"on {dataset.name} ({len(dataset):,} examples): "
          f"{config['steps']:,} steps of {config['batch_size']}, in {run_dir}")

    # Fit: goes on from the newest checkpoint in run_dir, if there is one.
    started = time.perf_counter()
    history = cli.fit(config, model, dataset, run_dir, flags)
    if history[-1]["step"] < config["steps"]:
        print(f"Stopped at step {history[-1]['step']:,}, checkpoint written. The same command goes on from there.")
        return

    # Export: a SavedModel that a server loads.
    path = export.save(f"{flags.export_root}/{run_dir.name}", model, dataset, cli.card(config, model, dataset, history))
    last = ", ".join(f"{name} {value:.2f}" for name, value in history[-1].items() if name in ("reconstruction", "kl"))
    polarised = cli.polarised_line(config, history)
    print(f"""
Trained in {time.perf_counter() - started:.0f} s. At the end, nats per example: {last}.{polarised}
  model      {path}
  history    {run_dir}/history.csv, or: tensorboard --logdir={run_dir}
Next, see what it learned:
  python evaluate.py --export={path}""")


if __name__ == "__main__":
    cli.run(main, cli.define_train_flags, __doc__)
