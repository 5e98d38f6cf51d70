"""One thread at a time in the libraries of linear algebra, and two at a time that call TensorFlow."""

import concurrent.futures
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import ThreadpoolController


def limit_to_one() -> AbstractContextManager:
    """Return a context in which the libraries that are loaded now use one thread, as more would wait for each other."""
    return _find_libraries(len(sys.modules)).limit(limits=1)


def map_in_pairs(function: Callable[..., Any], *arguments: Iterable[Any]) -> Iterator[Any]:
    """Give the results of a function for successive arguments, in order, two calls at a time.

    While TensorFlow ends one batch with fewer threads than there are, or NumPy works with one, it begins the next.
    """
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield from pool.map(function, *arguments)


@functools.lru_cache(maxsize=1)
def _find_libraries(modules: int) -> ThreadpoolController:
    """Return the libraries, which are looked for again once another module was imported: it may have loaded one.

    The search takes milliseconds, which metrics on small matrices would spend again for each resample.
    """
    return ThreadpoolController()
