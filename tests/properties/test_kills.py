"""Training, checkpoints and exports that are killed at any moment, or whose disk fills up: nothing older is lost.

`--hypothesis-profile=long` has 100 kills and 20 full disks, and takes minutes. The suite kills and fills elsewhere, at
fewer moments: in test_survival, in test_export_versions and in test_outputs.
"""

import os
import signal
import subprocess
import time

import numpy as np
import pytest
from hypothesis import settings
from outcomes import check_outcome
from programs import run, start

from vae_tf import export, runs
from vae_tf.export.card import read_card
from vae_tf.export.checksums import check_files

KILLS, FULL = settings().max_examples // 20, settings().max_examples // 100
pytestmark = pytest.mark.skipif(not FULL, reason="only with --hypothesis-profile=long")
TRAIN = ("--name=m", "--model=vae", "--dataset=mine.npz", "--network=linear", "--latents=2", "--batch_size=4",
         "--log_every=1", "--checkpoint_every=1", "--polarised_every=0")


@pytest.fixture
def folder(tmp_path):
    np.savez(tmp_path / "mine.npz", data=np.random.default_rng(0).standard_normal((40, 3)))
    return tmp_path


def check_whole(folder):
    """(the step that the run would go on from, the versions there), after checking that all of it is whole."""
    versions = export.list_versions(folder / "exported/m")
    for version in versions:
        path = folder / "exported/m" / str(version)
        check_files(path, read_card(path, export.SCORED))
    if not (folder / "runs/m").exists():
        return 0, set(versions)
    step, states, (history,) = runs.restore([folder / "runs/m"])
    assert step == 0 or (states and history[-1]["step"] == step)
    return step, set(versions)


def hidden(folder):
    return [path for path in folder.rglob(".*") if path.name not in (".stdout", ".stderr")]


def test_a_program_that_is_killed_at_any_moment_loses_nothing_and_goes_on(folder):
    rng, steps, kept = np.random.default_rng(0), 6, (0, set())
    started = time.monotonic()
    assert run("train.py", *TRAIN, f"--steps={steps}", folder=folder)[0] == 0
    lasts, killed = time.monotonic() - started, 0
    while killed < KILLS:
        kept = check_whole(folder)
        steps += 4
        process, _, _ = start("train.py", *TRAIN, f"--steps={steps}", folder=folder)
        process.join(rng.uniform(0, 1.1 * lasts))
        killed += process.is_alive()
        process.kill()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL), (folder / ".stderr").read_text()[-2_000:]
        step, versions = check_whole(folder)
        assert step >= kept[0] and versions >= kept[1]
    code, _, error = run("train.py", *TRAIN, f"--steps={steps + 4}", folder=folder)
    assert code == 0, error
    assert check_whole(folder)[0] == steps + 4 and not hidden(folder)


@pytest.fixture
def disk(folder):
    """A function that mounts a small disk at full/, if this process may; None if not."""
    (folder / "full").mkdir()

    def mount(size):
        return os.geteuid() == 0 and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder / "full"], capture_output=True
        ).returncode == 0

    yield mount
    while subprocess.run(["umount", folder / "full"], capture_output=True).returncode == 0:
        pass


def test_a_disk_that_fills_up_at_any_byte_is_one_line_and_nothing_older_is_lost(folder, disk):
    rng = np.random.default_rng(1)
    roots = ("--run_root=full/runs", "--export_root=full/exported")
    for _ in range(FULL):
        size = int(rng.integers(1, 100)) * 4096
        mounted = disk(size)
        largest = None if mounted else size         # of a file, where no disk can be mounted
        code, out, error = run("train.py", *TRAIN, *roots, "--steps=4", folder=folder, largest=largest)
        check_outcome(code, out, error, names=("full/",))
        before = check_whole(folder / "full")
        code, out, error = run("train.py", *TRAIN, *roots, "--steps=6", folder=folder, largest=largest)
        check_outcome(code, out, error, names=("full/",))
        step, versions = check_whole(folder / "full")
        assert step >= before[0] and versions >= before[1] and not hidden(folder / "full")
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=64m", folder / "full"], check=True)
        code, _, error = run("train.py", *TRAIN, *roots, "--steps=8", folder=folder)
        assert code == 0, error
        assert check_whole(folder / "full")[0] == 8
        subprocess.run(["umount", folder / "full"] if mounted else ["rm", "-r", folder / "full"], check=True)
        (folder / "full").mkdir(exist_ok=True)
