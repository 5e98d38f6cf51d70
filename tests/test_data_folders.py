"""A folder of images and metadata.csv as a dataset, and the line about each thing in it that is wrong."""

import json
import os
import struct
import warnings
import zlib

import numpy as np
import pytest
from commands import run_evaluate, run_train
from PIL import Image, ImageOps

from vae_tf import data
from vae_tf.errors import InputError


def draw(folder, name, size=(8, 8), mode="L", seed=0, **options):
    """Write an image of random pixels, and return them."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    channels = {"L": (), "RGB": (3,), "RGBA": (4,), "LA": (2,)}[mode]
    pixels = np.random.default_rng(seed).integers(0, 256, (*size[::-1], *channels), np.uint8)
    Image.fromarray(pixels, mode).save(path, **options)
    return pixels


@pytest.fixture
def folder(tmp_path):
    """A folder of three images with two factors, and u."""
    for k in range(3):
        draw(tmp_path / "mine", f"{k}.png", seed=k)
    (tmp_path / "mine" / "metadata.csv").write_text(
        "file_name,shape,x,u_a\n2.png,star,0.5,1\n0.png,disc,1.5,0\n1.png,disc,2.5,0\n")
    return tmp_path / "mine"


def test_images_and_factors_are_matched_by_name(folder):
    ds = data.load(str(folder))
    i = np.arange(3)
    assert len(ds) == 3 and ds.shape == (8, 8, 1) and ds.u_size == 1
    for k in range(3):
        np.testing.assert_array_equal(ds.images_at(i)[k, ..., 0], np.asarray(Image.open(folder / f"{k}.png")))
    assert ds.factors == (data.Factor("shape", 2, "categorical"), data.Factor("x", None, "continuous"))
    np.testing.assert_allclose(ds.factors_at(i), [[0, 1.5], [0, 2.5], [1, 0.5]])
    np.testing.assert_array_equal(ds.u_at(i), [[0], [0], [1]])


def test_a_folder_is_known_by_content_and_not_by_name(folder):
    before = data.load(str(folder)).fingerprint
    moved = folder.rename(folder.with_name("moved"))
    assert data.load(str(moved)).fingerprint == before
    draw(moved, "1.png", seed=7)
    assert data.load(str(moved)).fingerprint != before


def test_modes_become_grey_or_colour(tmp_path):
    colour, grey = draw(tmp_path, "a/1.png", mode="RGBA"), draw(tmp_path, "a/b/2.png", mode="LA")
    with pytest.warns(UserWarning) as said:
        images = data.load(str(tmp_path / "a")).images_at(np.arange(2))
    np.testing.assert_array_equal(images[0], colour[..., :3])
    np.testing.assert_array_equal(images[1], grey[..., :1].repeat(3, -1))
    words = " ".join(str(warning.message) for warning in said)
    assert "the alpha channel of 2 images is dropped, 1.png first" in words and "all are taken as colour" in words


@pytest.mark.parametrize("suffix", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("held", range(10))
def test_images_stand_upright_as_viewers_show_them(tmp_path, suffix, held):
    """EXIF's orientation has the values 1 to 8; cameras write it instead of turning the pixels."""
    exif = Image.Exif()
    exif[0x0112] = held
    for seed in range(2):
        draw(tmp_path / "mine", f"{seed}.{suffix}", (10, 6), "RGB", seed, exif=exif)
    images = data.load(str(tmp_path / "mine")).images_at(np.arange(2))
    for seed in range(2):
        with Image.open(tmp_path / "mine" / f"{seed}.{suffix}") as image:
            np.testing.assert_array_equal(images[seed], np.asarray(ImageOps.exif_transpose(image)))


def test_damaged_exif_is_left_alone(tmp_path):
    pixels = draw(tmp_path / "mine", "1.png", (10, 6), "RGB", exif=b"Exif\0\0MM\0*junk")
    np.testing.assert_array_equal(data.load(str(tmp_path / "mine")).images_at(np.arange(1))[0], pixels)


