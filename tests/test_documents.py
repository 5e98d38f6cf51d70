"""The documents for people: lines that fit a screen, links that lead somewhere."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
WIDTH = 120
GENERATED = ("results.md",)
SUFFIXES = ("py", "md", "csv", "html", "json", "png", "flags")
DOCUMENTS = [path for pattern in ("*.md", "docs/*.md", "exported/*.md", "tests/fixtures/*.md")
             for path in sorted(ROOT.glob(pattern))]


def prose(path):
    """(number, line) of the lines that can be broken: not those of tables, which Markdown has on one line each."""
    return [(number, line) for number, line in enumerate(path.read_text().splitlines(), 1) if not line.startswith("|")]


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.name not in GENERATED], ids=lambda path: path.name)
def test_lines_fit(path):
    long = [number for number, line in prose(path) if len(line) > WIDTH]
    assert not long, f"{path.relative_to(ROOT)} has lines of more than {WIDTH} characters: {long}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(path):
    text = re.sub(r"```.*?```|`[^`\n]*`", "", path.read_text(), flags=re.DOTALL)      # code has no links
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)
    lost = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert not lost, f"{path.relative_to(ROOT)} links to files that do not exist: {lost}"


def test_the_walks_show_code_that_runs():
    """CONTRIBUTING.md takes its code from the example that tests/test_extensions.py runs."""
    example = (ROOT / "examples/extension.py").read_text()
    shown = re.findall(r"```python\n(.*?)\n```", (ROOT / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert len(shown) >= 4
    for code in shown:
        assert f"\n{code}\n" in example, f"not in examples/extension.py: {code.splitlines()[0]} ..."
    for name in ("data.register", "models.register", "metrics.register"):
        assert any(name in code for code in shown)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_and_tests_that_are_named_exist(path):
    """Of what stands in backticks: paths of the checkout, such as `tests/test_runs.py::test_name`."""
    lost = []
    named = r"`((?:vae_tf|tests|docs|benchmarks|examples|theory)/[\w./]*?(?:\.\w+|/))(?:::(\w+))?`"
    for name, test in re.findall(named, path.read_text()):
        file = ROOT / ("vae_tf" if name.startswith("theory/") else "") / name
        if ("NAME" not in name and not file.exists()) or (test and f"def {test}(" not in file.read_text()):
            lost.append(f"{name}::{test}" if test else name)
    assert not lost


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.name not in ("CHANGELOG.md", *GENERATED)],
                         ids=lambda path: path.name)
def test_functions_that_are_named_exist(path):
    """Of what stands in backticks: functions and classes of a module, such as `jacobians.gram`."""
    sources: dict[str, str] = {}
    for file in (ROOT / "vae_tf").rglob("*.py"):
        for name in {file.stem, *file.relative_to(ROOT).parts[:-1]}:
            sources[name] = sources.get(name, "") + file.read_text()
    lost = []
    for module, name in re.findall(r"`([a-z_]+)\.([A-Za-z_]+)(?:\(.*?\))?`", path.read_text()):
        defined = rf"\b(def|class) {name}\b|\b{name}\b.* = |import.*\b{name}\b|^    {name},$"
        known = name in SUFFIXES or name in sources         # the name of a file, or a module
        if module in sources and not known and not re.search(defined, sources[module], re.MULTILINE):
            lost.append(f"{module}.{name}")
    assert not lost
