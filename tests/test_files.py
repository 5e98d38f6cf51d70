import os
import subprocess
import sys
import tracemalloc
from unittest import mock

import pytest

from vae_tf import files
from vae_tf.errors import InputError


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
    (tmp_path / ".writing.guessed").symlink_to(victim)
    with pytest.raises(OSError, match=r"metrics.json could not be written: File exists"):
        files.write_whole(path, lambda file: file.write(b"newer"))
    assert victim.read_text() == "mine" and path.read_text() == "new"


def test_a_file_may_have_the_longest_name_that_there_is(tmp_path):
    files.write_text(tmp_path / ("n" * 255), "text")
    assert os.listdir(tmp_path) == ["n" * 255]


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


def test_only_files_are_opened_and_only_of_the_size_that_is_expected(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "large").write_bytes(bytes(11))
    for name, message in (("pipe", "Not a regular file"), ("loop", "Too many levels"), (".", "Is a directory"),
                          ("large", "its 11 bytes are more than the 10"), ("none", "No such file")):
        with pytest.raises(OSError, match=message):
            files.read_bytes(tmp_path / name, 10)
    with pytest.raises(OSError, match="Not a regular file"):
        files.read_bytes("/dev/zero", 10)
    assert files.read_bytes(tmp_path / "large", 11) == bytes(11)


def test_a_small_file_takes_little_memory_however_large_it_might_be(tmp_path):
    """A SavedModel may have 2 GiB, which a limit on addresses does not leave: a file of 1 MB could not be read."""
    (tmp_path / "x").write_bytes(b"x" * 1_000)
    tracemalloc.start()
    assert files.read_bytes(tmp_path / "x", 2**31) == b"x" * 1_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_a_lock_is_of_one_process_and_ends_with_it(tmp_path):
    path = tmp_path / ".lock"
    holding = ("import pathlib, sys, time; from vae_tf import files\n"
               "with files.hold_lock(pathlib.Path(sys.argv[1])) as held:\n    print(held, flush=True); time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", holding, path], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout.readline() == "True\n"
            with files.hold_lock(path, wait=False) as held:
                assert held is False
            assert path.exists()
        finally:
            other.kill()
    with files.hold_lock(path, wait=False) as held:
        assert held is True
    assert not list(tmp_path.iterdir())


def test_a_lock_that_cannot_be_told_is_none_and_no_link_is_followed(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "folder").mkdir()
    for name in ("link", "folder", "none/lock", "victim/lock"):
        with files.hold_lock(tmp_path / name) as held:
            assert held is None
    assert victim.read_text() == "mine" and len(list(tmp_path.iterdir())) == 3


def test_what_killed_writers_left_goes_and_what_is_being_written_stays(tmp_path):
    left, other = tmp_path / ".writing.0123456789abcdef", tmp_path / ".mine.0123456789abcdef"
    for path in (left, other, tmp_path / ".writing.0123456789abcdef.lock", tmp_path / ".writing.1123456789abcdef.lock"):
        path.write_text("half")
    (tmp_path / ".writing.2123456789abcdef").symlink_to(other)

    def write(file):
        files.write_text(tmp_path / "inner", "done meanwhile")
        file.write(b"whole")

    files.write_whole(tmp_path / "outer", write)
    assert sorted(os.listdir(tmp_path)) == [".mine.0123456789abcdef", "inner", "outer"]
    assert (tmp_path / "outer").read_text() == "whole" and other.read_text() == "half"


def test_a_folder_that_may_not_be_deleted_is_left_as_it_was(tmp_path):
    path = tmp_path / "1"
    (path / "variables").mkdir(parents=True)
    (path / "variables" / "data").write_text("")
    tmp_path.chmod(0o777)
    (path / "variables").chmod(0o555)
    root = os.geteuid() == 0
    for folder in (tmp_path, *tmp_path.parents):
        if folder.name.startswith(("pytest-", "popen-")):
            folder.chmod(0o755)
    try:
        if root:
            os.seteuid(65534)
        with pytest.raises(PermissionError):
            files.remove_folder(path)
    finally:
        if root:
            os.seteuid(0)
    assert [str(file.relative_to(tmp_path)) for file in sorted(tmp_path.rglob("*"))] == [
        "1", "1/variables", "1/variables/data"]


@pytest.mark.parametrize(("name", "message"), [("file/b", "Not a directory"), ("loop", "Too many levels"),
                                               ("nothing", "No such file"), ("a" * 300, "File name too long")])
def test_a_folder_that_cannot_be_made_is_refused(tmp_path, name, message):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "nothing").symlink_to(tmp_path / "gone")
    with pytest.raises(InputError, match=f"expected a folder that can be written, got .*{message}"):
        files.check_writable(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["file", "loop", "nothing"]


def test_check_writable_leaves_nothing_behind(tmp_path):
    files.check_writable(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="expected a folder that can be written"):
        files.check_writable(tmp_path / "file" / "b")


def test_what_may_be_in_use_is_taken_to_be(tmp_path, monkeypatch):
    """The lock of another user, or on a file system without locks, cannot be told."""
    with files.keep_in_use(tmp_path):
        assert files.is_in_use(tmp_path)
    assert not os.listdir(tmp_path)
    monkeypatch.setattr("filelock.FileLock.acquire", mock.Mock(side_effect=NotImplementedError))
    assert not files.is_in_use(tmp_path)
    with files.keep_in_use(tmp_path):
        (tmp_path / f"{files.IN_USE}0{files.LOCK}").touch()
        assert files.is_in_use(tmp_path)
