"""The fenced blocks of the documents: what they say how to type, what they print, and whether that is still true.

A block says its language, and this decides what is done with it:

    python      is run. The blocks of a document share their names, and a folder that is thrown away afterwards.
    sh          is read: each command must exist, and the real parser takes its flags. It is not run by itself.
    text        is what the block above it prints: the output of python, or that of the last command of sh, which is
                run with those above it. "..." stands for any text.

Comments of Markdown above a block change that:

    <!-- not run: REASON -->        the block is read only: names of vae_tf in python must exist, flags must parse
    <!-- given: CODE -->            is run before a block of python, to make what the prose speaks of
    <!-- numbers: within 0.1 -->    the numbers that are printed may differ by so much

`python tests/documents.py [FILE ...]` runs everything, also what is marked as long: <!-- long: REASON -->.
"""

import ast
import contextlib
import importlib
import importlib.util
import io
import os
import pathlib
import re
import shlex
import shutil
import signal
from typing import NamedTuple

from vae_tf import cli

ROOT = pathlib.Path(__file__).parents[1]
DOCUMENTS = [path for pattern in ("README.md", "CONTRIBUTING.md", "docs/*.md", "docs/papers/*.md", "exported/*.md")
             for path in sorted(ROOT.glob(pattern)) if path.name != "results.md"]      # which is generated
