"""Print what all metrics declare: `python -m vae_tf.metrics`; --page=FILE writes it into the tables of a page."""

import pathlib
import sys

from vae_tf.metrics import page


def main(arguments: list[str]) -> None:
    """Print the tables, or write them into a page."""
    if not arguments:
        print("\n\n".join(f"{title}\n{table()}" for title, table in page.TABLES.items()))
        return
    flag, _, file = arguments[0].partition("=")
    if len(arguments) > 1 or flag != "--page" or not file:
        sys.exit(f"vae_tf.metrics: error: expected nothing or --page=FILE; got {' '.join(arguments)}")
    path = pathlib.Path(file)
    path.write_text(page.update_tables(path.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
