"""What is said of the package in several files is the same in all of them."""

import ast
import configparser
import os
import pathlib
import re
import shutil
import subprocess
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
                module, extra = (part.value for part in node.args[:2])
                named[module.split(".")[0]] = extra
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


def parse(path):
    """A workflow; "on" is no truth value here."""
    return yaml.load(path.read_text(), yaml.BaseLoader)


WORKFLOWS = {path.stem: parse(path) for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
STEPS = [(name, step) for name, workflow in WORKFLOWS.items() for job in workflow["jobs"].values()
         for step in job.get("steps", [])]


def test_workflows_install_and_run_what_there_is():
    assert {*WORKFLOWS} == {"build", "docs", "tests"}
    commands = "\n".join(step.get("run", "") for _, step in STEPS)
    asked = {extra for found in re.findall(r"\.\[([\w,]+)\]", commands) for extra in found.split(",")}
    assert asked and asked <= {*EXTRAS}
    named = re.findall(r"(?:\.ci|tests|vae_tf)/[\w./]+", commands)
    assert ".ci/check_wheel" in named and not [name for name in named if not (ROOT / name).exists()]
    scripts = lines(SETUP["options.entry_points"]["console_scripts"])
    assert {command.split()[0] for command in commands.splitlines() if command.startswith("vae")} <= {
        line.split(" = ")[0] for line in scripts}


def test_workflows_try_every_python_that_the_package_takes():
    minors = re.findall(r"Python :: (3\.\d+)$", SETUP["metadata"]["classifiers"], re.MULTILINE)
    low, high = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", SETUP["options"]["python_requires"]).groups()
    assert minors == [f"3.{minor}" for minor in range(int(low), int(high))]
    assert WORKFLOWS["tests"]["jobs"]["suite"]["strategy"]["matrix"]["python"] == minors
    assert WORKFLOWS["tests"]["jobs"]["smoke"]["strategy"]["matrix"]["system"] == ["macos-latest", "windows-latest"]
    pythons = {step["with"]["python-version"] for _, step in STEPS if "python-version" in step.get("with", {})}
    assert pythons <= {*minors, "${{ matrix.python }}"}


def test_workflows_may_read_alone_and_pin_their_actions():
    for name, step in STEPS:
        assert "uses" not in step or re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+)", step["uses"]), (name, step)
    for name, workflow in WORKFLOWS.items():
        assert workflow["permissions"] == {"contents": "read"}, name
        for job, settings in workflow["jobs"].items():
            assert settings.get("permissions") == ({"id-token": "write"} if job == "publish" else None)
            assert "timeout-minutes" in settings or settings["uses"].startswith("./")


def test_a_tag_is_published_after_its_tests():
    jobs = WORKFLOWS["build"]["jobs"]
    assert jobs["tests"]["uses"] == "./.github/workflows/tests.yml" and "workflow_call" in WORKFLOWS["tests"]["on"]
    assert jobs["publish"]["needs"] == ["build", "tests"]
    assert jobs["publish"]["if"] == jobs["tests"]["if"] == "startsWith(github.ref, 'refs/tags/')"


@pytest.mark.skipif(os.name != "posix", reason="the script needs a POSIX shell")
def test_a_release_is_one_command(tmp_path):
    """In a small clone: version and changelog say the same of it, and the tag arrives where it is published from."""
    def git(*arguments, folder=tmp_path / "clone"):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments], cwd=folder,
                              check=True, capture_output=True, text=True).stdout

    git("init", "-q", "--bare", "origin", folder=tmp_path)
    git("clone", "-q", "origin", "clone", folder=tmp_path)
    for name in ("CHANGELOG.md", "CITATION.cff", "vae_tf/__init__.py", ".ci/release"):
        (tmp_path / "clone" / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "clone" / name)
    git("add", ".")
    git("commit", "-qm", "all")
    git("switch", "-qC", "work")
    name = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    run = [tmp_path / "clone/.ci/release"]
    assert subprocess.run([*run, "2"], capture_output=True).returncode == 2
    assert b"expected the branch main" in subprocess.run([*run, "9.8.7"], capture_output=True).stderr
    git("switch", "-qC", "main")
    subprocess.run([*run, "9.8.7"], env={**os.environ, **name}, check=True, capture_output=True)
    assert git("tag", folder=tmp_path / "origin").split() == ["v9.8.7"]
    released = git("show", "v9.8.7:CHANGELOG.md", folder=tmp_path / "origin")
    assert re.search(r"## \[Unreleased\]\n\n## \[9\.8\.7\] - \d{4}-\d\d-\d\d\n\n### Added", released)
    assert '__version__ = "9.8.7"' in git("show", "v9.8.7:vae_tf/__init__.py")
    assert yaml.safe_load(git("show", "v9.8.7:CITATION.cff"))["version"] == "9.8.7"
