"""docs/references.md: it has every paper that the repository cites, and no other."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PAGE = (ROOT / "docs/references.md").read_text()
SOURCES = [path for pattern in ("*.py", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md", "vae_tf/**/*.py",
                                "vae_tf/**/*.toml", "flags/**/*.flags", "benchmarks/*.py", "examples/*.py")
           for path in sorted(ROOT.glob(pattern)) if path.name not in ("references.md", "results.md")]
# Authors and a year, such as "Ridgeway, Mozer 2018".
CITATION = re.compile(r"[A-Z][a-zé]+(?:(?:, | and )[A-Z][a-zé]+)*\s\(?(?:19|20)\d\d\b")


def rows():
    """The cells of every row of the page's tables."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| cited as")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def cited(text):
    """The citations in a text, on whatever lines their words are."""
    text = re.sub(r"\n[ #>|]*", " ", text)
    return {citation.replace("(", "") for citation in CITATION.findall(text)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_citation_is_on_the_page(path):
    missing = {citation for citation in cited(path.read_text()) if citation not in PAGE}
    assert not missing, f"add to docs/references.md: {sorted(missing)}"


def test_every_paper_on_the_page_says_where_it_is():
    assert len(rows()) > 25
    for row in rows():
        assert len(row) == 5 and re.fullmatch(r"(19|20)\d\d", row[2]), row
        assert re.search(r"arXiv:\d{4}\.\d{5}|doi:10\.\d+/|https://|JMLR|Advances in", row[4]), row


def test_every_paper_on_the_page_is_cited():
    everything = "\n".join(re.sub(r"\n[ #>|]*", " ", path.read_text()) for path in
                           [*SOURCES, *(ROOT / "tests").glob("*.py"), *(ROOT / "vae_tf").glob("**/*.toml")])
    for row in rows():
        names = [name.strip(" `") for name in re.findall(r"`[a-z]+`|[A-Z3d][^`]*?\d{4}|^[^`]+$", row[0])]
        assert any(name.lower() in everything.lower() for name in names), row[0]


def test_a_citation_that_is_not_on_the_page_is_found():
    assert cited("As in Somebody, Else 2031.") == {"Somebody, Else 2031"}
    assert cited("as Tipping,\n    Bishop 1999 have it") == {"Tipping, Bishop 1999"}
    assert "Somebody, Else 2031" not in PAGE
