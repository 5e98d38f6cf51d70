"""The documents for people: lines that fit a screen, links that lead somewhere."""

import functools
import pathlib
import re

import documents
import pytest

from vae_tf.experiments import tables

ROOT = pathlib.Path(__file__).parents[1]
WIDTH = 120
GENERATED = ("results.md",)
SUFFIXES = ("py", "md", "csv", "html", "json", "png", "gif", "webp", "tex", "flags")
DOCUMENTS = [path for pattern in ("*.md", "docs/*.md", "docs/papers/*.md", "exported/*.md", "tests/fixtures/*.md")
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
    for name in ("data.register", "networks.register", "models.register", "metrics.register"):
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


@functools.cache
def read_sources():
    """{module or package: its source}"""
    sources: dict[str, str] = {}
    for file in (ROOT / "vae_tf").rglob("*.py"):
        for name in {file.stem, *file.relative_to(ROOT).parts[:-1]}:
            sources[name] = sources.get(name, "") + file.read_text()
    return sources


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.name not in ("CHANGELOG.md", *GENERATED)],
                         ids=lambda path: path.name)
def test_functions_that_are_named_exist(path):
    """Of what stands in backticks: functions and classes of a module, such as `jacobians.gram`."""
    sources, lost = read_sources(), []
    for module, name in re.findall(r"`([a-z_]+)\.([A-Za-z_]+)(?:\(.*?\))?`", path.read_text()):
        defined = rf"\b(def|class) {name}\b|\b{name}\b.* = |import.*\b{name}\b|^    {name},$"
        known = name in SUFFIXES or name in sources         # the name of a file, or a module
        if module in sources and not known and not re.search(defined, sources[module], re.MULTILINE):
            lost.append(f"{module}.{name}")
    assert not lost


@pytest.mark.parametrize("path", documents.DOCUMENTS, ids=lambda path: path.name)
def test_blocks_say_their_language_and_why_they_are_not_run(path):
    blocks = documents.list_blocks(path)
    text = path.read_text()
    assert len(blocks) * 2 == len(re.findall("^```", text, re.MULTILINE)), "a fence that is not understood"
    for block in blocks:
        assert block.language in documents.LANGUAGES, f"{path.name}:{block.line}: a block without a language"
        for name in ("not run", "long"):
            assert len(block.marks.get(name, "long enough")) > 6, f"{path.name}:{block.line}: the mark gives no reason"
    named = re.findall(r"<!-- (?:not run|long): .*?(tests/[\w/]+\.py)", text)
    assert all((ROOT / file).exists() for file in named), named


@pytest.mark.parametrize("path", [*documents.DOCUMENTS, ROOT / "docs/results.md"], ids=lambda path: path.name)
def test_commands_can_be_typed(path, monkeypatch):
    """The real parsers take the flags of every command, and what the commands name is there."""
    monkeypatch.chdir(ROOT)
    texts = [block.text for block in documents.list_blocks(path)
             if block.language == "sh" and "not run" not in block.marks]
    texts += re.findall(r"^    (python .*)", path.read_text(), re.MULTILINE)
    texts += re.findall(r"`(python (?:train|evaluate)\.py[^`\n]*)`", path.read_text())
    for command in (command for text in texts for command in documents.list_commands(text)):
        try:
            documents.check_command(command)
        except (Exception, SystemExit) as error:
            pytest.fail(f"{path.name}: {' '.join(command)}: {error}")


@pytest.mark.parametrize("path", documents.DOCUMENTS, ids=lambda path: path.name)
def test_python_names_what_is_there(path):
    for block in documents.list_blocks(path):
        if block.language == "python" and path.name != "CONTRIBUTING.md":
            documents.check_names(block.text)


RUN = [path for path in documents.DOCUMENTS if path.name not in ("CONTRIBUTING.md", "tutorial.md")
       and any(block.language in ("python", "text") for block in documents.list_blocks(path))]


