"""Packages that not everybody needs, which the extras in setup.cfg install."""

import importlib
from types import ModuleType

from vae_tf.errors import InputError


def import_extra(module: str, extra: str, argument: str) -> ModuleType:
    """Import and return a module that an extra of this package installs.

    Args:
        module: the module's name.
        extra: the extra that installs it, such as data.
        argument: what asks for it, with which the error begins.

    Raises:
        InputError: it is not installed, or cannot be imported.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(f"{argument}: expected the package {module}; got none ({error}); install it with "
                         f"pip install 'vae_tf[{extra}]'") from None
    except Exception as error:      # packages read variables of the environment while they are imported
        raise InputError(f"{argument}: the package {module} cannot be imported ({type(error).__name__}: {error}); "
                         "is a variable of the environment wrong that it reads?") from None
