"""Print what all metrics declare: `vae-tf metrics`; --page=FILE writes it into the tables of a page."""

if __name__ == "__main__":
    from vae_tf import console
    console.start()     # before the slow imports

import os
import pathlib

from vae_tf import console, files
from vae_tf.errors import InputError
from vae_tf.metrics import page

LARGEST = 2**24         # bytes of a page


def main() -> None:
    """Print the tables, or write them into a page."""
    parser = console.Parser(__doc__)
    parser.add_argument("--page", type=lambda text: pathlib.Path(os.path.expanduser(text)), metavar="FILE",
                        help="The page whose tables are written anew.")
    file = parser.parse_args().page
    if file is None:
        print("\n\n".join(f"{title}\n{table()}" for title, table in page.TABLES.items()))
        return
    try:
        text = files.read_bytes(file, LARGEST).decode()
        if not page.list_tables(text):
            raise InputError(f"--page: expected a page with the marks of a table, such as {page.write_mark('needs')}; "
                             f"{file} has none")
        files.write_text(file, page.update_tables(text))
    except UnicodeDecodeError:
        console.fail(f"{file}: expected a page in UTF-8")
    except OSError as error:
        console.fail(f"{file}: {error.strerror}")
    except InputError as error:
        console.fail(error)


if __name__ == "__main__":
    console.run(console.name_program(), main)
