"""Folders that Hugging Face's datasets wrote, and tables in Parquet, as data."""

import sys

import numpy as np
import pytest
from commands import run_train
from PIL import Image

from vae_tf import data, memory
from vae_tf.data import __main__ as program
from vae_tf.data import tables
from vae_tf.errors import InputError

IMAGES = np.random.default_rng(0).integers(0, 256, (20, 4, 6, 3), np.uint8)


def make_columns(rows):
    return {"picture": [Image.fromarray(IMAGES[k]) for k in rows], "kind": [k % 3 for k in rows],
            "size": [k % 2 for k in rows], "turn": [k / 7 for k in rows], "colour": ["red" if k % 2 else "blue"
                                                                                     for k in rows],
            "caption": [f"example {k}" for k in rows], "u_day": [float(k % 4) for k in rows], "box": [[k, k] for k in
                                                                                                      rows]}


@pytest.fixture
def saved(tmp_path):
    """A folder of two splits that save_to_disk has written."""
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({
        "picture": datasets.Image(), "kind": datasets.ClassLabel(names=["a", "b", "c"]),
        "size": datasets.Value("int32"), "turn": datasets.Value("float32"), "colour": datasets.Value("string"),
        "caption": datasets.Value("string"), "u_day": datasets.Value("float64"),
        "box": datasets.List(datasets.Value("int64"))})
    datasets.DatasetDict({name: datasets.Dataset.from_dict(make_columns(rows), features=features) for name, rows in
                          (("test", range(12, 20)), ("train", range(12)))}).save_to_disk(str(tmp_path / "mine"))
    return tmp_path / "mine"


@pytest.mark.filterwarnings("ignore:dataset. mine. column")         # its training warns once more
def test_a_saved_folder_is_read_trained_on(saved, monkeypatch):
    with pytest.warns(UserWarning) as said:
        ds = data.load(str(saved))
    assert sorted(str(warning.message).partition(": column ")[2] for warning in said) == [
        "box is left out: it holds neither numbers nor texts", "caption is left out: its texts differ in every example"]
    i = np.arange(20)
    np.testing.assert_array_equal(ds.images_at(i), IMAGES)
    assert ds.parts == {"train": range(12), "test": range(12, 20)} and ds.u_size == 1
    assert ds.factors == (data.Factor("kind", 3, "categorical"), data.Factor("size", 2, "ordinal"),
                          data.Factor("turn", None, "continuous"), data.Factor("colour", 2, "categorical"))
    np.testing.assert_allclose(ds.factors_at(i), np.stack([i % 3, i % 2, i / 7, i % 2], -1), rtol=1e-6)
    np.testing.assert_array_equal(ds.u_at(i)[:, 0], i % 4)
    monkeypatch.chdir(saved.parent)
    with monkeypatch.context() as patch:
        patch.setattr("sys.argv", ["data", "pack", "mine", "mine.npz"])
        program.main()
    packed = data.load("mine.npz")
    np.testing.assert_array_equal(packed.images_at(i), IMAGES)
    assert packed.factors == ds.factors and not packed.parts
    np.testing.assert_array_equal(packed.u_at(i), ds.u_at(i))
    run_train("--dataset=mine", "--model=vae", "--network=linear", "--latents=2", "--batch_size=4", "--steps=2",
              "--polarised_every=0")
    assert (saved.parent / "exported/vae_mine/1/saved_model.pb").exists()


@pytest.mark.parametrize("form", [{"type": "pandas"}, {"type": "arrow"}, {"type": "numpy", "columns": ["size"]}],
                         ids=str)
def test_the_format_in_which_a_folder_gave_its_rows_does_not_count(saved, form):
    datasets = pytest.importorskip("datasets")
    split = datasets.load_from_disk(str(saved))["train"].select_columns(["picture", "size", "colour"])
    split.with_format(**form).save_to_disk(str(saved.parent / "formatted"))
    ds = data.load(str(saved.parent / "formatted"))
    np.testing.assert_array_equal(ds.images_at(np.arange(12)), IMAGES[:12])
    assert ds.factors == (data.Factor("size", 2, "ordinal"), data.Factor("colour", 2, "categorical"))


