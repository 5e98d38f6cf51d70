"""Estimate the memory of a training before anything is allocated."""

import math
from collections.abc import Sequence

from vae_tf import data, memory, models
from vae_tf.configuration import Configuration

FLOAT, INDEX = 4, 8         # bytes of a float32 and of an int64
OF_A_MODEL = 4 * 2**20      # bytes of the Python objects of one model: 30 replicas took 174 MB in all
IN_FLIGHT = 34              # batches that tf.data holds: eight per call, two calls at work and two ahead, and two more


def check_memory(configs: Sequence[Configuration], dataset: data.Dataset) -> None:
    """Refuse trainings that are estimated to take more memory than there is.

    Args:
        configs: one per model; they differ in seed and beta alone.
        dataset: the training data, which are in memory already.

    Raises:
        InputError: the estimate is above the limit; the line names the flag that asks for most.
    """
    config, count = configs[0], len(configs)
    kind = models.find(config.model)
    further = kind.count_further_weights(config.latents, config.options)
    networks, per_example = _count_bytes(config, dataset)
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
                      f"{memory.describe_size(count * batch)})", "ask for less, or give a larger --memory_limit to try "
                      "it all the same")


def _count_bytes(config: Configuration, dataset: data.Dataset) -> tuple[int, int]:
    """Return the bytes of the networks' weights and their optimizer in training, and of each example of a batch.

    For each example, the outputs of all layers are kept, and their gradients take as much.
    """
    weights, outputs = models.count_numbers(config.network, dataset.shape, config.latents, models.find(config.model),
                                            dataset.u_size)
    of_data = math.prod(dataset.shape) * (1 if dataset.is_image else FLOAT) + FLOAT * dataset.u_size + INDEX
    return FLOAT * _count_copies(config) * weights + OF_A_MODEL, FLOAT * 2 * outputs + IN_FLIGHT * of_data


def _count_copies(config: Configuration) -> int:
    """Return how many numbers there are for each weight.

    They are its value, its gradient and two numbers of the optimizer, and a checkpoint copies all but the gradient;
    validation keeps the best weights besides.
    """
    return 8 if config.validate_every else 7
