import os

import pytest

from vae_tf import files


def test_write_whole_leaves_the_old_file_when_writing_fails(tmp_path):
    path = tmp_path / "file"
    files.write_whole(path, lambda file: file.write(b"old"))

    def fail(file):
        file.write(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        files.write_whole(path, fail)
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]


def test_links_that_were_planted_are_not_followed(tmp_path, monkeypatch):
    victim, path = tmp_path / "victim", tmp_path / "metrics.json"
    victim.write_text("mine")
    planted = [tmp_path / f".metrics.json.{os.getpid()}", path]
    for link in planted:
        link.symlink_to(victim)
    files.write_whole(path, lambda file: file.write(b"new"))
    assert victim.read_text() == "mine" and path.read_text() == "new" and not path.is_symlink()
    monkeypatch.setattr("secrets.token_hex", lambda size: "guessed")
    (tmp_path / ".metrics.json.guessed").symlink_to(victim)
    with pytest.raises(OSError, match=r"metrics.json could not be written: File exists"):
        files.write_whole(path, lambda file: file.write(b"newer"))
    assert victim.read_text() == "mine" and path.read_text() == "new"


def test_a_folder_that_is_written_aside_appears_only_when_it_is_renamed(tmp_path):
    with files.write_folder_aside(tmp_path) as aside:
        (aside / "half").write_text("")
    assert not os.listdir(tmp_path)
    with files.write_folder_aside(tmp_path) as aside:
        (aside / "whole").write_text("")
        aside.rename(tmp_path / "1")
    assert os.listdir(tmp_path) == ["1"]
    files.remove_folder(tmp_path / "1")
    files.remove_folder(tmp_path / "1")         # another process was first
    assert not os.listdir(tmp_path)