@pytest.mark.parametrize("path", RUN, ids=lambda path: path.name)
def test_blocks_run_and_print_what_is_shown(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    documents.run_document(path, tmp_path)


def test_what_is_shown_is_compared():
    documents.compare("a 1.0 ... end\n", "a 1.0 b\nc end\n")
    documents.compare("a 1,000 b 0.50\n", "a 1,000 b 0.52\n", within=0.03)
    for shown, printed, within in (("a 1.0\n", "a 1.1\n", 0), ("a 1.0\n", "a 1.1\n", 0.05), ("a 1\n", "b 1\n", 0.5),
                                   ("a ... b\n", "a c\n", 0), ("a 1\n", "a 1 2\n", 0.5)):
        with pytest.raises(AssertionError):
            documents.compare(shown, printed, within)


def test_a_command_that_cannot_be_typed_is_found(monkeypatch):
    monkeypatch.chdir(ROOT)
    for text in ("python train.py --no_such_flag=1", "python train.py --flagfile=flags/nobody.flags", "vae_tf train",
                 "vae-tf trian", "vae-tf train --no_such_flag=1", "vae-tf train --recipe=nobody",
                 "python -m vae_tf.experiments no_such_table", "python benchmarks/metrics.py --no_such_option",
                 "pip install -e '.[no_such_extra]'", "python benchmarks/no_such.py", "python -m pytest tests/no.py"):
        (command,) = documents.list_commands(text)
        with pytest.raises((Exception, SystemExit)):
            documents.check_command(command)
    with pytest.raises(AssertionError):
        documents.check_names("from vae_tf import metrics\nmetrics.no_such_metric(1)")


def test_the_readme_s_results_are_those_of_the_results_page():
    """Each mean and spread of the README's table stands in the row of the same data in docs/results.md, in order."""
    table = (ROOT / "docs/results.md").read_text().partition("\n## Rolinek Table 2:")[2]
    section = re.search(r"\*\*DtO\*\* \(lower is better\).*?\n\n(.*?)\n\n", table, re.DOTALL)
    rows = {line.split("|")[1].strip(): line.replace("paper ", "") for line in section[1].splitlines()}
    shown = re.findall(r"^\| (Synth\. Lin\.|Synth\. Non-Lin\.|f?MNIST)[^|]*\|(.*)", (ROOT / "README.md").read_text(),
                       re.MULTILINE)
    assert len(shown) == 4
    for name, cells in shown:
        numbers = re.findall(r"[\d.]+ ± [\d.]+", cells)
        assert numbers == re.findall(r"[\d.]+ ± [\d.]+", rows[name]) and len(numbers) == 8, name


def test_tables_of_causes_have_the_digits_that_their_command_prints():
    text = (ROOT / "docs/causes.md").read_text()
    shown = re.findall(r"vae_tf\.experiments (benchmarks/\w+\.toml)[^\n]*\n```\n\n((?:\|.*\n)+)", text)
    assert len(shown) == 5
    for file, table in shown:
        decimals = {metric.label: metric.decimals for metric in tables.load(str(ROOT / file)).metrics.values()}
        rows = [line.strip("|").split("|") for line in table.splitlines()]
        for name, *cells in zip(*rows, strict=True):
            if name.strip() in decimals:
                digits = {len(number) for cell in cells for number in re.findall(r"\d\.(\d+)", cell)}
                assert max(digits) <= decimals[name.strip()], f"{file}: {name}"


def test_llms_txt_and_the_site_list_every_document():
    text, site = (ROOT / "llms.txt").read_text(), (ROOT / "mkdocs.yml").read_text()
    assert re.match(r"# .+\n\n> ", text), "llmstxt.org: a title, and a summary as a quotation"
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", text, re.MULTILINE)
    assert not [link for link in links if not (ROOT / link).is_file()]
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert not pages - set(links), "llms.txt lacks a document"
    assert not [page for page in pages if page.removeprefix("docs/") not in site], "mkdocs.yml lacks a document"
