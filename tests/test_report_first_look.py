"""The first numbers of an evaluation, and that they are said before the other scores are computed."""

import numpy as np
import pytest
from scored_codes import codes_and_factors

from vae_tf import evaluation, metrics, report


@pytest.mark.parametrize("stddev", [None, 0.1])
def test_the_first_look_says_the_verdict_and_the_mig(stddev):
    codes, factors = codes_and_factors()
    mig = metrics.mig(codes, factors).score
    of = evaluation.Codes(codes, factors, stddev=None if stddev is None else np.full(codes.shape, stddev))
    said = report.describe_first_look(of, ["mig", "sap"])
    assert f"MIG {mig:.2f}. All other scores follow; these are of {len(codes)} examples." in said
    assert said.startswith(f"{codes.shape[1]} of {codes.shape[1]} latents {'carry' if stddev else 'vary'}")
    assert "MIG" not in report.describe_first_look(of, ["sap"])


def test_nothing_is_said_of_what_cannot_be_computed():
    codes, factors = codes_and_factors()
    assert "MIG" not in report.describe_first_look(evaluation.Codes(codes, 0 * factors), ["mig"])
    assert "MIG" not in report.describe_first_look(evaluation.Codes(0 * codes, factors), ["mig"])
    broken = evaluation.Codes(codes, factors, stddev=np.full(codes.shape, np.nan))
    assert report.describe_first_look(broken, ["mig"]) == ""
