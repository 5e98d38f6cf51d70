"""Several processes that train one program: the workers of a cluster, here on one machine."""

import contextlib
import json
import os
import signal
import socket
import time

import numpy as np
import programs
import pytest
import rounding
import tensorflow as tf

from vae_tf.runs import checkpoints


def start_workers(tmp_path, *flags, more=((), ())):
    """What `programs.start` gives for some workers, each in a folder of its own and with more flags of its own."""
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in more]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        cluster = {"worker": [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]}
    started = []
    for i, own in enumerate(more):
        folder = tmp_path / f"worker{i}"
        folder.mkdir()
        started.append(programs.start("train.py", *flags, *own, folder=folder, environment={
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}})}))
    return started


def join(started):
    """What each program printed, once all have ended."""
    for process, _, _ in started:
        process.join(300)
    return [out.read_text() + error.read_text() for _, out, error in started]


def test_two_workers_give_the_result_of_one(tmp_path):
    flags = ["--model=beta_tcvae", "--dataset=synthetic_linear", "--network=mlp_synthetic", f"--steps={rounding.STEPS}",
             "--learning_rate=1e-3", f"--run_root={tmp_path}/runs", f"--export_root={tmp_path}/exported"]
    (tmp_path / "alone").mkdir()
    started = [programs.start("train.py", "--name=alone", *flags, folder=tmp_path / "alone"),
               *start_workers(tmp_path, "--name=shared", *flags)]
    said = join(started)
    assert [process.exitcode for process, _, _ in started] == [0, 0, 0], said
    assert "exported/shared/1" in said[1] and "exported" not in said[2]       # the first worker alone writes
    assert "crashed" not in said[1]         # TensorFlow's word for a worker that leaves while another goes on
    one, two = (np.load(tmp_path / "runs" / name / "checkpoints" / "000000010.npz") for name in ("alone", "shared"))
    assert one.files == two.files
    for name in one.files:
        if one[name].dtype.kind == "U":                 # which run the checkpoint is of, and how fast it was
            assert name == checkpoints.HISTORY or one[name] == two[name]
            continue
        # Ten steps of 1e-3; another noise or batch would show at that size.
        np.testing.assert_allclose(one[name], two[name], rtol=1e-4, atol=1e-5, err_msg=name)
    alone, shared = (tf.saved_model.load(f"{tmp_path}/exported/{name}/1") for name in ("alone", "shared"))
    x = tf.constant(np.random.default_rng(0).standard_normal((4, 3)), tf.float32)
    np.testing.assert_allclose(alone.encode(x)["mean"], shared.encode(x)["mean"], atol=1e-4)


SMALL = ("--model=vae", "--dataset=synthetic_linear", "--name=small", "--export_root=exported", "--checkpoint_every=2")


def test_workers_that_differ_are_refused_before_the_first_step(tmp_path):
    # A worker with other flags would wait for ever or train something else; one on other files begins at another step.
    assert programs.run("train.py", *SMALL, f"--run_root={tmp_path}/runs", "--steps=4", folder=tmp_path)[0] == 0
    started = start_workers(tmp_path, *SMALL, "--steps=8",
                            more=([f"--run_root={tmp_path}/runs"], ["--run_root=other", "--log_every=3"]))
    for said in join(started):
        assert "strategy: expected workers with the same flags and checkpoint; got others in some" in said, said
        assert "Traceback" not in said
    assert [process.exitcode for process, _, _ in started] == [2, 2]
    assert sorted(path.name for path in (tmp_path / "runs/small/checkpoints").iterdir()) == ["000000002.npz",
                                                                                              "000000004.npz"]


@pytest.mark.parametrize("number, other", [
    (signal.SIGTERM, "Stopped, the checkpoint is"),
    (signal.SIGKILL, "another worker has ended or cannot be reached")])
def test_a_worker_that_ends_is_noticed_by_the_other(tmp_path, number, other):
    started = start_workers(tmp_path, *SMALL, f"--run_root={tmp_path}/runs", "--steps=100000", "--checkpoint_every=50")
    until = time.monotonic() + 120
    while not list(tmp_path.glob("runs/small/checkpoints/*.npz")) and time.monotonic() < until:
        time.sleep(0.2)
    os.kill(started[1][0].pid, number)
    said = join(started)
    assert other in said[0] and "Traceback" not in said[0], said[0]
    assert programs.was_ended_by(started[1][0], number), started[1][0].exitcode
    # The other one's training is not complete.
    assert started[0][0].exitcode != 0 and not programs.was_ended_by(started[0][0], number)


def test_a_signal_before_the_first_step_ends_a_worker(tmp_path):
    # MultiWorkerMirroredStrategy takes SIGTERM for itself, in native code that Python does not see.
    (process, out, error), = start_workers(tmp_path, *SMALL, "--steps=100000", more=[[]])
    until = time.monotonic() + 120
    while not (out.exists() and "steps of 64" in out.read_text()) and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGTERM)
    process.join(60)
    assert programs.was_ended_by(process, signal.SIGTERM), (process.exitcode, out.read_text(), error.read_text())
    assert "stopped by SIGTERM" in error.read_text() and not list(tmp_path.rglob("*.npz"))
