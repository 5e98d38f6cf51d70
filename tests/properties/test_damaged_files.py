"""Whatever happens to a file that is read back: what is read is what was written, or one line says what is wrong."""

import base64
import io
import json
import os
import pathlib
import shutil
import socket
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st
from outcomes import check_outcome, read_corpus
from programs import run

from vae_tf import export, runs
from vae_tf.data import npz
from vae_tf.errors import InputError
from vae_tf.experiments import results
from vae_tf.export.card import read_card
from vae_tf.export.checksums import check_files

TRAIN = ("--name=m", "--model=vae", "--dataset=mine.npz", "--network=linear", "--latents=2", "--batch_size=4",
         "--log_every=1", "--checkpoint_every=2", "--polarised_every=0")
EVALUATE = ("--examples=20", "--metrics=active_units", "--geometry=", "--theory=", "--jobs=1")
MANY, FEW = 15 * settings().max_examples, max(1, settings().max_examples // 10)
RESULT = {"recipe": "a/b", "flags": {}, "seed": 0, "steps": 1, "epochs": 1.0, "configuration": {"beta": 1.0},
          "numerics": 1, "command": "python train.py", "versions": {}, "machine": "a machine",
          "seconds": {"training": 1.0, "replicas": 1, "scoring": 1.0}, "metrics": {"dto": {"score": 0.25}}}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with data, codes, a result, a run of two checkpoints, and two versions of its model; left as it is."""
    folder, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(0)
    np.savez(folder / "mine.npz", data=rng.standard_normal((40, 3)), factors=np.arange(40) % 3)
    np.savez(folder / "codes.npz", codes=rng.standard_normal((40, 2)), factors=np.arange(40) % 3)
    results.write(folder / "results", RESULT)
    for steps in (4, 6):
        code, _, error = run("train.py", *TRAIN, f"--steps={steps}", folder=folder)
        assert code == 0, error
    assert sorted(runs.find_checkpoints(folder / "runs/m")) == [4, 6]
    assert sorted(export.list_versions(folder / "exported/m")) == [1, 2]
    return folder


@pytest.fixture(scope="module")
def good(made):
    """What is read back from the folder as it was made."""
    return read_everything(made)


@pytest.fixture
def copy(made, tmp_path):
    """A function that makes a new copy of the folder."""
    def make():
        shutil.rmtree(tmp_path / "copy", ignore_errors=True)
        return pathlib.Path(shutil.copytree(made, tmp_path / "copy"))

    return make


def read_run(folder):
    """(step, {name: array}, rows) of what a run would go on from."""
    step, states, (rows,) = runs.restore([folder / "runs/m"])
    return step, states and states[0], rows


def read_export(folder):
    """{path: bytes} of the version that would be loaded, and its card."""
    path = export.find_newest(folder / "exported")
    card = read_card(path, export.SCORED)
    check_files(path, card)
    content = {str(path.relative_to(folder) / name): (path / name).read_bytes() for name in card.get("files", {})}
    return {**content, "card": (path.relative_to(folder), card)}


READERS = {"runs": read_run, "exported": read_export,
           "mine.npz": lambda folder: npz.read("dataset", folder / "mine.npz"),
           "codes.npz": lambda folder: npz.read("codes", folder / "codes.npz"),
           "results": lambda folder: results.read_all(folder / "results")}


def read_everything(folder):
    """{reader: what it returns, or the InputError that it raises}; anything else that is raised is a fault."""
    found = {}
    for name, read in READERS.items():
        try:
            found[name] = read(folder)
        except InputError as error:
            assert "\n" not in str(error) and 0 < len(str(error)) < 2_000, error
            found[name] = error
    return found


def check_unharmed(found, good, folder):
    """Raise AssertionError unless all that was read without an error is what was once written, if elsewhere."""
    for name, value in found.items():
        if isinstance(value, InputError):
            continue
        if name == "runs":
            step, state, rows = value
            if state is None:
                assert not rows and step == 0
                continue
            with np.load(good["folder"] / f"runs/m/checkpoints/{step:09d}.npz") as file:
                for array in state:
                    np.testing.assert_array_equal(state[array], file[array])
            assert rows in ([], [row for row in good["runs"][2] if row["step"] <= step])
        elif name == "exported":
            version, card = value.pop("card")
            written = read_card(good["folder"] / version)
            assert all(card.get(name) == entry for name, entry in written.items() if name != "checksum")
            assert value == {path: (good["folder"] / path).read_bytes() for path in value}
        elif name == "results":
            assert value in ([], good["results"])
        else:
            whole = [good[each] for each in ("mine.npz", "codes.npz") if value.keys() == good[each].keys()]
            if not whole:           # a checkpoint in its place, which has neither data nor codes
                assert not {"data", "codes"} & value.keys()
                continue
            for array in value:
                np.testing.assert_array_equal(value[array], whole[0][array])


def files_of(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def make_special(path, kind):
    """Put something that is no file in the place of a file."""
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        here = os.open(path.parent, os.O_RDONLY)        # the path of a socket must be short
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"/proc/self/fd/{here}/{path.name}")
        os.close(here)
    elif kind != "nothing":
        path.symlink_to({"loop": path, "dangling": "nowhere", "device": "/dev/zero"}[kind])


SPECIAL = ("pipe", "folder", "socket", "loop", "dangling", "device", "nothing")


@st.composite
def damages(draw):
    """(how, where between 0 and 1, what) of a damage to a file."""
    how = draw(st.sampled_from(("flip", "cut", "zero", "insert", "replace", "swap", "special")))
    what = draw({"flip": st.integers(1, 255), "insert": st.binary(min_size=1, max_size=9), "replace": st.binary(
        max_size=99), "swap": st.floats(0, 1), "special": st.sampled_from(SPECIAL)}.get(how, st.integers(1, 99)))
    return how, draw(st.floats(0, 1)), what


def apply(damage, path, folder):
    how, where, what = damage
    content = path.read_bytes()
    at = int(where * max(len(content) - 1, 0))
    before, rest = content[:at], content[at:]
    if how == "special":
        make_special(path, what)
    elif how == "swap":
        names = files_of(folder)
        other = folder / names[int(what * (len(names) - 1))]
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    elif how == "flip":
        path.write_bytes(before + bytes(byte ^ what for byte in rest[:1]) + rest[1:])
    elif how == "zero":
        path.write_bytes(before + bytes(len(rest[:what])) + rest[what:])
    else:
        path.write_bytes({"cut": before, "insert": before + bytes(what) + rest, "replace": bytes(what)}[how])


# A version that is passed over is a warning, of which these tests make hundreds.
pytestmark = pytest.mark.filterwarnings("ignore:.*going back to the version before")


@settings(max_examples=MANY)
@given(damage=damages(), which=st.floats(0, 1))
@example(damage=("flip", 0.5, 1), which=0.75)      # a digit of a result
def test_what_is_read_back_is_what_was_written_or_an_error_of_one_line(made, good, copy, damage, which):
    folder = copy()
    names = files_of(folder)
    apply(damage, folder / names[int(which * (len(names) - 1))], folder)
    check_unharmed(read_everything(folder), {**good, "folder": made}, folder)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)
    | st.sampled_from([10**30, -1, 0, 2**63, 1e308, "\x1b[2J", "../..", "\ud800", "1"]),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(max_size=5), inside, max_size=3),
    max_leaves=5)
OF_JSON = ("runs/m/config.json", "exported/m/2/assets.extra/card.json", "results/a/b-44136f-seed0-1.json")


def paths_in(value, before=()):
    """All paths to entries of JSON: a tuple of keys and indices each."""
    yield before
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths_in(item, (*before, key))


@settings(max_examples=MANY)
@given(name=st.sampled_from(OF_JSON), where=st.floats(0, 1), value=JSON, delete=st.booleans())
def test_any_value_anywhere_in_a_file_of_json_is_taken_or_refused_in_one_line(made, tmp_path, name, where, value,
                                                                              delete):
    whole = json.loads((made / name).read_text())
    whole.pop("checksum", None)         # otherwise the file would be refused before its entries are looked at
    paths = list(paths_in(whole))
    path = paths[int(where * (len(paths) - 1))]
    if path:
        at = whole
        for key in path[:-1]:
            at = at[key]
        if delete:
            del at[path[-1]]
        else:
            at[path[-1]] = value
    else:
        whole = value
    file = tmp_path / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(whole))
    for read in (lambda: runs.compare_config(tmp_path / "runs/m", {"beta": 1.0}),
                 lambda: results.read_all(tmp_path / "results"),
                 lambda: read_card(tmp_path / "exported/m/2", export.SCORED),
                 lambda: read_card(tmp_path / "exported/m/2", export.TRAINED_FURTHER)):
        try:
            read()
        except InputError as error:
            assert "\n" not in str(error) and len(str(error)) < 2_000, error


def make_member(descr, shape, order, content):
    """The bytes of an .npy file whose header says anything."""
    header = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape!r}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


@settings(max_examples=MANY)
@given(descr=st.sampled_from(["<f4", "|u1", "<f8", "|O", "<U3", "<U0", "|S0", "<M8[s]", "|V8", ">i2", "f", "", 3, None,
                              [("a", "<f4")], "<U999999999"]),
       shape=st.lists(st.sampled_from([0, 1, 2, 3, -1, 10**6, 10**12, 2**63, 10**30]), max_size=4).map(tuple)
       | st.sampled_from([3, "x", None]),
       order=st.booleans(), size=st.sampled_from([0, 4, 16, 24, 1000]), method=st.sampled_from([0, 8, 12, 14]),
       flags=st.sampled_from([0, 0, 0, 1, 64]), name=st.sampled_from(["data.npy", "codes.npy", "../a.npy", "a.pkl"]))
def test_any_header_of_an_array_is_taken_or_refused_in_one_line(tmp_path, descr, shape, order, size, method, flags,
                                                                name):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        archive.writestr(name, make_member(descr, shape, order, bytes(size)))
    raw = bytearray(content.getvalue())
    raw[6] |= flags
    raw[raw.rindex(b"PK\x01\x02") + 8] |= flags
    path = tmp_path / "mine.npz"
    path.write_bytes(raw)
    for packed in (True, False):
        try:
            arrays = npz.read_arrays(path, packed=packed)
        except (npz.DamagedError, InputError) as error:
            assert "\n" not in str(error)
        else:
            assert sum(array.nbytes for array in arrays.values()) <= size


def make_file(path, made):
    """Make what a line of the corpus describes."""
    if isinstance(made, str):
        return make_special(path, made)
    path.parent.mkdir(parents=True, exist_ok=True)
    if "text" in made:
        path.write_text(made["text"] * made.get("times", 1))
    elif "base64" in made:
        path.write_bytes(base64.b64decode(made["base64"]))
    elif "entries" in made:
        path.write_text(json.dumps({**json.loads(path.read_text()), **made["entries"]}))
    elif "sparse" in made:
        with open(path, "wb") as file:
            file.truncate(made["sparse"])
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name, member in made["zip"].items():
                archive.writestr(name, member if isinstance(member, str) else make_member(
                    member["descr"], tuple(member["shape"]), False, bytes(16)))


@pytest.mark.parametrize("case", read_corpus("files"), ids=lambda case: case["name"])
def test_each_case_that_was_once_a_fault(made, good, copy, case, capsys, recwarn):
    folder = copy()
    make_file(folder / case["file"], case["made"])
    found = read_everything(folder)
    said = "\n".join([*(str(value) for value in found.values() if isinstance(value, InputError)),
                      capsys.readouterr().err, *(str(warning.message) for warning in recwarn)])
    assert case["says"] in said, said
    check_unharmed(found, {**good, "folder": made}, folder)


@settings(max_examples=FEW, phases=[Phase.explicit, Phase.generate])        # a smaller example would take minutes
@given(damage=damages(), which=st.floats(0, 1))
def test_the_programs_end_well_whatever_was_damaged(made, copy, damage, which):
    folder = copy()
    names = [name for name in files_of(folder) if not name.startswith("results")]
    apply(damage, folder / names[int(which * (len(names) - 1))], folder)
    check_outcome(*run("train.py", *TRAIN, "--steps=8", folder=folder))
    check_outcome(*run("evaluate.py", *EVALUATE, folder=folder))
    assert not [path for path in folder.rglob(".*") if path.name.startswith((".writing", ".removing"))]