def test_a_damaged_or_empty_folder_is_one_line(saved):
    datasets = pytest.importorskip("datasets")
    shard = next((saved / "test").glob("*.arrow"))
    content = shard.read_bytes()
    for spoilt in (content[:len(content) // 2], b"", b"words"):
        shard.write_bytes(spoilt)
        with pytest.raises(InputError, match=r"mine.* is not a readable") as error:
            data.load(str(saved))
        assert "\n" not in str(error.value)
    datasets.Dataset.from_dict({"text": ["a", "b"]}).save_to_disk(str(saved.parent / "texts"))
    with pytest.raises(InputError, match="expected a column of images; got text"):
        data.load(str(saved.parent / "texts"))


def test_what_is_not_installed_is_named(tmp_path, monkeypatch):
    (tmp_path / "state.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InputError, match=r"expected the package datasets; got none .* pip install 'vae_tf\[data\]'"):
        data.load(str(tmp_path))
    (tmp_path / "state.json").unlink()
    (tmp_path / "metadata.parquet").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"metadata\.parquet: expected the package pyarrow; got none .* install "
                                         r"'vae_tf\[data\]'"):
        data.load(str(tmp_path))


@pytest.fixture
def folder(tmp_path):
    for k in range(4):
        Image.fromarray(IMAGES[k]).save(tmp_path / f"{k}.png")
    return tmp_path


def write_table(path, /, encoding=None, **columns):
    """Write a table in Parquet; if an encoding is given, all of its texts have it."""
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa
    table = pa.table(columns)
    texts = {field.name: encoding for field in table.schema if pa.types.is_string(field.type)}
    parquet.write_table(table, path, **{"use_dictionary": False, "column_encoding": texts} if encoding else {})


def write_bytes(path, kind):
    """Write a table with a column of bytes, of a type of pyarrow's or of so many bytes each."""
    pa = pytest.importorskip("pyarrow")
    write_table(path, file_name=[f"{k}.png" for k in range(4)],
                v=pa.array([b"aa"] * 4, pa.binary(kind) if isinstance(kind, int) else getattr(pa, kind)()))


COLUMNS = {"shape": ["disc", "star", "disc", "star"], "x": [0.5, 1.5, 2.5, 3.5], "n": [3, 1, 1, 3], "u_a": [0, 1, 0, 1],
           "known": [True, False, False, True]}


@pytest.mark.parametrize("encoding", [None, "DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_a_parquet_table_is_read_as_the_same_csv_is(folder, encoding):
    write_table(folder / "metadata.parquet", encoding, file_name=[f"{k}.png" for k in (3, 2, 1, 0)], **COLUMNS)
    left = data.load(str(folder))
    (folder / "metadata.parquet").unlink()
    rows = zip((f"{k}.png" for k in (3, 2, 1, 0)), *COLUMNS.values(), strict=True)
    (folder / "metadata.csv").write_text("\n".join(["file_name," + ",".join(COLUMNS),
                                                    *(",".join(map(str, row)) for row in rows)]))
    right = data.load(str(folder))
    assert left.factors == right.factors and left.fingerprint == right.fingerprint
    assert [factor.kind for factor in left.factors] == ["categorical", "continuous", "ordinal", "categorical"]
    np.testing.assert_array_equal(left.u_at(np.arange(4))[:, 0], [1, 0, 1, 0])


@pytest.mark.parametrize(("spoil", "said"), [
    (lambda path: path.write_bytes(path.read_bytes()[:200]), "metadata.parquet is not a readable table"),
    (lambda path: path.write_bytes(b"PAR1"), "metadata.parquet is not a readable table"),
    (lambda path: write_table(path, name=["0.png"]), "one of them file_name; got name"),
    (lambda path: write_table(path, file_name=["0.png"], v=[[1]]), "expected numbers or texts in column v; got list"),
    (lambda path: write_bytes(path, "large_binary"), "expected numbers or texts in column v; got large_binary"),
    (lambda path: write_bytes(path, 2), "expected numbers or texts in column v; got fixed_size_binary.2."),
    (lambda path: path.with_suffix(".csv").write_text("file_name\n"), "expected one table; got metadata.csv and")])
def test_a_bad_parquet_table_is_one_line(folder, spoil, said):
    write_table(folder / "metadata.parquet", file_name=[f"{k}.png" for k in range(4)], **COLUMNS)
    spoil(folder / "metadata.parquet")
    with pytest.raises(InputError, match=said) as error:
        data.load(str(folder))
    assert "\n" not in str(error.value)


def test_the_index_of_a_pandas_table_is_no_factor(folder):
    write_table(folder / "metadata.parquet", file_name=[f"{k}.png" for k in range(4)], v=[1, 1, 2, 3],
                __index_level_0__=[3, 5, 7, 9])
    with pytest.warns(UserWarning, match="column __index_level_0__ is left out: it is the index of a pandas table"):
        assert data.load(str(folder)).factor_names == ("v",)


def test_texts_of_a_parquet_table_are_classes(folder):
    codes = ["1", "01", "1E5", "1"]
    write_table(folder / "metadata.parquet", file_name=[f"{k}.png" for k in range(4)], v=codes,
                w=pytest.importorskip("pyarrow").array(codes).dictionary_encode(), u_day=["1", "2", "3", "4"])
    ds = data.load(str(folder))
    assert ds.factors == tuple(data.Factor(name, 3, "categorical") for name in "vw") and ds.u_size == 1


def test_texts_are_classes_even_if_they_look_like_numbers(tmp_path):
    datasets = pytest.importorskip("datasets")
    columns = {"image": [Image.fromarray(image) for image in IMAGES[:4]], "code": ["1", "01", "1E500", "1"],
               "__index_level_0__": [4, 5, 6, 7]}
    saved = datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())
    saved.save_to_disk(str(tmp_path / "mine"))
    with pytest.warns(UserWarning, match="column __index_level_0__ is left out"):
        ds = data.load(str(tmp_path / "mine"))
    assert ds.factors == (data.Factor("code", 3, "categorical"),)


def test_other_published_parts_are_other_data(tmp_path):
    datasets = pytest.importorskip("datasets")
    whole = datasets.Dataset.from_dict({"image": [Image.fromarray(image) for image in IMAGES]})
    whole = whole.cast_column("image", datasets.Image())
    for name, share in (("a", 0.2), ("b", 0.6)):
        whole.train_test_split(test_size=share, shuffle=False).save_to_disk(str(tmp_path / name))
    assert data.load(str(tmp_path / "a")).fingerprint != data.load(str(tmp_path / "b")).fingerprint


def test_long_texts_of_a_small_parquet_table_take_no_more_memory_than_they_need(tmp_path):
    path, long = tmp_path / "metadata.parquet", "x" * 10_000 + " "
    write_table(path, file_name=[f"{k}.png" for k in range(300)], note=[long] * 300)
    assert len({id(cell) for cell in tables.read(path)[0]["note"]}) == 1
    memory.set_limit(2**20)
    try:
        for encoding in (None, "DELTA_BYTE_ARRAY"):
            write_table(path, encoding, file_name=[f"{k}.png" for k in range(300)],
                        note=[f"{long}{k}" for k in range(300)])
            with pytest.raises(InputError, match=r"a table of 300 rows takes about (2.9|3.0) MiB of memory, more than"):
                tables.read(path)
    finally:
        memory.set_limit(None)


def test_a_missing_value_of_a_parquet_table_is_named(folder):
    names = [f"{k}.png" for k in range(4)]
    write_table(folder / "metadata.parquet", file_name=names, v=[1, None, 2, 3], w=[1, 1, 2, 2])
    with pytest.warns(UserWarning, match=r"factor v has no value \(NaN\) in 1.png, "):
        assert data.load(str(folder)).factors_of_u == ("w",)
