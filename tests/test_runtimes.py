"""Exports in other runtimes give TensorFlow's numbers; docs/serving.md lists what does not convert."""

import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf
from cases import CASES, IDS, build, dataset, find

from vae_tf import export

sys.path.append(str(pathlib.Path(__file__).parents[1] / "benchmarks"))
import runtimes

DENSE, CONVOLUTIONAL = find("vae", "mlp_synthetic"), find("ivae", "conv_locatello")
ASKED = [(DENSE, "reconstruct"), (CONVOLUTIONAL, "encode"), (CONVOLUTIONAL, "decode")]


CARD = {"model": "any", "u_size": 0}


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return {index: export.save(tmp_path_factory.mktemp("exported") / "model", build(*CASES[index]),
                               dataset(CASES[index][2]), CARD) for index in (DENSE, CONVOLUTIONAL)}


@pytest.mark.parametrize(("index", "signature"), ASKED, ids=[f"{IDS[index]}-{name}" for index, name in ASKED])
@pytest.mark.parametrize("name", runtimes.RUNTIMES)
def test_what_converts_gives_the_numbers_of_tensorflow(paths, name, index, signature):
    path = paths[index]
    run = runtimes.RUNTIMES[name][0](path, signature)
    function = runtimes.loaded(path).signatures[signature]
    for size in (1, 3, 64):
        inputs = runtimes.inputs_of(function, size, seed=size)
        answer = function(**{key: tf.constant(value) for key, value in inputs.items()})
        outputs = run(inputs)
        assert sorted(outputs) == sorted(answer)
        for key, value in answer.items():       # other kernels sum in another order
            np.testing.assert_allclose(outputs[key], value, rtol=1e-4, atol=1e-5, err_msg=key)
