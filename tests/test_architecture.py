"""The order of the house: what the package's docstring and docs/architecture.md say of the imports is so."""

import ast
import pathlib
import re

import vae_tf

ROOT = pathlib.Path(vae_tf.__file__).parents[1]
PACKAGE = ROOT / "vae_tf"
ORDER = re.findall(r"^    ([a-z_]+)  +[a-zA-Z]", vae_tf.__doc__, re.MULTILINE)


def rooms():
    """{name: its files} of every file and folder of the package."""
    found = {path.stem: [path] for path in PACKAGE.glob("*.py") if path.stem != "__init__"}
    folders = {path.parent for path in PACKAGE.glob("*/__init__.py")}
    return {**found, **{folder.name: sorted(folder.rglob("*.py")) for folder in folders}}


def imports(path):
    """The rooms that a file imports when it is imported itself."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "vae_tf":
            names = [alias.name for alias in node.names] if node.module == "vae_tf" else [node.module.split(".")[1]]
            found |= set(names) & rooms().keys()
    return found


def test_the_reading_order_has_every_room_once():
    assert sorted(ORDER) == sorted(rooms())


def test_rooms_import_only_from_those_before_them():
    wrong = {f"{name} imports {other}" for i, name in enumerate(ORDER) for path in rooms()[name]
             for other in imports(path) - {name} if other not in ORDER[:i]}
    assert not wrong


def test_the_page_has_the_rooms_in_their_order():
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", (ROOT / "docs/architecture.md").read_text(), re.MULTILINE)
    assert re.findall(r"`(\w+)`", "\n".join(rows)) == ORDER
