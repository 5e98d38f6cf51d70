"""Train a variational autoencoder and export it: `vae-tf train --model=ivae`."""

import pathlib
import shlex
import sys
import time
import warnings
from collections.abc import Sequence
from typing import Any

from absl.flags import FlagValues

from vae_tf import cli, configured, console, data, defaults, devices, export, models, runs, training, verdicts
from vae_tf.configuration import Configuration, Settings
from vae_tf.data import held_out

STOPPED = 75        # the exit code of a training that is not complete, sysexits.h's EX_TEMPFAIL: try again later


def main(flags: FlagValues) -> None:
    """Train what flags ask for, and print where things are."""
    # Devices: this one, or several that share each batch.
    strategy = cli.choose_strategy(flags)
    chief = devices.is_chief(strategy)

    # Data: images by index, their factors, and u.
    whole = data.load(flags.dataset, data_dir=flags.data_dir, seed=flags.data_seed)
    dataset = whole.split(flags.split, "train", flags.data_seed)

    # Model: q(z|x), p(z), p(x|z) and the objective; one, or one per seed (--replicas) and beta (--sweep_beta).
    settings, configs = cli.read_settings(flags), cli.configure_all(flags, dataset)
    dataset = configured.scale_as_init_from(next(iter(configs.values())), dataset)
    validation = configured.take_validation_part(next(iter(configs.values())), whole)
    configured.check_memory(list(configs.values()), dataset, settings, validation)
    built = [configured.build_model(config, dataset) for config in configs.values()]
    name = configured.choose_name(configs, settings)
    run_dirs = [configured.choose_run_folder(config, settings, name + suffix) for suffix, config in configs.items()]
    config, model = next(iter(configs.values())), built[0]
    print(f"{config.model} ({config.network}, {config.latents} latent{'s' * (config.latents != 1)}, "
          f"{model.count_params():,} weights) "
          f"on {held_out.describe_training_part(dataset)}: "
          f"{config.steps:,} steps of {config.batch_size}, in {runs.list_first_to_last(run_dirs)}")
    warned = (defaults.predict_collapse(each, dataset) for each in configs.values())
    for line in dict.fromkeys((devices.explain_slow_precision(config.precision, strategy), *warned)):
        if line and chief and config.steps:
            warnings.warn(line, stacklevel=1)

    # Fit: goes on from the newest checkpoint in run_dir, if there is one.
    started = time.perf_counter()
    histories = configured.fit(list(configs.values()), built, dataset, run_dirs, settings, strategy, validation)
    if not all(map(has_ended, histories, run_dirs, configs.values())):
        again = ("The same command" if not settings.restart else
                 f"The same command without --restart and with --name={shlex.quote(name)} as its only --name")
        print(f"Stopped, the checkpoint is {runs.find_newest(run_dirs[0])}. {again} goes on from there.")
        console.end_by_request()
        sys.exit(STOPPED)       # by another worker, which was asked to stop
    if chief:
        print(f"\nTrained in {time.perf_counter() - started:.0f} s." if config.steps else "")
        names = [run_dir.name for run_dir in run_dirs]
        path = finish(list(configs.values()), built, dataset, histories, names, settings)
        if config.steps:
            print(f"  history    {runs.list_first_to_last(run_dirs, '/history.csv')}, "
                  f"or: tensorboard --logdir={shlex.quote(settings.run_root)}")
        print(f"Next, see what it {'learned' if config.steps else 'is'}:\n"
              f"  {console.name_command('evaluate')} --export={shlex.quote(path.as_posix())}"
              + (f" --data_dir={shlex.quote(flags.data_dir)}" if flags.data_dir else ""))
    devices.meet(strategy)          # if workers left while the first one exports, TensorFlow would report a crash
    console.end_by_request()        # which came with the last steps


def has_ended(history: Sequence[dict[str, Any]], run_dir: pathlib.Path, config: Configuration) -> bool:
    """Return whether a run needs no further steps; its checkpoint tells, too, because a history may be deleted."""
    newest = runs.find_newest(run_dir)
    return (training.has_ended(history, config.steps, config.early_stopping)
            or (newest is not None and int(newest.stem) >= config.steps))


def finish(configs: Sequence[Configuration], trained: Sequence[models.Autoencoder], dataset: data.Dataset,
           histories: Sequence[list[dict[str, Any]]], names: Sequence[str], settings: Settings) -> pathlib.Path:
    """Print the verdict over trained models and export them; returns the path of the last export."""
    # Verdict: how many latents carry information, before any number.
    cards = [configured.make_card(config, model, dataset, history, settings)
             for config, model, history in zip(configs, trained, histories, strict=True)]
    judged = {name: verdicts.judge_model(model, dataset) for name, model in zip(names, trained, strict=True)}
    print("\n".join(verdicts.write_closing_lines(judged, dict(zip(names, cards, strict=True)))))

    # Export: a SavedModel that a server loads.
    if configs[0].steps:
        print("Over the last steps up to the exported weights, nats per training example:")
    for config, model, name, card, history in zip(configs, trained, names, cards, histories, strict=True):
        folder = pathlib.Path(settings.export_root, name)
        there = export.find_existing(folder, model, card, settings.accept_dark, dataset)
        if there and settings.keep_versions:
            export.prune(there, settings.keep_versions)
        path = there or export.save(folder, model, dataset, card, settings.keep_versions, settings.accept_dark or None)
        last = export.describe_terms(card) or ("its terms are not known" if config.steps else "untrained")
        polarised = configured.describe_polarised(config.active_threshold, history)
        best = configured.describe_best(config, settings, history)
        print(f"  model      {path}{' (was there already)' * bool(there)}: {last}{polarised}{best}")
    return path
