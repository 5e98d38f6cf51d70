"""Build the model of a configuration."""

import warnings

from vae_tf import data, export, models
from vae_tf.configuration import Configuration
from vae_tf.data import held_out
from vae_tf.models import Autoencoder


def scale_as_init_from(config: Configuration, dataset: data.Dataset) -> data.Dataset:
    """Return the dataset with u scaled by the factors' range in the training of the export that --init_from names.

    Raises:
        InputError: that export's u cannot be made of this dataset's factors.
    """
    if not config.init_from or not models.find(config.model).conditional:
        return dataset
    card = export.read_card(config.init_from)
    scaled = export.scale_as_trained(dataset, card, "init_from")
    if outside := export.describe_outside(dataset, card):
        warnings.warn(outside, stacklevel=2)
    return scaled


def take_validation_part(config: Configuration, whole: data.Dataset) -> data.Dataset | None:
    """Return the part of a dataset that `config` holds out for validation; None if it asks for no validation.

    Args:
        config: the configuration of a run.
        whole: the dataset of which another part is trained on.

    Raises:
        InputError: the u of the export that --init_from names cannot be made of this dataset's factors.
    """
    if not config.validate_every:
        return None
    part = whole.split(config.split, "validation", config.data_seed)
    if not config.init_from:
        return part
    card = export.read_card(config.init_from, export.TRAINED_FURTHER)
    if seen := held_out.count_trained_on(part, whole, export.list_trainings(card), config.data_seed):
        warnings.warn(f"{seen:,} of the {len(part):,} examples for validation are among those that {config.init_from} "
                      "was trained on, so validation_loss is lower than on new ones", stacklevel=2)
    return export.scale_as_trained(part, card, "init_from") if models.find(config.model).conditional else part


def build_model(config: Configuration, dataset: data.Dataset) -> Autoencoder:
    """Return the freshly initialised model of a configuration, with the weights of the export that --init_from names.

    Raises:
        InputError: a model or an export that does not go with the data.
    """
    options = {option.name: config.options[option.name] for option in models.find(config.model).options}
    model = models.build(config.model, dataset.shape, network=config.network, latents=config.latents,
                         likelihood=config.likelihood, likelihood_variance=config.likelihood_variance,
                         beta=config.beta, seed=config.seed, dtype=config.precision, u_size=dataset.u_size,
                         examples=len(dataset), **options)
    if config.jacobian_penalty != "none":
        model.penalise_jacobian(config.jacobian_penalty, config.jacobian_weight, config.jacobian_examples)
    if config.init_from:
        export.load_weights(model, config.init_from, config, dataset)
    return model
