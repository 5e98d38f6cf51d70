"""Scores of many models as rows, and their spread over seeds."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from vae_tf import export, report
from vae_tf.errors import InputError

EXPORTED = pathlib.Path(__file__).parents[1] / "exported"
LINEAR = EXPORTED / "rolinek2018-synthetic_linear-beta_vae/1"


def test_rows_hold_what_cards_and_scores_say():
    rows = report.results_frame([LINEAR.parent, EXPORTED / "readme-ivae-dsprites"])
    assert [row["model"] for row in rows] == ["beta_vae", "ivae"]
    numbers = json.loads((LINEAR / "metrics.json").read_text())["metrics"]
    first = rows[0]
    assert first["export"] == str(LINEAR) and (first["beta"], first["seed"], first["latents"]) == (1e-4, 0, 2)
    assert first["mig"] == numbers["mig"]["score"] and first["mig_chance"] == numbers["mig"]["chance_level"]
    assert [first["mig_low"], first["mig_high"]] == numbers["mig"]["interval"]
    assert first["dto_standard_error"] == numbers["dto"]["standard_error"] and "dto_chance" not in first
    assert first["active_latents"] == 2


def copy_scored(folder, entries):
    """A folder of a model with these scores."""
    (folder / export.CARD).parent.mkdir(parents=True)
    for name in ("saved_model.pb", export.CARD):
        shutil.copy(LINEAR / name, folder / name)
    (folder / "metrics.json").write_text(entries if isinstance(entries, str) else
                                         json.dumps({"metrics": entries, "polarised_regime": {}}))
    return folder


def test_what_means_nothing_is_none_and_damage_is_one_line(tmp_path):
    beside = {"interval": [0.9, 1.0], "standard_error": 0.1, "chance_level": 0.5}
    strange = copy_scored(tmp_path / "a b/1", {"mig": {"score": 1.0, "no_meaning": "dead", **beside},
                                             "dto": {"score": None, **beside}, "sap": 3,
                                             "mcc": {"score": "x", "interval": [1]}})
    row, = report.results_frame([strange])
    assert [row[name] for name in ("mig", "dto", "sap", "mcc")] == [None] * 4
    assert not [name for name in row if name.endswith(report.frame.OVER_X)]
    assert report.summarise([row])[0]["mig_mean"] is None and report.summarise([row])[0]["mig_count"] == 0
    for number, text in enumerate(("{", "[]", '{"metrics": 3, "polarised_regime": {}}')):
        with pytest.raises(InputError, match=r"metrics\.json.*evaluate --export"):
            report.results_frame([copy_scored(tmp_path / f"damaged{number}/1", text)])
    (strange / "metrics.json").unlink()
    with pytest.raises(InputError, match=r"metrics\.json: expected the scores .* got no .* --export='.*/a b/1' sc"):
        report.results_frame([strange])


def test_the_spread_is_over_models_and_not_over_x():
    rows = [{"model": "vae", "beta": beta, "seed": seed, "mig": 0.1 * seed + beta, "mig_low": 0.0, "mig_chance": 9.0}
            for beta in (1.0, 4.0) for seed in (0, 1, 2)]
    first, second = report.summarise(rows)
    assert (first["model"], first["beta"], first["models"], second["beta"]) == ("vae", 1.0, 3, 4.0)
    assert first["mig_mean"] == pytest.approx(1.1) and second["mig_mean"] == pytest.approx(4.1)
    assert first["mig_spread"] == pytest.approx(np.std([0, 0.1, 0.2], ddof=1)) and first["mig_count"] == 3
    assert not [name for name in first if "low" in name or "chance" in name or "seed" in name]
    alone, = report.summarise(rows[:1])
    assert alone["mig_spread"] is None
    with pytest.raises(InputError, match=r"^by: expected names of .*; got 'colour'"):
        report.summarise(rows, ("colour",))
    assert report.summarise([], ("colour",)) == []


def test_a_single_path_is_refused():
    with pytest.raises(InputError, match=r"paths: expected several folders, such as \['exported/ivae'\]; got a single"):
        report.results_frame("exported/ivae")
