"""Exports that are damaged, mixed up or beside strange names: one line each, and the whole version before is taken."""

import json
import os
import shutil

import numpy as np
import pytest
from cases import CASES, build, dataset, find

from vae_tf import export
from vae_tf.errors import InputError

CASE = CASES[find("vae", "linear")]            # a linear VAE
CARD = {"model": "vae", "u_size": 0, "latents": 3, "data": {"name": "random", "shape": [6]}, "recipe": {}}


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """exported/NAME with the versions 1 and 2, of different weights; no test changes it."""
    folder = tmp_path_factory.mktemp("exported") / "model"
    for seed in (1, 2):
        export.save(folder, build(*CASE, seed=seed), dataset(CASE[2]), CARD)
    return folder


@pytest.fixture
def folder(two, tmp_path):
    return shutil.copytree(two, tmp_path / "model")


def change(path, **entries):
    """Change a version's card as a person would, who deletes its checksum; None deletes an entry."""
    card = {**json.loads((path / export.CARD).read_text()), "checksum": None, **entries}
    card = {name: value for name, value in card.items() if value is not None}
    (path / export.CARD).write_text(json.dumps(card))


def cut(path):
    path.write_bytes(path.read_bytes()[:-40])


def flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def make_pipe(path):
    path.unlink()
    os.mkfifo(path)


def make_folder(path):
    path.unlink()
    path.mkdir()


def test_every_file_has_a_checksum(two):
    card = json.loads((two / "2" / export.CARD).read_text())
    there = {str(path.relative_to(two / "2")) for path in (two / "2").rglob("*") if path.is_file()}
    assert set(card["files"]) == there - {"assets.extra/card.json"} and len(there) >= 6


@pytest.mark.parametrize("damage", [cut, flip, os.unlink, make_pipe, make_folder])
def test_any_damage_to_any_file_is_one_line_that_names_it_and_the_version_before_is_taken(two, folder, damage):
    path = folder / "2"
    for name in (*json.loads((path / export.CARD).read_text())["files"], str(export.CARD)):
        damage(path / name)
        if damage is not os.unlink or name != "saved_model.pb":
            with pytest.raises(InputError, match=rf"2/{name}.*; (restore the file|export the model again)") as caught:
                export.load(path)
            assert "\n" not in str(caught.value)
        with pytest.warns(UserWarning, match=rf"2.*{name}.*; going back to the version before"):
            assert export.find_newest(folder) == folder / "1"
        if (path / name).is_dir():
            (path / name).rmdir()
        (path / name).unlink(missing_ok=True)
        shutil.copy(two / "2" / name, path / name)
    assert export.find_newest(folder) == path


def test_a_file_of_another_model_is_refused(folder):
    for name in ("saved_model.pb", "variables/variables.data-00000-of-00001", "assets.extra/model.weights.h5"):
        kept = (folder / "2" / name).read_bytes()
        shutil.copy(folder / "1" / name, folder / "2" / name)
        if name != "saved_model.pb":        # both have the same graph
            with pytest.raises(InputError, match=rf"2/{name} is damaged or of another model"):
                export.load(folder / "2")
        (folder / "2" / name).write_bytes(kept)


@pytest.mark.parametrize(("name", "damage"), [
    ("saved_model.pb", cut), ("saved_model.pb", make_pipe), ("variables/variables.index", cut),
    ("variables/variables.data-00000-of-00001", cut), ("variables/variables.data-00000-of-00001", os.unlink)])
def test_an_export_without_checksums_that_cannot_be_loaded_is_one_line(folder, name, damage):
    change(folder / "2", files=None)        # as in an earlier version
    damage(folder / "2" / name)
    with pytest.raises(InputError, match=r"model/2.*export the model again") as caught:
        export.load(folder / "2")
    assert "\n" not in str(caught.value)


def test_a_path_that_tensorflow_takes_for_a_pattern_is_said(two, tmp_path):
    for name in ("a[1]", "a\\b"):
        with pytest.raises(InputError, match=r"TensorFlow cannot load a model from a path with .*; move the folder"):
            export.load(shutil.copytree(two, tmp_path / name / "model"))
        with pytest.raises(InputError, match=r"folder: expected a path without .*, because TensorFlow cannot load"):
            export.save(tmp_path / name / "new", build(*CASE), dataset(CASE[2]), CARD)
        assert not (tmp_path / name / "new").exists()
    for name in ("[a", "b]", "c*", "d?"):
        export.load(shutil.copytree(two, tmp_path / name))


