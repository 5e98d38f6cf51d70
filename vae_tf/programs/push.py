"""Send an exported model to the Hugging Face Hub: `vae-tf push exported/NAME OWNER/NAME`.

The token is that of `hf auth login` or of the environment variable HF_TOKEN. Needs pip install 'vae_tf[hub]'.
"""

from vae_tf import console
from vae_tf.errors import InputError


def main() -> None:
    """Send the model that the arguments name."""
    parser = console.Parser(__doc__)
    parser.add_argument("export", help="exported/NAME for its newest version, or exported/NAME/VERSION.")
    parser.add_argument("repository", help="OWNER/NAME, which is made where there is none.")
    parser.add_argument("--private", action="store_true", help="Make a private repository where there is none.")
    parser.add_argument("--licence", help="The licence of the model, such as apache-2.0; by default none is stated.")
    asked = parser.parse_args()
    from vae_tf import export

    try:
        address = export.push(asked.export, asked.repository, asked.private, asked.licence)
    except (InputError, OSError) as error:
        console.fail(error)
    print(f"Sent to {address}")


if __name__ == "__main__":
    console.run(console.name_program(), main)
