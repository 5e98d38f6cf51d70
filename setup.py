"""Have a wheel hold the recipes of flags/, where vae_tf/flagfiles.py finds them; all else is in setup.cfg."""

import pathlib
import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithRecipes(build_py):
    """Copy flags/ into the package that is built; an editable install finds it where it is."""

    def run(self):
        super().run()
        if not self.editable_mode:
            shutil.copytree("flags", pathlib.Path(self.build_lib, "vae_tf/flags"), dirs_exist_ok=True)


setup(cmdclass={"build_py": BuildWithRecipes})
