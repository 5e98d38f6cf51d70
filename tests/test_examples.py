"""The examples run as they stand, shortened."""

import importlib.util
import json
import pathlib
import re
import runpy

import numpy as np
import pytest

from vae_tf import export

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


@pytest.mark.parametrize("name", ["ae", "ivae"])
def test_keras_loops_train_and_load(name, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["keras_loops.py", name, "1"])
    found = runpy.run_path(str(EXAMPLES / "keras_loops.py"))
    assert type(found["best"]).key == name and (tmp_path / "best.keras").exists()
    x = found["validation"].images_at(found["rows"])
    decoded = capsys.readouterr().out.partition("reconstructed")[2]
    numbers = np.array([float(number) for number in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", decoded)]).reshape(3, 3)
    np.testing.assert_allclose(numbers, found["best"].predict(found["given"], verbose=0), atol=1e-5)
    assert np.mean((numbers - x) ** 2) < np.mean((x - x.mean(0)) ** 2)      # better than a constant


def test_own_networks_and_an_own_objective_are_served(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    example = runpy.run_path(str(EXAMPLES / "own_networks.py"))
    path = example["main"](epochs=1, folder="exported/own", examples=2_000)
    card = export.read_card(path, export.SCORED)
    assert (card["model"], card["recipe"]["network"], card["data"]["name"], card["prior"]) == (
        "CentredVAE", "own networks", "synthetic_nonlinear", "standard")
    codes = capsys.readouterr().out.partition("codes")[2].partition("next")[0]
    assert len(re.findall(r"-?\d+\.\d+(?:e-?\d+)?", codes)) == 6


def test_the_notebook_is_the_tutorial_and_runs_from_top_to_bottom(capsys):
    """Shortened: `python tests/documents.py docs/tutorial.md` runs all steps, and compares the numbers."""
    writer = runpy.run_path(str(EXAMPLES.parent / "docs/write_notebook.py"))
    text = (EXAMPLES / "tutorial.ipynb").read_text()
    assert text == writer["make_notebook"](writer["PAGE"].read_text()), "run python docs/write_notebook.py"
    cells = ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    drawn = []
    names = {"display": drawn.append}
    for code in cells:
        code = re.sub(r"^ *%.*$", "", code, flags=re.MULTILINE)         # Jupyter's own
        code = code.replace('is None:\n', "is None: pass\n").replace("range(5)", "range(2)").replace("4_000", "20")
        exec(compile(code, "cell", "exec"), names)
    printed = capsys.readouterr().out
    assert len(re.findall(r"\|cosine\| of five seeds: [01]\.\d\d [01]\.\d\d\n", printed)) == 3
    objective = re.findall(r"turned by .*VAE (\S+) nats, full covariance (\S+) nats", printed)
    assert len(objective) == 4 and len({full for _, full in objective}) == 1        # the control does not mind
    columns, angles = drawn
    assert [axis.get_title("left").split(":")[0] for axis in columns.axes] == ["VAE", "full covariance", "autoencoder"]
    assert [line.get_label() for line in angles.axes[0].lines] == ["VAE", "full covariance"]
    vae, full = (line.get_ydata() for line in angles.axes[0].lines)
    np.testing.assert_allclose(full, full[0], rtol=1e-9)
    assert np.ptp(vae) > 1e-3 and vae[0] == pytest.approx(vae[30], rel=1e-9)       # turned by 90 degrees: only swapped
