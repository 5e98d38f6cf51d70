"""python -m vae_tf.data: what it lists, checks, draws and compares, in this process."""

import re

import numpy as np
import pytest
from PIL import Image

from vae_tf import data, extensions
from vae_tf.data import __main__ as program
from vae_tf.data import archives, catalogue, drawing, findings, listing, verifying
from vae_tf.errors import InputError


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """A function that runs the program in an empty folder: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def run(*argv):
        monkeypatch.setattr("sys.argv", ["data", *map(str, argv)])
        code = 0
        try:
            program.main()
        except SystemExit as end:
            code = end.code
        return code, *capsys.readouterr()

    yield run
    extensions.load.cache_clear()       # the program has imported the extensions of this process, which are none


def grid(counts, **more):
    """A dataset of vectors with some factors: every combination, each so often as `counts` says."""
    sizes = counts.shape
    values = np.repeat(np.indices(sizes).reshape(len(sizes), -1).T, counts.ravel(), axis=0)
    factors = [data.Factor(f"f{k}", size, "ordinal") for k, size in enumerate(sizes)]
    return data.from_arrays("mine", np.random.default_rng(0).random((len(values), 3), np.float32), values, factors,
                            **more)


def test_a_tilde_is_the_home_folder_for_the_list_and_for_what_is_loaded(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "mnist" / "3.0.1").mkdir(parents=True)
    (tmp_path / "mnist" / "3.0.1" / "dataset_info.json").write_text("{}")
    assert listing.find_prepared("mnist", "~") == tmp_path / "mnist" / "3.0.1"
    assert catalogue.find_builder("fashion_mnist", "~/there").data_path.is_relative_to(tmp_path / "there")
    assert listing.find_prepared("mnist", "~nosuch/there") is None
    for name in ("10.0.0", "9.0.0", "9.0.0.incomplete"):
        (tmp_path / "mnist" / name).mkdir()
        (tmp_path / "mnist" / name / "dataset_info.json").write_text("{}")
    assert listing.find_prepared("mnist", "~").name == "10.0.0"


def test_data_that_cannot_be_loaded_hide_no_others(monkeypatch):
    def load(data_dir, seed):
        raise InputError("dataset: no file gone.npz")

    monkeypatch.setitem(data.DATASETS, "gone", data.DATASETS["circles"]._replace(load=load))
    lines = listing.list_datasets()
    assert "cannot be loaded: dataset: no file gone.npz" in lines[-1] and len(lines) == len(data.DATASETS) + 1


def test_the_list_has_every_dataset_and_says_where_it_is(run, tmp_path):
    code, out, error = run("--data_dir", tmp_path)
    lines = dict(line.split(maxsplit=1) for line in out.splitlines()[1:])
    assert code == 0 and not error and list(lines) == list(data.DATASETS)
    assert "737,280" in lines["dsprites"] and "64x64x3" in lines["scenes"] and "made in process" in lines["scenes"]
    assert lines["mnist"].endswith("not prepared: vae-tf data prepare mnist")
    (tmp_path / "mnist" / "3.0.1").mkdir(parents=True)
    (tmp_path / "mnist" / "3.0.1" / "dataset_info.json").write_text("{}")
    assert listing.find_prepared("mnist", str(tmp_path)) == tmp_path / "mnist" / "3.0.1"
    assert f"prepared at {tmp_path}" in next(line for line in listing.list_datasets(str(tmp_path)) if "mnist" in line)


@pytest.mark.parametrize(("argv", "said"), [
    (["frob"], "invalid choice: 'frob'"), (["show"], "show: expected one of dsprites, .* got none"),
    (["check", "nope"], "dataset: expected one of dsprites, .*got 'nope'"), (["list", "dsprites"], "list: expected"),
    (["check", "dsprites", "x"], "check: expected one name; got 'x' after it"),
    (["prepare", "x.npz"], "prepare: expected one of"), (["verify", "dsprites"], "verify: expected a name and"),
    (["check", "torn.npz"], "torn.npz"), (["show", "circles", "no/such\0/x.png"], "null"),
    (["show", "circles", "torn.npz"], "file: expected the path of a .png file to write; got torn.npz"),
    (["show", "circles", "mine.png"], "file: expected a new file, or a page that was drawn before; got mine.png"),
    (["verify", "circles", "torn.npz"], "verify: torn.npz cannot be read"), (["show", "circles", "/"], "/"),
    (["--data_dirr=3"], "unrecognized arguments")])
def test_what_cannot_be_done_is_one_line(run, tmp_path, argv, said):
    before = {name: bytes(name, "ascii") for name in ("torn.npz", "mine.png")}
    for name, content in before.items():
        (tmp_path / name).write_bytes(content)
    code, out, error = run(*argv)
    assert code == 2 and not out and error.count("\n") == 1 and re.search(said, error), error
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_findings_of_a_complete_and_of_a_broken_grid():
    whole = findings.describe_findings(grid(np.full((2, 3), 2)))
    assert "Grid: complete, each of the 6 combinations of values occurs 2 times on average" in whole
    assert "  f1: ordinal, 3 of 3 values, each in 4 examples" in whole and whole[-1] == "No surprises."
    assert "Grid: complete, each of the 2 combinations of values occurs 7,000 times on average" in (
        findings.describe_findings(grid(np.full((1, 2), 7_000))))
    assert "Grid: none, because no factor varies" in findings.describe_findings(grid(np.full((1, 1), 3)))
    assert any(line.endswith("occurs once; --split=grid holds none out, as is usual for such data")
               for line in findings.describe_findings(grid(np.full((2, 3), 1))))
    lines = "\n".join(findings.describe_findings(grid(np.array([[9, 1, 0], [0, 1, 8], [0, 0, 1]]))))
    assert "Grid: 5 of 9 combinations of values occur (55.56%)" in lines
    assert "factors f0 and f1 are correlated (+0.89)" in lines        # 0.5 / sqrt(0.3475 * 0.9)
    assert "1 of the 3 values of factor f0 occur in a single example; declare the factor continuous if it is" in lines
    width = data.Factor("width", 12, "categorical")
    texts = data.from_arrays("texts", np.eye(12, 4), np.arange(12)[:, np.newaxis], [width])
    assert any(line.endswith("occur in a single example; if its cells are numbers, write them as 0.5, without units")
               for line in findings.describe_findings(texts))


def test_findings_of_more_combinations_than_a_number_can_say():
    values = np.random.default_rng(0).integers(0, 2, (20, 15_000))
    factors = [data.Factor(f"f{k}", 2, "ordinal") for k in range(15_000)]
    lines = findings.describe_findings(data.from_arrays("mine", np.eye(20, dtype=np.float32), values, factors))
    assert any(line.startswith("Grid: 20 of some 10^4515 combinations of values occur (0.00%)") for line in lines)


def test_findings_of_examples(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 1), np.uint8).repeat(3, -1)
    images[3], images[5] = images[1], 7
    constant = np.zeros((6, 1), np.int64)
    lines = findings.describe_findings(data.from_arrays("mine", images, constant, [data.Factor("c", 1, "ordinal")]))
    surprises = "\n".join(lines[lines.index("Surprises:"):])
    for said in ("fewer than 8 examples", "1 of the 6 examples that were looked at are copies of others: example 3 is "
                 "that of 1", "1 images have a single value in all pixels, such as example 5", "factor c never varies",
                 "the three colours of every image are equal"):
        assert said in surprises
    plain = findings.describe_findings(data.from_arrays("mine", np.eye(9, dtype=np.float32)))
    assert any(line.startswith("Factors: none") for line in plain) and plain[-1] == "No surprises."


def test_a_file_of_ones_own_is_checked_with_what_its_loading_warns_of(run, tmp_path):
    np.savez(tmp_path / "mine.npz", data=np.random.default_rng(0).random((20, 2)),
             factors=np.stack([np.where(np.arange(20) == 3, np.nan, np.arange(20.0) % 2), np.arange(20) // 2 % 3], -1))
    code, out, error = run("check", "mine.npz")
    assert code == 0 and not error and "mine.npz: 20 float32 vectors of shape 2" in out
    assert "factor v1 has no value (NaN) in row 3" in out
    assert "v1: ordinal, 2 of 2 values, each in 9 to 10 examples; missing in 1 examples" in out
    assert "Grid: complete, each of the 6 combinations" in out and "u of an iVAE: 1 number, of v2, scaled" in out
    assert "Surprises:" in out.splitlines() and "No surprises." not in out
    code, out, error = run("show", "mine.npz")
    assert (code, out) == (0, "Written: mine.png\n") and error.count("\n") == error.count(": warning: ") == 2
    assert ": warning: dataset: mine.npz: factor v1 has no value (NaN) in row 3" in error


def test_the_range_of_a_factor_keeps_the_others():
    scenes = data.load("scenes")
    for factor, size in ((3, 8), (5, 10)):
        values = scenes.factors_at(drawing.choose_range(scenes, factor))
        assert len(np.unique(np.delete(values, factor, 1), axis=0)) == 1
        assert len(values) == size and (np.diff(values[:, factor]) > 0).all()
        assert values[0, factor] == 0 and values[-1, factor] == scenes.factors[factor].size - 1
    free = data.from_arrays("mine", np.eye(30, dtype=np.float32), np.random.default_rng(0).random((30, 2)),
                            [data.Factor(name, None, "continuous") for name in "ab"])
    values = free.factors_at(drawing.choose_range(free, 1))[:, 1]       # no two examples agree in a
    assert len(values) == 10 and (np.diff(values) > 0).all()
    assert values[-1] == free.factors_at(np.arange(30))[:, 1].max()


def test_the_range_of_a_factor_is_whole_in_a_grid_of_any_order():
    grid = np.random.default_rng(0).permutation(np.indices((10, 10, 10, 8, 4)).reshape(5, -1).T)
    factors = [data.Factor(name, size, "ordinal") for name, size in zip("abcde", (10, 10, 10, 8, 4), strict=True)]
    mixed = data.from_arrays("mixed", np.zeros((len(grid), 1), np.float32), grid, factors, complete_grid=True)
    for factor, size in ((0, 10), (4, 4)):
        values = grid[drawing.choose_range(mixed, factor)]
        assert len(np.unique(np.delete(values, factor, 1), axis=0)) == 1
        assert values[:, factor].tolist() == list(range(size))
    half, few = mixed.take(np.arange(0, len(grid), 2)), mixed.take(np.arange(0, len(grid), 90))        # no grids
    values = half.factors_at(drawing.choose_range(half, 0))
    assert len(np.unique(values[:, 1:], axis=0)) == 1 and len(values) >= 5 and (np.diff(values[:, 0]) > 0).all()
    values = few.factors_at(drawing.choose_range(few, 0))[:, 0]         # none has enough others beside it
    assert values.tolist() == list(range(10))


def test_pages_are_drawn(run, tmp_path):
    for _ in range(2):      # a page is drawn again
        assert run("show", "circles") == (0, "Written: circles.png\n", "")
    np.savez(tmp_path / "mine.npz", images=np.random.default_rng(0).integers(0, 256, (12, 8, 8, 3), np.uint8))
    assert run("show", "mine.npz", "page.png")[0] == 0
    for name in ("circles", "page"):
        with Image.open(tmp_path / f"{name}.png") as page:
            assert min(page.size) > 100 and len(page.convert("RGB").getcolors(1_000_000)) > 50


def test_a_page_is_no_file_of_the_folder_that_it_shows(run, tmp_path, monkeypatch):
    """It would be one more image of the folder."""
    (tmp_path / "mine").mkdir()
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "mine" / "1.png")
    for argv in (("mine", "mine/page.png"), ("mine", "mine/in/page.png")):
        code, out, error = run("show", *argv)
        assert code == 2 and not out and "expected the path of a page outside of mine" in error
    monkeypatch.chdir(tmp_path / "mine")
    assert "outside of ., of whose images it would be one; got mine.png" in run("show", ".")[2]
    assert run("show", ".", "../page.png")[0] == 0
    assert sorted(path.name for path in tmp_path.rglob("*.png")) == ["1.png", "page.png"]


def test_images_are_compared_with_an_archive(run, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "TOGETHER", 7)           # 20 images are two parts and a rest
    sprites = data.load("dsprites").take(np.arange(0, 737_280, 40_000))
    images = sprites.images_at(np.arange(len(sprites)))
    path = tmp_path / "archive.npz"
    np.savez_compressed(path, imgs=images[..., 0] // 255, latents_classes=np.zeros(3))
    assert verifying.compare_with_archive(sprites, path) == (len(sprites), 0, None)
    images[[9, 15], 3, 4] ^= 255
    np.savez(path, images=images)
    assert verifying.compare_with_archive(sprites, path) == (len(sprites), 2, 9)
    images[images == 255] = 254     # 1 stands for 255 in masks alone
    images[0, 0, 0], images[0].flat[images[0].argmax()] = 255, 1
    np.savez(path, images=images)
    assert verifying.compare_with_archive(sprites, path).differing == len(sprites)
    np.savez(path, images=np.asfortranarray(images))
    with pytest.raises(InputError, match=r"stored by columns; store np\.ascontiguousarray"):
        verifying.compare_with_archive(sprites, path)
    np.savez(path, images=images[1:])
    with pytest.raises(InputError, match=r"expected uint8 images of shape \(19, 64, 64, 1\)"):
        verifying.compare_with_archive(sprites, path)
    np.savez(path, data=images)
    with pytest.raises(InputError, match=r"expected an array imgs or images in .*; got data.npy"):
        verifying.compare_with_archive(sprites, path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match="cannot be read"):
        verifying.compare_with_archive(sprites, path)
