"""Exports go to a Hub on this machine and come back whole, or not at all."""

import json
import shutil
import sys

import hub_server
import huggingface_hub
import numpy as np
import pytest
from commands import run_evaluate, run_train
from exports import SMALLEST, saved
from huggingface_hub import constants

from vae_tf import export
from vae_tf.errors import InputError
from vae_tf.programs import pull, push


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """exported/model/1, with its scores' file."""
    path = saved(tmp_path_factory.mktemp("made"), SMALLEST)[2]
    export.update_card(path, metrics={"mig": 0.25}, data={"name": "a|b<c", "shape": SMALLEST[2]})
    return path


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub, with nothing of it in the cache; the current folder is empty."""
    with hub_server.serve() as (address, hub):
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE",
                            address + "/{repo_id}/resolve/{revision}/{filename}")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("HF_TOKEN", "hf_of_nobody")
        (tmp_path / "here").mkdir()
        monkeypatch.chdir(tmp_path / "here")
        yield hub


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_address_is_a_repository_to_push_to(hub, exported):
    assert export.push(exported, "hf://me/model").startswith("hf://me/model@")
    with pytest.raises(InputError, match=r"^repository: expected OWNER/NAME, because .*; got hf://me/model@main$"):
        export.push(exported, "hf://me/model@main")


def test_an_export_comes_back_as_it_was_and_only_once(hub, exported, tmp_path):
    address = export.push(exported, "me/model")
    commit = address.rpartition("@")[2]
    assert address == f"hf://me/model@{hub.commits['me/model'][-1][0]}"
    path = export.pull("me/model")
    assert str(path) == "exported/model/1" and files_of(path) == files_of(exported)
    assert path.stat().st_mode & 0o777 == 0o755
    export.update_card(path, metrics={"mig": 0.5})          # scores of one's own are kept
    assert export.pull(address) == path and export.read_card(path)["metrics"] == {"mig": 0.5}
    x = np.zeros((2, *SMALLEST[2]), np.float32)
    loaded = export.load(f"hf://me/model@{commit}")
    np.testing.assert_array_equal(loaded.encode(x)["mean"], export.load(exported).encode(x)["mean"])
    assert str(tmp_path / "cache") in str(loaded.path)
    with pytest.raises(InputError, match=r"hf://me/model@1234: the Hub could not be used \(RepositoryNotFoundError: "):
        export.load("hf://me/model@1234")


def test_a_commit_in_the_cache_is_read_offline(hub, exported, monkeypatch):
    address = export.push(exported, "me/model")
    path = export.load(address).path
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert export.load(address).path == path
    with pytest.raises(InputError, match="hf://me/model: the Hub could not be used"):      # a branch may have moved
        export.load("hf://me/model")


def test_another_model_becomes_the_next_version(hub, exported, tmp_path):
    export.push(exported, "me/model")
    first = export.pull("me/model", "exported/mine")
    other = saved(tmp_path / "other", SMALLEST, seed=5)[2]
    export.push(other, "me/model")
    assert [export.pull("me/model", "exported/mine").name, first.name] == ["2", "1"]
    assert export.pull(f"me/model@{hub.commits['me/model'][0][0]}", "exported/mine") == first


def test_a_push_deletes_what_the_export_before_had(hub, exported, tmp_path):
    scored = shutil.copytree(exported, tmp_path / "scored")
    (scored / "metrics.json").write_text("{}")
    export.push(scored, "me/model")
    mine = {".gitattributes": b"mine", "variables/notes.md": b"mine", "paper/metrics.json": b"mine"}
    hub.commit("me/model", {**mine, "variables/variables.data-00001-of-00002": b"of an older model"})
    export.push(exported, "me/model")
    assert set(hub.commits["me/model"][-1][1]) == {*files_of(exported), "README.md", *mine}


def test_an_export_whose_card_lists_no_files_is_sent_whole(hub, exported, tmp_path):
    """As cards of earlier versions."""
    old = shutil.copytree(exported, tmp_path / "old" / "1")
    card = json.loads((old / export.CARD).read_text())
    (old / export.CARD).write_text(json.dumps({k: v for k, v in card.items() if k not in ("files", "checksum")}))
    (old / "notes.txt").write_text("mine")
    export.push(exported, "me/model")
    export.push(old, "me/model")
    assert set(hub.commits["me/model"][-1][1]) == {*files_of(exported), "README.md"}
    assert export.load(export.pull("me/model")).card["model"] == card["model"]


def list_no_files(hub):
    card = json.loads(hub.commits["me/model"][-1][1][export.CARD.as_posix()])
    del card["checksum"]
    hub.commit("me/model", {export.CARD.as_posix(): json.dumps({**card, "files": {}}).encode()})


def test_a_card_that_lists_no_files_is_of_the_usual_ones(hub, exported):
    export.push(exported, "me/model")
    list_no_files(hub)
    assert export.load(export.pull("me/model")).card["model"] == "vae"
    hub.commits["me/model"][-1][1].pop("saved_model.pb")
    with pytest.raises(InputError, match="it has a card, and no saved_model"):
        export.pull("me/model")


def test_the_page_on_the_hub_says_what_the_card_says(hub, exported):
    export.push(exported, "me/model", licence="cc-by-4.0")
    page = hub.commits["me/model"][-1][1]["README.md"].decode()
    metadata = huggingface_hub.ModelCard(page).data
    assert metadata.license == "cc-by-4.0" and metadata.library_name == "vae_tf" and "vae" in metadata.tags
    for text in (r"| data | a\|b&lt;c |", "| mig | 0.25 |", 'export.load("hf://me/model")', "licence cc-by-4.0",
                 "vae-tf pull me/model", "exported/model:/models/model"):
        assert text in page, text
    export.push(exported, "me/model")
    assert "No licence of the model is stated." in hub.commits["me/model"][-1][1]["README.md"].decode()


def damage(name):
    def change(hub):
        hub.commit("me/model", {name: b"another model's"})
    return change


@pytest.mark.parametrize(("change", "message"), [
    (lambda hub: hub.broken.add("saved_model.pb"), "the Hub could not be used"),
    (damage("variables/variables.index"), "variables.index is damaged or of another model"),
    (damage("assets.extra/card.json"), "card.json"),
    (lambda hub: hub.commits["me/model"][-1][1].pop("saved_model.pb"), "saved_model.pb cannot be read"),
    (lambda hub: hub.commits.clear(), "the Hub could not be used .RepositoryNotFoundError"),
])
def test_what_breaks_is_one_line_and_leaves_nothing(hub, exported, tmp_path, change, message):
    export.push(exported, "me/model")
    change(hub)
    with pytest.raises(InputError, match=message) as caught:
        export.pull("me/model")
    assert "\n" not in str(caught.value) and not list((tmp_path / "here").iterdir())


def test_a_model_from_the_hub_is_trusted_no_more_than_any(hub, exported, tmp_path):
    """Its graph is looked at before it is loaded: this one reads a file."""
    import tensorflow as tf

    reading = tf.Module()
    reading.f = tf.function(lambda: tf.io.read_file("/etc/hostname"), input_signature=[])
    path = tmp_path / "planted" / "1"
    shutil.copytree(exported, path)
    tf.saved_model.save(reading, str(path))
    described = export.read_card(path)
    (path / export.CARD).write_text(json.dumps({key: value for key, value in described.items()
                                                if key not in ("files", "checksum")}))
    export.push(path, "me/planted")
    for name in ("saved_model.pb", "variables/variables.index"):
        hub.commit("me/planted", {name: (path / name).read_bytes()})
    with pytest.raises(InputError, match="its graph could reach outside of the model, by the operations ReadFile"):
        export.load("hf://me/planted")


@pytest.mark.parametrize("address", ["model", "hf://model", "hf://a/b/c", "hf://../b", "hf://a/..", "hf://a/b@", "hf://",
                                     "a/b@-x/../../y", "http://a/b", "a /b", "a/b\n"])
def test_addresses_that_are_none_are_refused_before_anything_is_asked(hub, address):
    with pytest.raises(InputError, match="expected hf://OWNER/NAME"):
        export.pull(address)
    assert not hub.asked


def test_the_programs(hub, exported, tmp_path, monkeypatch, capsys):
    def call(main, *arguments):
        monkeypatch.setattr(sys, "argv", ["vae-tf", *map(str, arguments)])
        main()
        return capsys.readouterr().out

    sent = call(push.main, exported, "me/model", "--licence=mit")
    assert sent == f"Sent to hf://me/model@{hub.commits['me/model'][0][0]}\n"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert call(pull.main, "me/model", "--folder=~/mine") == f"Fetched to {tmp_path}/mine/1\n"
    with pytest.raises(SystemExit) as caught:
        call(pull.main, "me/none")
    assert caught.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_package_that_is_missing_is_one_line(exported, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"install it with pip install 'vae_tf\[hub\]'"):
        export.load("hf://me/model")


def test_flags_take_addresses(hub, exported, tmp_path, capsys):
    """--init_from reads from the cache; --export and --compare write scores, so beside a copy in exported/."""
    np.savez("mine.npz", data=np.random.default_rng(0).standard_normal((40, 3)))
    own = ("--dataset=mine.npz", "--batch_size=4", "--polarised_every=0")
    run_train("--model=vae", "--network=linear", "--latents=2", *own, "--steps=2", "--name=a")
    export.push("exported/a", "me/a")
    run_train("--model=vae", *own, "--init_from=hf://me/a", "--steps=1", "--name=b")
    assert (tmp_path / "here/exported/b/1").exists()
    shutil.rmtree("exported/a")
    run_evaluate("--export=hf://me/a", "--metrics=mig", "--geometry=", "--theory=", "--quick")
    assert (tmp_path / "here/exported/a/1/metrics.json").exists()
    assert not any(path.name == "metrics.json" for path in (tmp_path / "cache").rglob("*"))