@pytest.mark.parametrize("mode", ["P", "L", "RGB", "1"])
def test_a_transparent_colour_is_an_alpha_channel(tmp_path, mode):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (4, 6, 3), np.uint8)).convert(mode)
    (tmp_path / "mine").mkdir()
    image.save(tmp_path / "mine" / "1.png", transparency=(0, 0, 0) if mode == "RGB" else 0)
    with pytest.warns(UserWarning, match=r"the alpha channel of 1 images is dropped, 1\.png first"):
        images = data.load(str(tmp_path / "mine")).images_at(np.arange(1))
    np.testing.assert_array_equal(images[0], np.asarray(image.convert("L" if mode in "L1" else "RGB")).reshape(
        images.shape[1:]))


def test_underscores_are_no_part_of_a_number(tmp_path):
    """Python reads 1_1 as 11, so that two names would be one."""
    for k in range(3):
        draw(tmp_path / "mine", f"{k}.png", seed=k)
    (tmp_path / "mine" / "metadata.csv").write_text("file_name,item\n0.png,1_1\n1.png,11\n2.png,1_2\n")
    ds = data.load(str(tmp_path / "mine"))
    assert ds.factors == (data.Factor("item", 3, "categorical"),)
    np.testing.assert_array_equal(ds.factors_at(np.arange(3)), [[1], [0], [2]])


@pytest.mark.parametrize("marker", ["NA", "n/a", "null", "None", "nan", ""])
def test_markers_of_missing_numbers_are_no_classes(folder, marker):
    table(f"file_name,v,w\n0.png,1.5,red\n1.png,{marker},NA\n2.png,3,None\n")(folder)
    with pytest.warns(UserWarning, match=r"factor v has no value \(NaN\) in 1.png"):
        ds = data.load(str(folder))
    assert ds.factors == (data.Factor("v", None, "continuous", True), data.Factor("w", 3, "categorical"))


def test_two_images_of_one_name_in_two_unicode_forms_are_refused(tmp_path):
    for seed, name in enumerate(("\u00e9.png", "e\u0301.png")):
        draw(tmp_path / "mine", name, seed=seed)
    if len(os.listdir(tmp_path / "mine")) == 1:
        pytest.skip("this file system has one form")
    data.load(str(tmp_path / "mine"))
    (tmp_path / "mine" / "metadata.csv").write_text("file_name,v\n\u00e9.png,1\n", "utf-8")
    with pytest.raises(InputError, match=r"names differ in more than the Unicode form .* called \u00e9\.png"):
        data.load(str(tmp_path / "mine"))