LANGUAGES = ("python", "sh", "text", "mermaid", "json", "bibtex")
MARKS = ("not run", "long", "given", "numbers")
BLOCK = re.compile(r"((?:^<!--[^>]*?-->\n+)*)^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"-?(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
# Programs that the documents name and that are not of this repository; what they do is not checked.
OUTSIDE = {".", "cc", "cd", "curl", "dask", "docker", "git", "mkdocs", "mypy", "pre-commit", "ruff", "saved_model_cli",
           "tensorboard", "./turning", "npx"}


class Block(NamedTuple):
    """A fenced block: its language, its text, the number of its first line, and the marks above it by name."""

    language: str
    text: str
    line: int
    marks: dict[str, str]


def list_blocks(path):
    """The blocks of a document, in order."""
    whole = path.read_text()
    found = []
    for match in BLOCK.finditer(whole):
        marks = dict(re.findall(r"<!-- ([a-z ]+):\s(.*?)\s-->", match[1], re.DOTALL))
        found.append(Block(match[2], match[3], whole.count("\n", 0, match.start(2)) + 1,
                           {name: said for name, said in marks.items() if name in MARKS}))
    return found


def list_commands(text):
    """The commands of a block of sh, as lists of words, without comments and variables that are set before them."""
    lines = re.sub(r"\\\n", " ", text)
    lines = re.sub(r"'[^']*'", lambda quoted: quoted[0].replace("\n", " "), lines)
    commands = []
    for line in lines.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        for part in re.split(r" && ", "\0".join(words).replace("\0&&\0", " && ")) if words else ():
            part = [word for word in part.split("\0") if word]
            while part and re.match(r"[A-Z_]+=", part[0]):
                part = part[1:]
            if part and part[0] != "export":
                commands.append(part)
    return commands


def check_command(words):
    """Raise an AssertionError or the parser's own error unless a command could be typed here."""
    program, *rest = words
    if program == "pip":
        extras = re.findall(r"\[([\w,]+)\]", " ".join(rest))
        settings = (ROOT / "setup.cfg").read_text()
        assert all(f"\n{extra} =\n" in settings for each in extras for extra in each.split(",")), extras
    elif program == "vae-tf":
        word = "".join(rest[:1])
        check_command(["python", *([f"{word}.py"] if word in ("train", "evaluate") else ["-m", f"vae_tf.{word}"]),
                       *rest[1:]])
    elif program != "python":
        assert program in OUTSIDE or (ROOT / program).is_file(), program
    elif rest[:1] in (["train.py"], ["evaluate.py"]):
        from commands import parse
        parse(cli.define_train_flags if rest[0] == "train.py" else cli.define_evaluate_flags,
              *(each for each in rest[1:] if each not in ("--help", "--helpfull")))
    elif rest[0] == "-m":
        check_module(rest[1], rest[2:])
    elif rest[0] != "-c":
        source = (ROOT / rest[0]).read_text()
        for option in re.findall(r"(--\w+)", " ".join(rest[1:])):
            assert option in source or f'"{option[2:]}"' in source, f"{rest[0]} has no {option}"


def check_module(name, rest):
    """As `check_command`, of `python -m NAME REST`."""
    if name == "vae_tf.experiments":
        parser = importlib.import_module("vae_tf.experiments.__main__").make_parser()
        named = parser.parse_args(rest).names
        tables = {path.stem for path in (ROOT / "vae_tf/experiments/tables").glob("*.toml")}
        assert all(each in tables or (ROOT / each).exists() for each in named), named
    elif name == "pytest":
        files = [each for each in rest if each.endswith(".py")]
        assert all(list(ROOT.glob(file)) for file in files), files
    else:
        assert name in ("build", "tf2onnx.convert", "venv", "vae_tf.", "vae_tf.data", "vae_tf.metrics",
                        "vae_tf.recipes"), name


def check_names(code):
    """Raise unless code is Python, and each name that it takes from a module of vae_tf is there."""
    tree = ast.parse(code)
    modules = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("vae_tf"):
            source = importlib.import_module(node.module)
            for alias in node.names:
                found = getattr(source, alias.name, None) or importlib.import_module(f"{node.module}.{alias.name}")
                modules[alias.asname or alias.name] = found
    for name in {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}:
        if name not in modules and importlib.util.find_spec(f"vae_tf.{name}"):      # the prose says where it is from
            modules[name] = importlib.import_module(f"vae_tf.{name}")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            assert hasattr(modules[node.value.id], node.attr), f"{node.value.id}.{node.attr}"


def compare(shown, printed, within=0.0):
    """Raise an AssertionError unless what is shown is what was printed, "..." and the tolerance of numbers apart."""
    numbers = [[float(each.replace(",", "")) for each in NUMBER.findall(text)] for text in (shown, printed)]
    normal = [" ".join((NUMBER.sub("0", text) if within else text).split()) for text in (shown, printed)]
    pattern = ".*".join(re.escape(part.strip()) for part in normal[0].split("..."))
    assert re.fullmatch(pattern, normal[1]), f"printed:\n{printed}\nshown:\n{shown}"
    if within and "..." not in shown:
        assert all(abs(a - b) <= within for a, b in zip(*numbers, strict=True)), f"{shown}\n{printed}"


def run_document(path, folder, long=False):
    """Run the blocks of a document in a folder, and compare what they print; an error names the line."""
    names, before, printed = {"__name__": "__main__"}, None, None
    make_checkout(folder)
    for block in list_blocks(path):
        skipped = "not run" in block.marks or ("long" in block.marks and not long)
        try:
            if block.language == "python" and not skipped:
                exec(compile(block.marks.get("given", "") or "", "given", "exec"), names)
                printed = run_python(block, names, folder)
            elif block.language == "text":
                if not skipped and before.language == "sh":
                    for command in list_commands(before.text):
                        if command[:2] in (["python", "train.py"], ["python", "evaluate.py"]):
                            printed = run_command(command, folder, limit=3600 if long else 60)
                if not skipped and printed is not None:
                    compare(block.text, printed, float(block.marks.get("numbers", "within 0").split()[1]))
            if block.language in ("python", "sh"):
                before, printed = block, None if skipped or block.language == "sh" else printed
        except (Exception, SystemExit) as error:
            place = f"{path.relative_to(ROOT)}, the block at line {block.line}"
            raise AssertionError(f"{place}: {error!r}"[:3000]) from error


def make_checkout(folder):
    """Give a folder what commands expect of a checkout; what they write stays in it."""
    for name in ("flags", "examples", "docs", "train.py", "evaluate.py"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "exported").mkdir()
    for export in (ROOT / "exported").iterdir():
        if export.name.startswith(("rolinek2018", "readme")):
            shutil.copytree(export, folder / "exported" / export.name)


def run_python(block, names, folder):
    """What a block of Python prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.chdir(folder):
        exec(compile(block.text, "block", "exec"), names)
    return out.getvalue()


def run_command(words, folder, limit):
    """What a command of this repository prints, on both streams; it is stopped after some seconds."""
    import programs
    process, out, error = programs.start(words[1], *words[2:], folder=folder, environment={"COLUMNS": "100"})
    process.join(limit)
    if process.is_alive():
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"{' '.join(words)} took more than {limit} s; mark what it prints as long")
    return out.read_text() + error.read_text()


def main(paths):
    """Run documents as a whole, what is long included."""
    import tempfile
    for path in paths or DOCUMENTS:
        with tempfile.TemporaryDirectory() as folder:
            run_document(pathlib.Path(path).resolve(), pathlib.Path(folder), long=True)
        print("true:", pathlib.Path(path).resolve().relative_to(ROOT), flush=True)


if __name__ == "__main__":
    import sys
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    main(sys.argv[1:])
