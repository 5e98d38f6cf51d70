"""List the recipes, which train and evaluate take: `vae-tf train --recipe=rolinek2018/mnist_vae`."""

import textwrap

from vae_tf import console, flagfiles


def main() -> None:
    """Print the name, the title and the cost of every recipe."""
    console.Parser(__doc__).parse_args()
    print("\n".join(list_recipes()))


def list_recipes() -> list[str]:
    """Return the lines that say of every recipe what it is and what it costs."""
    lines = []
    for name in flagfiles.list_recipes():
        title, cost = flagfiles.describe_recipe(name)
        lines += [f"{name}: {title}", *textwrap.wrap(cost, 116, initial_indent="    ", subsequent_indent="    ")]
    train, evaluate = console.name_command("train"), console.name_command("evaluate")
    return [*lines, "", f"The files are in {flagfiles.RECIPES}, with what the papers print and what was measured.",
            f"A recipe is trained by: {train} --recipe=NAME; one whose name ends with evaluate is for: {evaluate}"]
