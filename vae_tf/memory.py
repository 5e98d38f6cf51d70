"""The memory that a program may take: what the machine leaves, or what --memory_limit allows."""

import contextlib
import ctypes
import pathlib
from collections.abc import Iterator

import psutil

from vae_tf.errors import InputError

with contextlib.suppress(ImportError):      # Windows limits the memory of no process by itself
    import resource

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3     # of the C library's mallopt
LARGEST_KEPT = 2**25                            # bytes; glibc takes no more

_limit: list[float] = []        # bytes; empty, or the one limit of this process, as the operating system has its own


def set_limit(size: float | None) -> None:
    """Let `find_available` return this number of bytes from now on; None stands for what the machine leaves."""
    _limit[:] = [] if size is None else [size]


def check_fits(argument: str, size: float, what: str, remedy: str) -> None:
    """Raise InputError if something takes more memory than there is.

    Args:
        argument: the argument that asks for it.
        size: an estimate in bytes.
        what: what takes the memory; the subject of the error's sentence.
        remedy: what the user can do about it.
    """
    available = find_available()
    if size > available:
        raise InputError(f"{argument}: {what} takes about {describe_size(size)} of memory, more than the "
                         f"{describe_size(available)} that there are; {remedy}")


def find_available() -> float:
    """Return the bytes that this process can still take: the least that machine, control groups and its limit leave."""
    if _limit:
        return _limit[0]
    left = [psutil.virtual_memory().available, *_find_left_in_control_groups()]
    if "resource" in globals():
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            left.append(max(limit - psutil.Process().memory_info().vms, 0))
    return min(left)


def describe_size(size: float) -> str:
    """Return a number of bytes in words, such as 1.2 GiB."""
    return f"{size / 2**30:,.1f} GiB" if size >= 0.1 * 2**30 else f"{size / 2**20:,.1f} MiB"


def _find_left_in_control_groups(process: str = "/proc/self/cgroup", mounted: str = "/sys/fs/cgroup") -> Iterator[int]:
    """Yield the bytes that each control group of a process leaves: of version 2, or of version 1's `memory`.

    Inside a container a group's folder may not be visible, but that of the container's own root is.
    """
    try:
        groups = [line.split(":", 2) for line in pathlib.Path(process).read_text().splitlines()]
    except OSError:         # not Linux
        return
    for _, controllers, path in groups:
        names = {"": ("", "memory.max", "memory.current", "file"),
                 "memory": ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "cache")}.get(controllers)
        if names is None:
            continue
        root, limit, usage, cache = names
        inside = pathlib.PurePosixPath(path.lstrip("/"))
        for folder in (inside, *inside.parents):
            try:
                at = pathlib.Path(mounted) / root / folder
                total, used = (at / limit).read_text().strip(), int((at / usage).read_text())
                stat = dict(line.split() for line in (at / "memory.stat").read_text().splitlines())
            except (OSError, ValueError):
                continue
            if total != "max":
                yield max(int(total) - used + int(stat.get(cache, 0)), 0)      # the file cache can be reclaimed


def keep_freed() -> None:
    """Have this process keep the memory of freed arrays for its next ones.

    By itself glibc returns memory to the system whenever enough of it is free in one piece. The system clears each page
    before it gives it out again, and a program whose arrays come and go waits for that. After this call, glibc keeps up
    to 64 MiB of free memory, but still returns arrays above 32 MiB. Other C libraries are left as they are.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):       # not of glibc, or Windows, as in `workers`
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(M_TRIM_THRESHOLD, 2 * LARGEST_KEPT)
