"""The field's sets of images with factors, by name, through TensorFlow Datasets: what is known of each of them.

`tfds_builders` prepares those that TensorFlow Datasets does not have. We have none of the archives.
"""

import math
from typing import NamedTuple

from vae_tf.data import builders, dsprites
from vae_tf.data.dataset import Dataset, Factor
from vae_tf.data.registry import Loader, Prepared, register


class FactorSet(NamedTuple):
    """A set of images with factors.

    builder: the builder of TensorFlow Datasets. licence: of the data. shape: of an image.
    factors: {the builder's feature: the factor}, in the order of the archive.
    archive: the file of a set that this project's own builders prepare, which must be downloaded by hand; "" otherwise.
    address: where that file is, in words.
    """

    builder: str
    licence: str
    shape: tuple[int, int, int]
    factors: dict[str, Factor]
    archive: str = ""
    address: str = ""

    @property
    def examples(self) -> int:
        """How many images there are: one for each combination of the factors."""
        return math.prod(factor.size or 1 for factor in self.factors.values())


def _name(sizes: dict[str, int], kinds: str, prefix: str = "label_") -> dict[str, Factor]:
    """Return {feature: factor} of {name: size}, and a letter for each kind: n(ames), o(rdinal) or c(yclic)."""
    words = {"n": "categorical", "o": "ordinal", "c": "cyclic"}
    return {prefix + name: Factor(name, size, words[kind])
            for (name, size), kind in zip(sizes.items(), kinds, strict=True)}


def _describe_mpi3d(values: int) -> dict[str, Factor]:
    """Return the factors of MPI3D, which has so many colours and as many shapes."""
    return _name({"object_color": values, "object_shape": values, "object_size": 2, "camera_height": 3,
                  "background_color": 3, "horizontal_axis": 40, "vertical_axis": 40}, "nnoonoo")


MPI3D = "CC BY 4.0"
AT_AUTHOR = "https://huggingface.co/datasets/waleedgondal/mpi3d"
MOVED = "the address that most code names, storage.googleapis.com/disentanglement_dataset, is dead"
FACTOR_SETS = {
    "dsprites_archive": FactorSet("dsprites", "Apache-2.0", (64, 64, 1), dict(zip(
        ("label_shape", "label_scale", "label_orientation", "label_x_position", "label_y_position"), dsprites.FACTORS,
        strict=True))),
    "shapes3d": FactorSet("shapes3d", "Apache-2.0", (64, 64, 3), _name(
        {"floor_hue": 10, "wall_hue": 10, "object_hue": 10, "scale": 8, "shape": 4, "orientation": 15}, "cccono")),
    "smallnorb": FactorSet("smallnorb", "none stated", (96, 96, 1), {
        "label_category": Factor("category", 5, "categorical"), "instance": Factor("instance", 10, "categorical"),
        **_name({"elevation": 9, "azimuth": 18, "lighting": 6}, "ocn")}),
    "cars3d": FactorSet("cars3d", "none stated", (64, 64, 3), _name(
        {"elevation": 4, "azimuth": 24, "object_type": 183}, "ocn"), "nips2015-analogy-data.tar.gz",
        "http://www.scottreed.info/files/nips2015-analogy-data.tar.gz"),
    **{f"mpi3d_{name}": FactorSet(f"mpi3d/{name}", MPI3D, (64, 64, 3), _describe_mpi3d(6), f"mpi3d_{name}.npz",
                                  f"{AT_AUTHOR}; {MOVED}") for name in ("toy", "realistic", "real")},
    "mpi3d_real_complex": FactorSet(
        "mpi3d/real_complex", MPI3D, (64, 64, 3), _describe_mpi3d(4), "real3d_complicated_shapes_ordered.npz",
        f"the page https://github.com/rr-learning/disentanglement_dataset, which links to it; {MOVED}"),
    "faces3d": FactorSet("faces3d", "Basel Face Model", (64, 64, 1), _name(
        {"identity": 50, "azimuth": 21, "elevation": 11, "lighting": 11}, "nooo"), "faces3d.npz",
        "docs/data.md, which says how the file is made of basel_face_renders.pth; nobody offers the renders for "
        "download, because the licence of the Basel Face Model, https://faces.dmi.unibas.ch/bfm, forbids it"),
}



def _make_loader(name: str) -> Loader:
    """Return the function that loads a set; nothing in it depends on a seed."""
    def load(data_dir: str | None, seed: int) -> Dataset:
        return builders.read_known(name, FACTOR_SETS[name].builder, FACTOR_SETS[name].factors, data_dir)

    return load


for _set_name, _known in FACTOR_SETS.items():
    register(_set_name, _make_loader(_set_name),
             prepared=Prepared(_known.builder, _known.licence, _known.examples, _known.shape,
                               tuple(factor.name for factor in _known.factors.values())),
             suited={"network": "conv_locatello", "latents": 10, "steps": 10_000})
