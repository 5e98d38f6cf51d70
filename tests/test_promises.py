"""What the documents promise stands beside the test that proves it, and that test is there."""

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = ("training", "serving")
NAMED = re.compile(r"`tests/([\w/]+\.py)(?:::(\w+))?`")


def names_in(file):
    return {node.name for node in ast.walk(ast.parse((ROOT / "tests" / file).read_text()))
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_test_that_a_document_names_is_there(document):
    named = NAMED.findall((ROOT / "docs" / f"{document}.md").read_text())
    assert named
    for file, test in named:
        assert not test or test in names_in(file), f"docs/{document}.md names {file}::{test}"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_promise_names_its_test(document):
    text = (ROOT / "docs" / f"{document}.md").read_text()
    promises = re.findall(r"^- \*\*.*\n(?:  .*\n)*", text, re.MULTILINE)
    assert len(promises) > 10
    for promise in promises:
        assert any(test for _, test in NAMED.findall(promise)), promise
