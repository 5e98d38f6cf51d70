"""List, show, check and prepare data: `vae-tf data` lists what there is.

    vae-tf data                       every dataset with its size, shape, factors and licence
    vae-tf data check NAME            what was understood of a dataset or of a file of your own
    vae-tf data show NAME [FILE.png]  a page of examples and of the range of each factor
    vae-tf data prepare NAME          download and prepare a dataset of TensorFlow Datasets
    vae-tf data pack NAME FILE.npz    write a folder of images, or tfds:NAME, as one file; --resize for one size
    vae-tf data verify NAME FILE.npz  compare images that a program makes with those of an archive
"""

if __name__ == "__main__":
    from vae_tf import console
    console.start()     # before the slow imports

import argparse
import os
import pathlib
import sys
import warnings
from typing import Any

import numpy as np

from vae_tf import checks, console, data, extensions, files
from vae_tf.data import drawing, findings, listing, verifying
from vae_tf.errors import InputError, make_printable

LARGEST = 4_096         # pixels that --resize may ask for


def make_parser() -> argparse.ArgumentParser:
    made = console.Parser(__doc__)
    made.add_argument("action", nargs="?", choices=tuple(ACTIONS), default="list")
    made.add_argument("name", nargs="?", help="A dataset, or the path of your own data: an .npz file, a folder of "
                      "images, or a folder of Hugging Face's datasets.")
    made.add_argument("file", nargs="?", help="For show, the page to write [NAME.png]; for pack, the file to "
                      "write; for verify, the archive.")
    made.add_argument("--resize", type=read_size, help="For pack, the height and width of the images.")
    made.add_argument("--data_dir", help="Folder where TFDS keeps prepared datasets; $TFDS_DATA_DIR by default.")
    return made


def read_size(text: str) -> int:
    """Parse the height and width of images."""
    if not (text.isascii() and text.isdecimal() and len(text) < 6 and 1 <= int(text) <= LARGEST):
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to {LARGEST:,}; got {text!r}")
    return int(text)


def check_arguments(asked: argparse.Namespace) -> None:
    """Raise InputError for a name that is missing or too much, and for texts that can be no path."""
    for argument in ("name", "file", "data_dir"):
        if getattr(asked, argument) is not None:
            checks.check_path(argument, getattr(asked, argument))
    if asked.action == "list" and asked.name is not None:
        raise InputError(f"list: expected nothing after it; got {asked.name!r}")
    if asked.action != "list" and asked.name is None:
        raise InputError(f"{asked.action}: expected one of {', '.join(data.DATASETS)}, or a path; got none")
    if asked.file is not None and asked.action not in ("show", "pack", "verify"):
        raise InputError(f"{asked.action}: expected one name; got {asked.file!r} after it")
    if asked.file is None and asked.action in ("pack", "verify"):
        raise InputError(f"{asked.action}: expected a name and the path of a file; got a name alone")
    if asked.resize is not None and asked.action != "pack":
        raise InputError(f"--resize: expected the action pack; got {asked.action}")


def check_target(path: pathlib.Path, kind: str) -> None:
    """Raise InputError for what no file may be written over: a folder, a link, a pipe or a device."""
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise InputError(f"file: expected the path of {kind} to write; got {path}, which is there and no file")


def check(asked: argparse.Namespace) -> None:
    """Print what was understood of a dataset."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        dataset = data.load(asked.name, data_dir=asked.data_dir)
    warned = [make_printable(str(each.message)) for each in caught if issubclass(each.category, UserWarning)]
    print("\n".join(findings.describe_findings(dataset, warned)))


def show(asked: argparse.Namespace) -> None:
    """Draw a page of a dataset."""
    whole = pathlib.Path(os.path.abspath(asked.name))       # whose last part is a name even where "." is given
    path = pathlib.Path(asked.file or f"{whole.stem}.png")
    if path.suffix != ".png":
        raise InputError(f"file: expected the path of a .png file to write; got {path}")
    check_target(path, "a PNG")
    if path.exists() and not drawing.is_page(path):
        raise InputError(f"file: expected a new file, or a page that was drawn before; got {path}, which is another "
                         "picture; name another file")
    if whole.is_dir() and path.resolve().is_relative_to(whole.resolve()):
        raise InputError(f"file: expected the path of a page outside of {asked.name}, of whose images it would be one; "
                         f"got {path}")
    dataset = data.load(asked.name, data_dir=asked.data_dir)
    drawing.draw_page(path, dataset)
    print(f"Written: {path}")


def prepare(asked: argparse.Namespace) -> None:
    """Have TensorFlow Datasets prepare a dataset, unless it has already."""
    entry = data.DATASETS.get(asked.name)
    if asked.name.startswith(data.builders.PREFIX):
        data.load(asked.name, data_dir=asked.data_dir)
        print(f"{asked.name} is prepared")
        return
    if entry is None:
        raise InputError(f"prepare: expected one of {', '.join(data.DATASETS)}, or {data.builders.PREFIX}NAME; "
                         f"got {asked.name!r}")
    if entry.prepared is None:
        print(f"{asked.name} is made in process; there is nothing to prepare")
        return
    entry.load(asked.data_dir, 0)
    print(f"{asked.name} is prepared at {listing.find_prepared(entry.prepared.builder, asked.data_dir)}")


def verify(asked: argparse.Namespace) -> None:
    """Print how many images of a dataset differ from those of an archive."""
    compared = verifying.compare_with_archive(data.load(asked.name, data_dir=asked.data_dir), asked.file)
    if compared.differing:
        print(f"{compared.differing:,} of {compared.images:,} images differ, example {compared.first} first")
        sys.exit(1)
    print(f"All {compared.images:,} images are those of {asked.file}, pixel for pixel")


def pack(asked: argparse.Namespace) -> None:
    """Write a folder of images, or prepared images of TensorFlow Datasets, as an .npz file."""
    path = pathlib.Path(asked.file)
    if path.suffix != ".npz":
        raise InputError(f"file: expected the path of an .npz file to write; got {asked.file}")
    check_target(path, "an .npz file")
    if asked.name.startswith(data.builders.PREFIX):
        if asked.resize is not None:
            raise InputError(f"--resize: expected a folder of images to pack; got {asked.name}")
        arrays = data.builders.read_arrays(asked.name, asked.data_dir)
    elif pathlib.Path(asked.name).is_dir():
        source: Any = data.hugging_face if data.hugging_face.is_saved(asked.name) else data.folders
        arrays = source.read_arrays(asked.name, asked.resize)
    else:
        raise InputError(f"pack: expected a folder of images, or {data.builders.PREFIX}NAME; got {asked.name}")
    data.arrays.make_dataset(asked.name, arrays)        # which refuses what could not be loaded again
    files.write_whole(path, lambda file: np.savez(file, **arrays))
    examples, *shape = arrays["images"].shape
    print(f"Written: {path}, {examples:,} images of shape {'x'.join(map(str, shape))}")


ACTIONS: dict[str, Any] = {
    "list": lambda asked: print("\n".join(listing.list_datasets(asked.data_dir))),
    "check": check, "show": show, "prepare": prepare, "pack": pack, "verify": verify}


def main() -> None:
    asked = make_parser().parse_args()
    console.show_warnings_as_lines(console.name_program())
    try:
        extensions.load()
        check_arguments(asked)
        ACTIONS[asked.action](asked)
    except (InputError, OSError) as error:
        console.fail(error)


if __name__ == "__main__":
    console.run(console.name_program(), main)
