"""Write the notebook of the tutorial from the tutorial's page, so that both show the same code.

    python docs/write_notebook.py           # docs/tutorial.md -> examples/tutorial.ipynb
"""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
PAGE, NOTEBOOK = ROOT / "docs/tutorial.md", ROOT / "examples/tutorial.ipynb"
INSTALL = """\
from importlib.util import find_spec

# In Colab, write the address of this repository here, such as git+https://HOST/OWNER/NAME.
SOURCE = ".."       # the checkout in whose folder examples/ this notebook lies
if find_spec("vae_tf") is None:
    %pip install -q {SOURCE}
%matplotlib inline
"""
SHOW = re.compile(r'^( *)(draw_\w+\(.*\))\.savefig\(.*\)$', re.MULTILINE)


def make_notebook(page):
    """Return the notebook, as its JSON text, of a page in Markdown: its prose and its blocks of Python.

    Printed blocks, pictures and comments are left out, because the notebook prints and draws them itself.
    """
    cells = [("code", INSTALL)]
    for place, part in enumerate(re.split(r"```python\n(.*?)```\n", page, flags=re.DOTALL)):
        if place % 2:
            cells.append(("code", SHOW.sub(r"\1display(\2)", part)))
        else:
            prose = re.sub(r"<!--.*?-->\n|```text\n.*?```\n|^!\[[^\n]*\n", "", part, flags=re.DOTALL | re.MULTILINE)
            prose = re.sub(r"\]\((?!\w+:)", "](../docs/", prose).replace("../docs/../", "../")
            cells.append(("markdown", re.sub(r"\n{3,}", "\n\n", prose)))
    written = [{"cell_type": kind, "id": f"cell-{place}", "metadata": {}, "source": text.strip().splitlines(True),
                **({"execution_count": None, "outputs": []} if kind == "code" else {})}
               for place, (kind, text) in enumerate(cells) if text.strip()]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return json.dumps({"cells": written, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5},
                      indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(make_notebook(PAGE.read_text()))
    print(NOTEBOOK.relative_to(ROOT))