@pytest.mark.parametrize(("entries", "message"), [
    ({"latents": 4}, r"takes z of shape \(3,\), and assets.extra/card.json says \(4,\)"),
    ({"data": {"shape": [7]}}, r"takes x of shape \(6,\), and .* says \(7,\)"),
    ({"u_size": 2, "u": None}, r"takes u of shape \(0,\), and .* says \(2,\)"),
    ({"files": {"../../outside": "00"}}, "expected files to be an object of checksums by path"),
    ({"files": {"*": "00"}}, "expected files to be an object of checksums by path"),    # a pattern, for the Hub
    ({"limits": {"rows": 0}}, "expected limits.rows to be a whole number, 1 or more; got 0"),
    ({"history": {"a": {"name": 3}}}, "expected history to be an object of results"),
    ({"recipe": {"steps": "many"}}, 'expected recipe.steps to be a whole number; got "many"'),
    ({"beta": 1e999}, "expected beta to be a finite number; got Infinity"),
    ({"latents": 10**30}, "expected latents to be a whole number, 1 or more"),
    ({"u": {"names": [1]}}, "expected u.names to be a list of texts"),
])
def test_a_card_of_another_model_or_with_wrong_values_is_one_line(folder, entries, message):
    change(folder / "2", **entries)
    with pytest.raises(InputError, match=message):
        export.load(folder / "2")


def test_a_card_that_changed_by_itself_is_one_line(folder):
    """One flipped bit can make a beta of 4 one of 5, by which scores would be compared with another theory."""
    path = folder / "2" / export.CARD
    export.update_card(folder / "2", beta=4.0)
    assert export.load(folder / "2").card["beta"] == 4.0
    text = path.read_text()
    path.write_text(text.replace('"beta": 4.0', '"beta": 5.0'))
    with pytest.raises(InputError, match=r"card.json: its entries are not those that its checksum was made of; restore "
                                         r"the file, or export .*; if the card was changed on purpose, delete its"):
        export.load(folder / "2")
    with pytest.warns(UserWarning, match="card.json: its entries .*; going back to the version before"):
        assert export.find_newest(folder) == folder / "1"
    path.write_text(text.replace("\n", "").replace("  ", " "))
    assert export.load(folder / "2").card["beta"] == 4.0, "spaces are no entries"
    change(folder / "2", beta=5.0)
    assert export.load(folder / "2").card["beta"] == 5.0


def test_names_that_are_nearly_versions_do_no_harm(folder):
    for name in ("1²", "²", "007", "9" * 30, "5abc", "0"):
        (folder / name).mkdir()
        (folder / name / "saved_model.pb").write_bytes(b"")
    (folder / "4").write_text("a file")
    (folder / "5").symlink_to("nothing")
    assert sorted(export.list_versions(folder)) == [1, 2, 4, 5] and export.find_newest(folder) == folder / "2"
    before = set(os.listdir(folder))
    path = export.save(folder, build(*CASE), dataset(CASE[2]), CARD, keep=2)
    assert path == folder / "6" and set(os.listdir(folder)) == before - {"1"} | {"6"}
    (folder / "7").symlink_to(folder / "2")
    assert export.find_newest(folder) == folder / "7"       # a version that is a link is one


def test_a_version_that_cannot_be_deleted_is_left_whole_with_a_warning(folder, monkeypatch):
    def refuse(source, target):
        raise PermissionError(13, "Permission denied")

    rename = os.rename
    monkeypatch.setattr(os, "rename", lambda source, target: (
        refuse if ".removing-" in str(target) else rename)(source, target))
    with pytest.warns(UserWarning, match=r"model/2 could not be deleted \(Permission denied\); more versions than 1"):
        export.save(folder, build(*CASE), dataset(CASE[2]), CARD, keep=1)
    assert sorted(os.listdir(folder)) == ["1", "2", "3"]


def test_an_export_is_made_anew_where_the_newest_version_is_damaged(folder):
    model = build(*CASE, seed=2)
    (folder / "3").write_text("a file")
    assert export.find_existing(folder, model, CARD) == folder / "2"
    cut(folder / "2" / "variables/variables.index")
    assert export.find_existing(folder, model, CARD) is None


def test_an_export_is_found_whatever_spaces_its_data_are_named_by(folder):
    name = "/a\u3000b\u00a0c\u200cd\u200de.npz"     # the last two join letters in Persian, in Hindi and in emoji
    card = {**CARD, "recipe": {"dataset": name, "network": "\x1b"}}
    export.update_card(folder / "2", **card)
    assert export.read_card(folder / "2")["recipe"] == {"dataset": name, "network": r"\x1b"}
    card["recipe"]["network"] = r"\x1b"
    assert export.find_existing(folder, build(*CASE, seed=2), card) == folder / "2"


def test_weights_to_go_on_from_are_read_back_whole(folder):
    loaded = export.load(folder)
    x = dataset(CASE[2]).images_at(np.arange(4))
    np.testing.assert_allclose(loaded.encode(x)["mean"], build(*CASE, seed=2).posterior(x).mean(), rtol=1e-5, atol=1e-6)