@pytest.mark.parametrize(("kind", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_images_of_16_bits_are_refused(tmp_path, kind, channels):
    def chunk(name, content):
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    rows = b"".join(b"\0" + bytes(8 * channels * 2) for _ in range(8))
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "1.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 16, kind, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
    with pytest.raises(InputError, match=r"1\.png is of the kind .*16.*; expected 8 bits for each channel"):
        data.load(str(tmp_path / "deep"))


def test_names_in_any_script_are_matched(tmp_path):
    draw(tmp_path / "mine", "u\u0308ber.png")                                   # a u and a dot above, apart
    draw(tmp_path / "mine", "in/\u96ea, \"weiss\".png", seed=1)
    (tmp_path / "mine" / "metadata.csv").write_text(
        "\ufefffile_name,v\r\n./\u00fcber.png,1\r\n\"in/\u96ea, \"\"weiss\"\".png\",0\r\n", "utf-8")
    np.testing.assert_array_equal(data.load(str(tmp_path / "mine")).factors_at(np.arange(2)), [[0], [1]])


def test_rows_of_empty_cells_count_for_nothing(tmp_path):
    """Spreadsheets write them below a table."""
    draw(tmp_path / "mine", "a.png")
    draw(tmp_path / "mine", "b.png", seed=1)
    (tmp_path / "mine" / "metadata.csv").write_text("file_name,v\na.png,1\n,\nb.png,0\n , \n\n")
    np.testing.assert_array_equal(data.load(str(tmp_path / "mine")).factors_at(np.arange(2)), [[1], [0]])


def link(folder):
    draw(folder.parent, "outside.png")
    (folder / "3.png").symlink_to("../outside.png")


def link_table(folder):
    (folder.parent / "private.csv").write_text("file_name,v\n" + ROWS)
    (folder / "metadata.csv").unlink(missing_ok=True)
    (folder / "metadata.csv").symlink_to("../private.csv")


def animate(folder):
    frames = [Image.fromarray(np.full((8, 8), value, np.uint8)) for value in (0, 9)]
    frames[0].save(folder / "3.gif", save_all=True, append_images=frames[1:])


def write_planes(folder):
    """Write a TIFF of 16 bits for each channel, whose channels follow each other in the file."""
    pixels = np.full((3, 8, 8), 40_000, "<u2").tobytes()
    entries = [(256, 3, 1, 8), (257, 3, 1, 8), (258, 3, 3, 8), (259, 3, 1, 1), (262, 3, 1, 2), (273, 4, 3, 14),
               (277, 3, 1, 3), (278, 3, 1, 8), (279, 4, 3, 26), (284, 3, 1, 2)]     # tag, type, count, value or place
    arrays = struct.pack("<3H3I3I", 16, 16, 16, *(170 + 128 * k for k in range(3)), 128, 128, 128)
    head = struct.pack("<2sHI", b"II", 42, 8 + len(arrays)) + arrays
    table = struct.pack("<H", len(entries)) + b"".join(struct.pack("<HHII", *entry) for entry in entries) + bytes(4)
    content = head + table
    assert len(content) <= 170
    (folder / "1.tif").write_bytes(content.ljust(170, b"\0") + pixels)
    (folder / "1.png").unlink()


def cut(folder):
    content = (folder / "1.png").read_bytes()
    (folder / "1.png").write_bytes(content[:len(content) // 2])


def table(text):
    return lambda folder: (folder / "metadata.csv").write_text(text)


ROWS = "0.png,1\n1.png,2\n2.png,3\n"
BAD = {
    "mixed sizes": (lambda folder: draw(folder, "3.png", (9, 8)),
                    "expected images of one size; 0.png has 8x8 pixels and 3.png 9x8; .* pack FOLDER"),
    "a text file": (lambda folder: (folder / "3.png").write_text("words"), "3.png is not a readable image"),
    "a truncated PNG": (cut, "1.png is not a readable image"),
    "an empty file": (lambda folder: (folder / "1.png").write_bytes(b""), "1.png is not a readable image"),
    "a pipe": (lambda folder: os.mkfifo(folder / "3.png"), "3.png is not a readable image .Not a regular file"),
    "a row without an image": (table("file_name,v\n" + ROWS + "9.png,1\n"),
                               "expected an image for each row; row 4 names 9.png"),
    "an image without a row": (table("file_name,v\n0.png,1\n2.png,1\n"), "expected a row for each image; 1.png has"),
    "duplicate rows": (table("file_name,v\n" + ROWS + "1.png,2\n"), "rows 2 and 4 are both of 1.png"),
    "16 bits": (lambda folder: Image.fromarray(np.zeros((8, 8), np.uint16)).save(folder / "1.png"),
                "1.png is of the kind I;16; expected 8 bits"),
    "16 bits in planes": (write_planes, "1.tif is of the kind RGB with 16 bits for each channel; expected 8 bits"),
    "a link in a circle": (lambda folder: (folder / "3.png").symlink_to("3.png"), "3.png is not a readable image"),
    "an animation": (animate, "3.gif has 2 frames; expected a single image"),
    "a link that leaves": (link, "3.png is a link that leaves the folder"),
    "a table that is a link": (link_table, "metadata.csv is a link that leaves the folder"),
    "a linked folder": (lambda folder: (folder / "more").symlink_to(".."), "more is a link to a folder"),
    "no table": (table(""), "metadata.csv: expected a first line of different headings, one of them file_name; got an"),
    "no file_name": (table("name,v\n" + ROWS), "one of them file_name; got name, v"),
    "equal headings": (table("file_name,v,v\n"), "different headings"),
    "a short row": (table("file_name,v\n0.png\n"), "expected 2 cells in each row; row 1 has 1"),
    "no UTF-8": (lambda folder: (folder / "metadata.csv").write_bytes(b"file_name\n\xff\n"), "not a readable table"),
    "an open quote": (table('file_name,v\n"0.png,1\n'), "not a readable table"),
    "words for u": (table("file_name,u_a\n0.png,1\n1.png,two\n2.png,3\n"), "expected numbers in column u_a; got 'two'"),
    "infinity": (table("file_name,v\n0.png,1\n1.png,inf\n2.png,3\n"), "expected finite factors"),
    "no images": (lambda folder: [path.unlink() for path in folder.glob("*.png")], "expected image files"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_bad_folder_is_one_line(folder, kind):
    spoil, said = BAD[kind]
    assert len(data.load(str(folder))) == 3
    spoil(folder)
    with pytest.raises(InputError, match=said) as error:
        data.load(str(folder))
    assert "\n" not in str(error.value) and str(folder) in str(error.value)


def test_the_first_picture_of_a_camera_s_file_is_the_image(tmp_path):
    """Cameras put a small copy of the picture into the same file."""
    whole, preview = (Image.fromarray(np.full((size, size, 3), value, np.uint8)) for size, value in ((8, 200), (4, 9)))
    whole.save(tmp_path / "0.jpg", format="MPO", save_all=True, append_images=[preview])
    assert data.load(str(tmp_path)).images_at(np.arange(1)).ravel().tolist() == [200] * 192


def test_pixels_of_five_and_six_bits_are_read(tmp_path):
    """A BMP of 16 bits for each pixel has fewer than 8 for each channel."""
    head = struct.pack("<IiiHHIIiiII4I", 56, 4, 4, 1, 16, 3, 32, 0, 0, 0, 0, 0xF800, 0x07E0, 0x001F, 0)
    (tmp_path / "0.bmp").write_bytes(struct.pack("<2sIHHI", b"BM", 102, 0, 0, 70) + head + b"\xff\xff" * 16)
    assert data.load(str(tmp_path)).images_at(np.arange(1)).ravel().tolist() == [255] * 48


def test_a_missing_value_and_other_files_are_named(folder):
    table("file_name,v,w\n0.png,,1\n1.png,2,1\n2.png,3,2\n")(folder)
    (folder / "notes.txt").write_text("words")
    with pytest.warns(UserWarning) as said:
        ds = data.load(str(folder))
    assert ds.factor_names == ("v", "w") and ds.factors_of_u == ("w",)
    words = " ".join(str(warning.message) for warning in said)
    assert "factor v has no value (NaN) in 0.png, which scores leave out" in words
    assert "1 files that are no images are left out, notes.txt first" in words


def test_a_slip_in_a_column_of_numbers_is_named(folder):
    table("file_name,v,w\n0.png,1.5,a\n1.png,2.5cm,b\n2.png,3.5,1\n")(folder)
    with pytest.warns(UserWarning, match="column v is taken as texts, although 2 of its 3 cells are numbers, because "
                                         "'2.5cm' is none") as said:
        ds = data.load(str(folder))
    table("file_name,v\n0.png,1\n1.png,2\n2.png,X\n")(folder)
    with warnings.catch_warnings(action="error"):
        assert data.load(str(folder)).factors == (data.Factor("v", 3, "categorical"),)
    assert len(said) == 1 and [factor.kind for factor in ds.factors] == ["categorical", "categorical"]


def test_whole_numbers_that_are_written_like_others_are_classes_only_if_they_recur(tmp_path):
    for k in range(8):
        draw(tmp_path / "mine", f"{k}.png", seed=k)
    table("file_name,place,again,number\n" + "".join(f"{k}.png,{k}.0,{k % 2}.0,{k}\n" for k in range(8)))(
        tmp_path / "mine")
    ds = data.load(str(tmp_path / "mine"))
    assert [factor.kind for factor in ds.factors] == ["continuous", "ordinal", "ordinal"]


def test_tables_of_inner_folders_are_refused_where_they_would_be_lost(folder):
    draw(folder, "train/3.png", seed=3)
    (folder / "train" / "metadata.csv").write_text("file_name,shape\n3.png,star\n")
    with pytest.raises(InputError, match=r"a row for each image; train/3\.png has none"):
        data.load(str(folder))
    (folder / "metadata.csv").unlink()
    with pytest.raises(InputError, match=r"expected a table in the folder itself; got train/metadata\.csv; join "
                                         r"the tables of its folders, with file names such as train/1\.png"):
        data.load(str(folder))


def test_images_of_several_sizes_are_packed_in_one(folder, monkeypatch, capsys):
    from vae_tf.data import __main__ as program
    draw(folder, "1.png", (20, 12), seed=1)
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr("sys.argv", ["data", "pack", "mine", "mine.npz", "--resize=4"])
    monkeypatch.setattr("vae_tf.extensions.load", lambda: ())       # which remembers that it has been called
    program.main()
    assert capsys.readouterr().out == "Written: mine.npz, 3 images of shape 4x4x1\n"
    packed = data.load("mine.npz")
    whole = np.asarray(Image.open(folder / "0.png"), float).reshape(4, 2, 4, 2).mean((1, 3))
    np.testing.assert_allclose(packed.images_at(np.array([0]))[0, ..., 0], whole, atol=1)     # 2x2 pixels become one
    assert packed.factor_names == ("shape", "x") and packed.u_size == 1
    assert [factor.kind for factor in packed.factors] == ["categorical", "continuous"]


def test_what_could_not_be_loaded_again_is_not_packed(folder, monkeypatch, capsys):
    from vae_tf.data import __main__ as program
    table("file_name,u_x\n" + "".join(f"{path.name},{k or ''}\n" for k, path in enumerate(sorted(
        folder.glob("*.png")))))(folder)
    monkeypatch.chdir(folder.parent)
    monkeypatch.setattr("sys.argv", ["data", "pack", "mine", "mine.npz"])
    monkeypatch.setattr("vae_tf.extensions.load", lambda: ())
    with pytest.raises(SystemExit):
        program.main()
    assert "mine: expected finite u, got 1 NaN or infinite values" in capsys.readouterr().err
    assert not (folder.parent / "mine.npz").exists()


def test_a_folder_is_trained_on_continued_exported_and_scored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for k in range(20):
        draw(tmp_path / "mine", f"{k}.png", (4, 4), seed=k)
    table("file_name,v\n" + "".join(f"{k}.png,{k % 3}\n" for k in range(20)))(tmp_path / "mine")
    argv = ("--dataset=mine", "--model=vae", "--network=linear", "--latents=2", "--batch_size=4", "--polarised_every=0")
    for steps in (2, 3):
        run_train(*argv, f"--steps={steps}")
    card = json.loads((tmp_path / "exported/vae_mine/2/assets.extra/card.json").read_text())
    assert card["recipe"]["dataset"] == str(tmp_path / "mine") and card["steps"] == 3
    run_evaluate("--metrics=active_units", "--geometry=", "--theory=", "--jobs=1", "--quick")
    scored = json.loads((tmp_path / "exported/vae_mine/2/metrics.json").read_text())
    assert scored["trained_on"] == 0 and scored["dataset"] == str(tmp_path / "mine")
    draw(tmp_path / "mine", "3.png", (4, 4), seed=99)
    with pytest.raises(InputError, match="was trained on other data than mine holds now"):
        run_train(*argv, "--steps=4")
