"""What is installed: the source archive, and the wheel that is built from it, hold what the tree says and no more."""

import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[1]
BESIDE = ("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.cfg", "setup.py")
BUILD = "import sys, setuptools.build_meta as made; getattr(made, sys.argv[1])(sys.argv[2])"


def run(*command, folder, path=""):
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=300,
                          check=True, env={**os.environ, "PYTHONPATH": str(path)}).stdout


def list_files(folder):
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with a copy of the tree, the unpacked source archive of it, and the unpacked wheel of that."""
    pytest.importorskip("setuptools", minversion="77", reason="setup.cfg needs setuptools 77 or newer")
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"
    for name in ("vae_tf", "flags", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in BESIDE:
        shutil.copy(ROOT / name, tree)
    run("-c", BUILD, "build_sdist", folder, folder=tree)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    next(path for path in folder.glob("vae_tf-*") if path.is_dir()).rename(folder / "source")
    run("-c", BUILD, "build_wheel", folder, folder=folder / "source")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as archive:
        archive.extractall(folder / "wheel")
    return folder


def test_the_source_archive_has_the_package_the_recipes_and_what_builds_them(built):
    own = {name for name in list_files(built / "source") if not name.startswith(("vae_tf.egg-info/", "build/"))}
    wanted = {name for name in list_files(built / "tree") if name.startswith(("vae_tf/", "flags/"))}
    assert own == {*wanted, *BESIDE, "PKG-INFO"}


def test_the_wheel_has_the_package_the_recipes_and_the_licence(built):
    files = list_files(built / "wheel")
    about = {name for name in files if ".dist-info/" in name}
    assert {name.partition("/")[2] for name in about} == {"METADATA", "RECORD", "WHEEL", "entry_points.txt",
                                                         "licenses/LICENSE", "top_level.txt"}
    wanted = {name if name.startswith("vae_tf/") else f"vae_tf/{name}" for name in list_files(built / "tree")
              if name.startswith(("vae_tf/", "flags/"))}
    assert files - about == wanted


def test_an_installed_package_finds_its_recipes(built, tmp_path):
    out = run("-m", "vae_tf", "recipes", folder=tmp_path, path=built / "wheel")
    assert f"The files are in {built}/wheel/vae_tf/flags," in out and "\nrolinek2018/synthetic_linear: " in out
    read = "from vae_tf import flagfiles; print(flagfiles.expand(['--flagfile=flags/rolinek2018/mnist_vae.flags']))"
    assert "'--dataset=mnist'" in run("-c", read, folder=tmp_path, path=built / "wheel")
