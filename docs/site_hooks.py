"""What `mkdocs build` adds to the pages of docs/: those that lie elsewhere, the flags, and the Python API.

The Markdown is written for a checkout, where links lead to files. Here links between pages are kept, and those to
source files become plain text, because a site does not have them.
"""

import ast
import html
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).parents[1]
ELSEWHERE = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
             "exported/README.md": "exported.md"}       # file of the checkout: page of the site
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!\w+:|#)([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files, config):
    """Add the pages that docs/ does not have."""
    for source, page in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    files.append(File.generated(config, "flags.md", content=write_flags()))
    files.append(File.generated(config, "api.md", content=write_api()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Make the links of a page those of the site, and let Markdown within <details> be Markdown."""
    sources = {place: source for source, place in ELSEWHERE.items()}
    source = pathlib.PurePosixPath(sources.get(page.file.src_uri, f"docs/{page.file.src_uri}"))
    up = "../" * page.file.src_uri.count("/")

    def follow(link):
        text, target, anchor = link[1], link[2], link[3] or ""
        path = (ROOT / source.parent / target).resolve().relative_to(ROOT).as_posix()
        place = ELSEWHERE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else "")
        known = files.get_file_from_path(place)
        return f"[{text}]({up}{place}{anchor})" if known else text

    pictures = re.sub(r"(!\[[^\]]*\]\()docs/", r"\1", markdown)
    pictures = pictures.replace("<details>", "<details markdown>")
    parts = re.split(r"(^```.*?^```)", pictures, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if place % 2 else LINK.sub(follow, part) for place, part in enumerate(parts))


def write_flags():
    """The page of all flags under their headings, with defaults, as --help has them."""
    from absl import flags

    from vae_tf import cli
    parts = ["# Flags\n\n`python train.py --help` and `python evaluate.py --help` print these flags.\n"]
    for program, define in (("train.py", cli.define_train_flags), ("evaluate.py", cli.define_evaluate_flags)):
        values = flags.FlagValues()
        parts.append(f"## {program}\n")
        for heading, names in define(values).items():
            rows = [f"| `--{name}` | {escape(values[name].help)} | {describe_default(values[name])} |"
                    for name in names]
            parts.append("\n".join([f"### {program}: {heading}\n", "| flag | what it does | default |", "|---|---|---|",
                                    *rows, ""]))
    return "\n".join(parts)


def escape(text):
    """Text as a cell of a table of Markdown shows it."""
    return html.escape(" ".join(text.split()), quote=False).replace("|", "&#124;")


def describe_default(flag):
    """The default of a flag as one would type it; empty if it has none."""
    text = flag.default_as_str or ""
    return f"`{text.strip(chr(39))}`" if text.strip(chr(39)) else ""


def write_api():
    """The page of the Python API: every module that the package's docstring names, in its reading order."""
    docstring = ast.get_docstring(ast.parse((ROOT / "vae_tf/__init__.py").read_text()))
    modules = re.findall(r"^    ([a-z_]+) {2,}\S", docstring, re.MULTILINE)
    pages = [f"## vae_tf.{name}\n\n::: vae_tf.{name}\n    options:\n      heading_level: 3\n" for name in modules]
    return "\n".join(["# Python API\n", *pages])
