"""What is said of the package in several files is the same in all of them."""

import ast
import configparser
import pathlib
import re
import sys

import pytest
import yaml

import vae_tf
from vae_tf import extras
from vae_tf.errors import InputError

ROOT = pathlib.Path(__file__).parents[1]
SETUP = configparser.ConfigParser(interpolation=None)
SETUP.read(ROOT / "setup.cfg")
EXTRAS = SETUP["options.extras_require"]


def lines(text):
    return [line for line in text.strip().splitlines() if line and not line.startswith("#")]


def test_every_file_says_the_same_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert SETUP["metadata"]["version"] == "attr: vae_tf.__version__"
    assert citation["version"] == vae_tf.__version__
    assert citation["license"] == SETUP["metadata"]["license"]
    assert [author["name"] for author in citation["authors"]] == [SETUP["metadata"]["author"]]
    site = yaml.load((ROOT / "mkdocs.yml").read_text(), yaml.BaseLoader)
    urls = dict(re.split(" *= *", line, maxsplit=1) for line in lines(SETUP["metadata"].get("project_urls", "")))
    assert citation.get("repository-code") == site.get("repo_url") == urls.get("Source")


def test_the_changelog_keeps_its_form():
    text = (ROOT / "CHANGELOG.md").read_text()
    first, *versions = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert first == "[Unreleased]"
    dated = [re.fullmatch(r"\[(\d+)\.(\d+)\.(\d+)\] - \d{4}-\d\d-\d\d", version) for version in versions]
    numbers = [tuple(map(int, found.groups())) for found in dated]
    assert numbers == sorted(numbers, reverse=True)
    assert not numbers or ".".join(map(str, numbers[0])) == vae_tf.__version__
    kinds = re.findall(r"^### (.*)$", text, re.MULTILINE)
    assert {"Added", "Changed"} <= {*kinds} <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_lowest_versions_are_those_of_the_tests():
    lowest = lines((ROOT / "tests/lowest.txt").read_text())
    assert [line.replace(">=", "==") for line in lines(SETUP["options"]["install_requires"])] == lowest


def test_what_an_extra_installs_is_asked_for_by_its_name():
    """Every call of `import_extra` in the package names an extra that there is, but for tests."""
    named = {}
    for path in (ROOT / "vae_tf").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_extra"):
                module, extra, _ = (part.value for part in node.args)
                named[module] = extra
    assert named and {*named.values()} <= {*EXTRAS}
    for module, extra in named.items():
        assert module.replace("_", "-") in EXTRAS[extra].replace("_", "-"), f"{module} is not in the extra {extra}"
    whole = re.search(r"vae_tf\[(.*)\]", EXTRAS["test"])[1].split(",")
    assert sorted(whole) == sorted({*EXTRAS} - {"docs", "test"})


def test_no_module_needs_an_extra_to_be_imported():
    """A package of an extra is imported where it is needed, with an error that says how to install it."""
    optional = {re.split(r"[\[>=]", line)[0].replace("-", "_") for extra in EXTRAS for line in lines(EXTRAS[extra])}
    optional |= {"tensorflow_serving", "distributed"}
    for path in (ROOT / "vae_tf").rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            assert not {name.split(".")[0] for name in names} & (optional - {"vae_tf"}), path


def test_an_extra_that_is_missing_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError) as caught:
        extras.import_extra("pyarrow", "data", "dataset")
    assert re.fullmatch(r"dataset: expected the package pyarrow; got none \(.*\); install it with "
                        r"pip install 'vae_tf\[data\]'", str(caught.value))
