"""benchmarks/turning.c, which knows nothing of the package, agrees with it where both can be asked."""

import pathlib
import re
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(__file__).parents[1] / "benchmarks/turning.c"

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="it needs a C compiler")


@pytest.fixture(scope="module")
def turning(tmp_path_factory):
    """A function that runs the program: the DtO of each seed, the mean DtO and the mean MCC."""
    program = tmp_path_factory.mktemp("turning") / "turning"
    subprocess.run(["cc", "-O3", "-ffast-math", SOURCE, "-o", program, "-lm"], check=True)

    def run(*arguments):
        told = subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, text=True).stdout
        every, dto, mcc = told.splitlines()
        return [float(value) for value in every.split()], *(float(re.search(r"mean ([\d.]+)", line)[1])
                                                            for line in (dto, mcc))

    run.program = program
    return run


def test_the_penalty_makes_columns_orthogonal_and_leaves_their_directions_open(turning):
    for model in ("ae", "full"):
        without, with_penalty = (turning(model, 1e-4, 0.5, 1e-3, 16, 15_000, 0, 6, weight) for weight in (0, 1))
        assert without[1] > 0.3 and with_penalty[1] < 0.03
        assert with_penalty[2] < 0.95           # an MCC of 1 needs the directions of the factors


def test_a_strong_prior_turns_a_diagonal_vae_to_the_factors(turning):
    dtos, _, mcc = turning("vae", 1, 0.01, 3e-3, 64, 20_000, 0, 2)
    assert len(dtos) == 2 and max(dtos) < 0.15 and mcc > 0.99


def test_without_arguments_it_says_how_it_is_called(turning):
    refused = subprocess.run([turning.program], capture_output=True, text=True)
    assert refused.returncode == 2 and refused.stderr.endswith("FIRST_SEED SEEDS [WEIGHT]\n")
