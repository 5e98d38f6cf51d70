"""Fetch an exported model from the Hugging Face Hub: `vae-tf pull OWNER/NAME`, or OWNER/NAME@REVISION.

It becomes the next version of exported/NAME, unless a version there has the same files.
Needs pip install 'vae_tf[hub]'.
"""

import os

from vae_tf import console
from vae_tf.errors import InputError


def main() -> None:
    """Fetch the model that the arguments name."""
    parser = console.Parser(__doc__)
    parser.add_argument("repository", help="OWNER/NAME or OWNER/NAME@REVISION, with or without hf:// before it.")
    parser.add_argument("--folder", type=os.path.expanduser,
                        help="The folder whose next version it becomes; by default exported/NAME.")
    asked = parser.parse_args()
    from vae_tf import export

    try:
        path = export.pull(asked.repository, asked.folder)
    except (InputError, OSError) as error:
        console.fail(error)
    print(f"Fetched to {path}")


if __name__ == "__main__":
    console.run(console.name_program(), main)
