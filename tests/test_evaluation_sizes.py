"""What an evaluation would take in memory is estimated, and refused by the name of the flag that asks for it."""

import numpy as np
import pytest
from commands import parse

from vae_tf import cli, data, memory
from vae_tf.errors import InputError
from vae_tf.evaluation.sizes import check_memory


@pytest.fixture(autouse=True)
def one_gibibyte():
    memory.set_limit(2**30)
    yield
    memory.set_limit(None)


def test_more_processes_than_fit_are_refused():
    with pytest.raises(InputError, match=r"^--jobs: 4,000 worker processes takes? about 781.2 GiB .* the 1.0 GiB"):
        cli.read_options(parse(cli.define_evaluate_flags, "--jobs=4000"))
    assert cli.read_options(parse(cli.define_evaluate_flags, "--jobs=2")).jobs == 2


def test_a_decoder_around_more_examples_than_fit_is_refused():
    dataset = data.from_arrays("black", np.zeros((20_000, 64, 64, 1), np.uint8))
    check_memory(dataset, 10, 20_000)
    with pytest.raises(InputError, match=r"^around \(--geometry_examples\): a decoder around 20,000 .* about 6.6 GiB"):
        check_memory(dataset, 100, 10**6)
