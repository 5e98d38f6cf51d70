import json
import multiprocessing
import os
import shutil
import time

import numpy as np
import pytest
import tensorflow as tf
from cases import build, dataset
from exports import SMALLEST, card, saved

from vae_tf import export, files
from vae_tf.export import versions


def test_versions_count_up_and_the_newest_is_loaded(tmp_path):
    first = saved(tmp_path, SMALLEST, seed=1)[2]
    shutil.copytree(first, first.with_name("2"))
    path = saved(tmp_path, SMALLEST, seed=3)[2]
    assert (first.name, path.name) == ("1", "3")
    (tmp_path / "model" / "not a version").mkdir()
    assert export.load(tmp_path).path == export.load(tmp_path / "model").path == path
    assert export.load(tmp_path / "model" / "2").path.name == "2"
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == ["1", "2", "3", "not a version"]
    assert json.loads((path / export.CARD).read_text())["model"] == "vae"


def test_versions_are_numbers_of_64_bits(tmp_path):
    for name in ("1796000000000000000", "9223372036854775808"):     # nanoseconds, and a number that is too large
        (tmp_path / name).mkdir()
    assert export.list_versions(tmp_path) == [1796000000000000000]
    (tmp_path / "9223372036854775807" / "full").mkdir(parents=True)
    (tmp_path / "aside").mkdir()
    with pytest.raises(OSError, match="no version of 64 bits is above those that are there"):
        versions.claim_version(tmp_path, tmp_path / "aside")


def test_only_so_many_versions_are_kept_and_what_killed_exports_left_goes(tmp_path):
    folder = tmp_path / "model"
    for name in (".writing-dead", ".removing-1-dead", ".writing-alive", ".another"):
        (folder / name / "variables").mkdir(parents=True)
    with files.hold_lock(folder / ".writing-alive.lock"):
        assert saved(tmp_path, SMALLEST, keep=2)[2].name == "1"
        assert not {".writing-dead", ".removing-1-dead"} & set(os.listdir(folder))
        shutil.copytree(folder / "1", folder / "2")
        assert saved(tmp_path, SMALLEST, keep=2)[2].name == "3"
    assert sorted(os.listdir(folder)) == [".another", ".writing-alive", "2", "3"]
    assert saved(tmp_path, SMALLEST, keep=1)[2].name == "4"
    assert sorted(os.listdir(folder)) == [".another", "4"]


def test_a_version_that_is_being_scored_is_not_deleted(tmp_path):
    first = saved(tmp_path, SMALLEST)[2]
    (first / f".in-use.{'0' * 16}.lock").touch()         # of a process that was killed
    with files.keep_in_use(first), files.keep_in_use(first), pytest.warns(UserWarning, match="1 could not be deleted "):
        saved(tmp_path, SMALLEST, keep=1)
    assert sorted(os.listdir(tmp_path / "model")) == ["1", "2"]
    assert not files.is_in_use(first) and not [name for name in os.listdir(first) if name.startswith(".in-use")]
    saved(tmp_path, SMALLEST, keep=1)
    assert os.listdir(tmp_path / "model") == ["3"]


def test_the_newest_version_is_the_highest_of_the_model_written_last(tmp_path):
    for name, version in (("a", "9"), ("a", "10"), ("b", "1")):
        (tmp_path / name).mkdir(exist_ok=True)
        saved(tmp_path, SMALLEST)[2].rename(tmp_path / name / version)
    assert export.find_newest(tmp_path) == tmp_path / "b" / "1"
    export.update_card(tmp_path / "a" / "9", metrics={"mig": 0.5})
    (tmp_path / "a" / "9" / "metrics.json").write_text("{}")           # evaluating an old version does not renew it
    assert export.find_newest(tmp_path) == tmp_path / "b" / "1"
    assert export.find_newest(tmp_path / "a") == tmp_path / "a" / "10"
    shutil.copytree(tmp_path / "a" / "9", tmp_path / "a" / "backup" / "9")
    assert export.find_newest(tmp_path / "a") == tmp_path / "a" / "10"      # a server ignores the copy, too
    card = export.load(tmp_path / "a" / "9").card
    assert card["metrics"] == {"mig": 0.5} and card["model"] == "vae"


def export_in_turn(folder, times, start=None):
    """Export a small model again and again, in a process of its own."""
    model, data = build(*SMALLEST), dataset(SMALLEST[2])
    if start:
        start.wait()
    for _ in range(times):
        export.save(folder, model, data, card(SMALLEST), keep=2)


@pytest.fixture(scope="module")
def processes():
    """Where processes start with TensorFlow imported and not yet started."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["vae_tf.export"])
    return context


def files_in(path):
    return sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())


# What is seen in the folder before the process is killed: steps of an export, and one of the next.
STEPS = ("{aside}", "{aside}/variables/*", "{aside}/assets.extra/model.weights.h5", "[0-9]*/saved_model.pb")


def test_an_export_killed_at_any_moment_leaves_no_half_version(tmp_path, processes):
    _, data, first = saved(tmp_path, SMALLEST)
    x, whole = data.images_at(np.arange(4)), files_in(first)
    codes = export.load(first).encode(x)["mean"]
    folder, rng, killed_aside = first.parent, np.random.default_rng(0), 0
    for step in STEPS:
        before = {path for pattern in (".writing-*", "[0-9]*") for path in folder.glob(pattern)}
        process = processes.Process(target=export_in_turn, args=(folder, 100))
        process.start()
        deadline = time.monotonic() + 120
        pattern = step.format(aside=".writing-*")
        while not any(before.isdisjoint([path, *path.parents]) for path in folder.glob(pattern)):
            assert process.is_alive() and time.monotonic() < deadline
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.05))
        process.kill()
        process.join()
        assert process.exitcode == -9
        killed_aside += sum(path.is_dir() for path in folder.glob(".writing-*"))
        for version in export.list_versions(folder):
            assert files_in(folder / str(version)) == whole
            np.testing.assert_array_equal(export.load(folder / str(version)).encode(x)["mean"], codes)
    assert killed_aside >= 2        # they were killed while writing
    last = saved(tmp_path, SMALLEST)[2]
    assert not [name for name in os.listdir(folder) if name.startswith(".")] and export.find_newest(folder) == last


def test_exports_at_once_get_a_version_each(tmp_path, processes):
    start = processes.Barrier(2)
    started = [processes.Process(target=export_in_turn, args=(tmp_path / "model", 1, start)) for _ in range(2)]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
        assert process.exitcode == 0
    assert sorted(os.listdir(tmp_path / "model")) == ["1", "2"]
    x = dataset(SMALLEST[2]).images_at(np.arange(4))
    one, two = (export.load(tmp_path / "model" / name).encode(x)["mean"] for name in "12")
    np.testing.assert_array_equal(one, two)


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    saved(tmp_path, SMALLEST)

    def fail(*args, **more):
        raise OSError("disk full")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        saved(tmp_path, SMALLEST)
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["1"]


def test_a_version_taken_in_between_is_left_alone(tmp_path, monkeypatch):
    rename, raced = os.rename, []

    def race(source, target):
        if not raced:                  # another process is first to take this number
            raced.append(target)
            target.mkdir()
            (target / "saved_model.pb").write_bytes(b"theirs")
        rename(source, target)

    monkeypatch.setattr(os, "rename", race)
    _, _, path = saved(tmp_path, SMALLEST)
    assert path.name == "2" and (tmp_path / "model" / "1" / "saved_model.pb").read_bytes() == b"theirs"
