"""What flags choose from is the same with and without TensorFlow."""

from vae_tf.cli import choices


def test_the_file_holds_what_the_registries_declare(tmp_path):
    choices.write(tmp_path / "choices.json")
    assert (tmp_path / "choices.json").read_text() == choices.PATH.read_text(), "run python -m vae_tf.cli.choices"
    assert choices.read() == choices.gather()
