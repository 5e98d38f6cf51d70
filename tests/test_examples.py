"""The examples run as they stand, shortened."""

import importlib.util
import pathlib
import re

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


def test_a_vae_in_one_file(capsys):
    path = EXAMPLES / "vae_in_one_file.py"
    assert len(path.read_text().splitlines()) < 80
    spec = importlib.util.spec_from_file_location(path.stem, path)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.main(steps=3)
    told = capsys.readouterr().out
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", told)]
    assert len(numbers) == 4 and told.startswith("step     3: reconstruction")
    reconstruction, kl, mig, distance = numbers
    assert 500 < reconstruction < 4096 and 0 < kl < 100        # log 2 per pixel is 2839 nats
    assert 0 <= mig <= 1 and distance > 0
