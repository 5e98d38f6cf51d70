"""Faults of files and images seen from outside: a link that was planted, and images whose channels no picture has."""

import numpy as np
import programs

SCORED = ("--metrics=active_units", "--geometry=", "--theory=", "--jobs=1")


def test_a_planted_link_is_not_followed_and_seven_channels_do_not_end_an_evaluation(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 7), np.uint8)
    np.savez(tmp_path / "mine.npz", images=images, factors=np.arange(40) % 3)
    (tmp_path / "runs/planted").mkdir(parents=True)
    other = tmp_path / "other"
    other.write_text("somebody else's")
    argv = ("--model=vae", "--network=linear", "--dataset=mine.npz", "--steps=2", "--batch_size=4", "--name=planted")
    training, _, error = programs.start("train.py", *argv, folder=tmp_path)
    # The program reads data and builds a model before it writes; the first release wrote through a link of this name.
    (tmp_path / f"runs/planted/.config.json.{training.pid}").symlink_to(other)
    training.join(300)
    assert training.exitcode == 0, error.read_text()
    assert other.read_text() == "somebody else's"
    code, _, error = programs.run("evaluate.py", *SCORED, folder=tmp_path)
    assert code == 0, error
    assert (tmp_path / "exported/planted/1/overview.png").exists()
