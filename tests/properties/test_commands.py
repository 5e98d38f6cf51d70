"""Hostile arguments of the commands beside train and evaluate: each is one line, and no file is written or replaced."""

import os

import pytest
from outcomes import check_outcome, read_corpus
from programs import run

from vae_tf import files


@pytest.fixture
def folder(tmp_path):
    """A folder with what the corpus names: a pipe, links, a folder, bytes, and brackets in brackets."""
    for name in ("PIPE", "PIPE.toml"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "FOLDER").mkdir()
    for name, target in (("LINK", "BYTES.toml"), ("LINK.npz", "BYTES.toml"), ("LOOP", "LOOP")):
        (tmp_path / name).symlink_to(target)
    (tmp_path / "BYTES.toml").write_bytes(b"\x89\xff\0")
    (tmp_path / "DEEP.toml").write_text("a=" + "[" * 100_000)
    return tmp_path


@pytest.mark.parametrize("case", read_corpus("commands"), ids=lambda case: " ".join(case["argv"])[:40])
def test_the_corpus_is_refused_by_name(folder, case):
    before = {path: os.lstat(path).st_mode for path in folder.rglob("*")}
    code, out, error = run("vae-tf", *case["argv"], folder=folder, environment=case.get("environment"))
    assert code == 2 and not out
    check_outcome(code, out, error, names=case["names"])
    assert {path: os.lstat(path).st_mode for path in folder.rglob("*")} == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a device")
def test_no_file_replaces_a_device(tmp_path):
    path = tmp_path / "null"
    try:
        os.mknod(path, 0o020666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("no devices may be made here")
    with pytest.raises(OSError, match="it is a device, which no file may replace"):
        files.write_bytes(path, b"content")
    assert files.is_device(os.lstat(path).st_mode) and [*tmp_path.iterdir()] == [path]
