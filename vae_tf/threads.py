"""One thread at a time in the libraries of linear algebra, whose threads would only wait for each other."""

import functools
import sys
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController


def limit_to_one() -> AbstractContextManager:
    """Return a context in which the libraries that are loaded now use one thread."""
    return _find_libraries(len(sys.modules)).limit(limits=1)


@functools.lru_cache(maxsize=1)
def _find_libraries(modules: int) -> ThreadpoolController:
    """Return the libraries, which are looked for again once another module was imported: it may have loaded one.

    The search takes milliseconds, which metrics on small matrices would spend again for each resample.
    """
    return ThreadpoolController()
