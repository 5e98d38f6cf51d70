"""Estimate the memory of a training before anything is allocated."""

import math
from collections.abc import Sequence

from vae_tf import data, memory, models
from vae_tf.configuration import Configuration, Settings
from vae_tf.training.loop import WATCHED_EXAMPLES
from vae_tf.training.validation import MOST_EXAMPLES

FLOAT, INDEX = 4, 8         # bytes of a float32 and of an int64
OF_A_MODEL = 4 * 2**20      # bytes of the Python objects of one model: 30 replicas took 174 MB in all
IN_FLIGHT = 34              # batches that tf.data holds: eight per call, two calls at work and two ahead, and two more
LARGER_LIMIT = "give a larger --memory_limit to try it all the same"


def check_memory(configs: Sequence[Configuration], dataset: data.Dataset, settings: Settings,
                 validation: data.Dataset | None = None) -> None:
    """Refuse trainings that are estimated to take more memory than there is.

    Args:
        configs: one per model; they differ in seed and beta alone.
        dataset: the training data, which are in memory already.
        settings: say whether the polarised KL is measured.
        validation: the validation part; None where the configuration asks for no validation.

    Raises:
        InputError: the estimate is above the limit; the line names the flag that asks for most.
    """
    config, count = configs[0], len(configs)
    kind = models.find(config.model)
    further = kind.count_further_weights(config.latents, config.options)
    weights, outputs, largest = models.count_numbers(config.network, dataset.shape, config.latents, kind,
                                                     dataset.u_size)
    networks = FLOAT * _count_copies(config) * weights + OF_A_MODEL
    # Training keeps the outputs of all layers for each example, and their gradients take as much.
    per_example = FLOAT * 2 * outputs + IN_FLIGHT * (_count_bytes(dataset) + INDEX)
    state = networks + _count_copies(config) * FLOAT * sum(further.values())
    examples = config.batch_size
    if config.jacobian_penalty != "none":       # a column of the Jacobian takes what an example takes
        examples += config.latents * min(config.jacobian_examples, config.batch_size)
    batch = examples * per_example + FLOAT * kind.count_scratch(config.batch_size, config.latents)
    available = memory.find_available()
    flag = ("--latents" if networks + batch / config.batch_size > available else
            f"--{max(further, key=lambda name: further[name])}" if further and state > available else
            "--batch_size" if state + batch > available else "--replicas")
    what = f"{count:,} models" if count > 1 else "the model"
    memory.check_fits(flag, count * (state + batch), f"training {what} (weights and optimizer "
                      f"{memory.describe_size(count * state)}, batches of {config.batch_size:,} examples "
                      f"{memory.describe_size(count * batch)})", f"ask for less, or {LARGER_LIMIT}")
    if 0 < settings.polarised_every <= config.steps and kind.has_prior:
        memory.check_fits("--polarised_every", count * state + _count_watched(dataset, count, largest),
                          f"measuring the polarised KL of {what} on up to {WATCHED_EXAMPLES} examples",
                          f"give 0, which measures nothing, or {LARGER_LIMIT}")
    if validation is not None:
        examples = min(len(validation), MOST_EXAMPLES)      # which are copied into an array, and into a tensor
        memory.check_fits("--validate_every", count * (state + batch) + 2 * examples * _count_bytes(validation),
                          f"training {what} with a validation on {examples:,} examples",
                          f"give 0, which validates nothing, or {LARGER_LIMIT}")


def _count_watched(dataset: data.Dataset, count: int, largest: int) -> int:
    """Return the bytes that it takes to measure the polarised KL of some models, each on examples of its own.

    The examples of all models are copied twice into arrays and once into a tensor, and become floats. They pass the
    encoders, which run one by one, as a single batch; `largest` is the size of the largest output of a layer.
    """
    of_example = count * (3 * _count_bytes(dataset) + FLOAT * math.prod(dataset.shape)) + FLOAT * largest
    return min(len(dataset), WATCHED_EXAMPLES) * of_example


def _count_bytes(dataset: data.Dataset) -> int:
    """Return the bytes of an example as it is stored."""
    return math.prod(dataset.shape) * (1 if dataset.is_image else FLOAT) + FLOAT * dataset.u_size


def _count_copies(config: Configuration) -> int:
    """Return how many numbers there are for each weight.

    They are its value, its gradient and two numbers of the optimizer, and a checkpoint copies all but the gradient;
    validation keeps the best weights besides.
    """
    return 8 if config.validate_every else 7
