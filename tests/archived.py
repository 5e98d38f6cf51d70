"""Small archives of the field's sets of factors in their real layout: fewer values of factors and, of cars, two."""

import contextlib
import io
import tarfile
from unittest import mock

import numpy as np
import scipy.io

from vae_tf.data import archives, factor_sets

FEW = {"cars3d": (4, 24, 2), "mpi3d_toy": (2, 1, 2, 1, 1, 3, 2), "mpi3d_realistic": (1, 1, 1, 2, 1, 1, 3),
       "mpi3d_real": (1, 2, 1, 1, 1, 2, 1), "mpi3d_real_complex": (2, 2, 1, 1, 1, 1, 1), "faces3d": (2, 3, 1, 2)}
SMALL = {name: factor_sets.FACTOR_SETS[name]._replace(factors={
    key: factor._replace(size=size) for (key, factor), size in
    zip(factor_sets.FACTOR_SETS[name].factors.items(), sizes, strict=True)}) for name, sizes in FEW.items()}


def use_few():
    """A context in which the sets have fewer values of factors."""
    stack = contextlib.ExitStack()
    stack.enter_context(mock.patch.dict(factor_sets.FACTOR_SETS, SMALL))
    stack.enter_context(mock.patch.object(archives, "CARS", 2))
    return stack


def draw(name):
    """The images of a small set, in the order of its grid."""
    return np.random.default_rng(0).integers(0, 256, (SMALL[name].examples, *SMALL[name].shape), np.uint8)


def draw_cars():
    """Two cars, as the archive has them: smooth images, {name: uint8 [128, 128, 3, 24, 4]}."""
    row, column, channel, azimuth, elevation = np.ogrid[:128, :128, :3, :24, :4]
    return {f"car_{k:03}_mesh": np.asarray((row * (k + 1) + column + 40 * channel + 9 * azimuth + 30 * elevation) // 3
                                           % 200, np.uint8) for k in (7, 2)}


def write_cars(path):
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        def add(name, content):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))

        add("data/sprites/sprites_001_mesh.mat", b"these are no cars")
        for name, images in reversed(draw_cars().items()):
            file = io.BytesIO()
            scipy.io.savemat(file, {"im": images, "mask": np.zeros((1, 1))}, do_compression=True)
            add(f"data/cars/{name}.mat", file.getvalue())
        add("data/cars/list.txt", "\n".join(draw_cars()).encode())


def write(name, folder):
    """Write the archive of a set into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / SMALL[name].archive
    if name == "cars3d":
        write_cars(path)
    elif name == "faces3d":
        np.savez(path, images=draw(name).reshape(*FEW[name], 64, 64))
    else:
        np.savez(path, images=draw(name))
    return path
