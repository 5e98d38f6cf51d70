"""A model of the table in cases.py with random data, exported as train.py does."""

import numpy as np
from cases import CASES, FACTORS, build, dataset, find

from vae_tf import export

SMALLEST = CASES[find("vae", "linear")]            # a linear VAE, for what is the same of every model


def card(case):
    return {"model": case[0], "u_size": FACTORS if case[0] == "ivae" else 0,
            "data": {"name": "random", "shape": case[2]}, "recipe": {}}


def saved(tmp_path, case, seed=0, **options):
    model, data = build(*case, seed=seed), dataset(case[2])
    return model, data, export.save(tmp_path / "model", model, data, card(case), **options)


def assert_close(outputs, right, within):
    assert sorted(outputs) == sorted(right)
    for name, value in right.items():
        np.testing.assert_allclose(outputs[name], value, **within, err_msg=name)
