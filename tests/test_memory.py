"""The memory that a program may take."""

import platform
import resource
import subprocess
import sys

import pytest

from vae_tf import memory
from vae_tf.errors import InputError

# Prints how often the system gave out a page while arrays came and went.
COUNTING = """
import resource
import numpy as np
from vae_tf import memory
if {keeps}:
    memory.keep_freed()
for _ in range(20):
    arrays = [np.ones(2**20, np.float32) for _ in range(4)]
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


@pytest.fixture
def limited():
    yield memory.set_limit
    memory.set_limit(None)


@pytest.mark.parametrize(("groups", "files", "left"), [
    ("0::/a/b", {"memory.max": "100", "memory.current": "90", "memory.stat": "anon 60\nfile 30"}, [40]),
    ("0::/a/b", {"memory.max": "max", "memory.current": "90", "memory.stat": "file 30"}, []),
    ("4:memory:/a/b\n3:cpu:/c", {"memory.limit_in_bytes": "100", "memory.usage_in_bytes": "120",
                                 "memory.stat": "cache 5"}, [0]),
    ("3:cpu:/a/b", {}, []),
])
def test_control_groups_leave_what_their_files_say(tmp_path, groups, files, left):
    (tmp_path / "cgroup").write_text(groups)
    for inside in ("a/b", ""):          # the group's own folder, or the root that a container sees instead
        mounted = tmp_path / f"mounted{len(inside)}"
        folder = mounted / ("memory" if "memory" in groups else "") / inside
        folder.mkdir(parents=True)
        for name, content in files.items():
            (folder / name).write_text(content)
        assert list(memory._find_left_in_control_groups(tmp_path / "cgroup", mounted)) == left
    assert list(memory._find_left_in_control_groups(tmp_path / "none")) == []


def test_a_limit_counts_instead_of_what_the_machine_has(limited):
    assert 0 < memory.find_available() < 2**50
    limited(2**30)
    assert memory.find_available() == 2**30
    memory.check_fits("latents", 2**30, "the model", "ask for fewer")
    with pytest.raises(InputError) as error:
        memory.check_fits("latents", 3 * 2**30, "the model", "ask for fewer")
    assert str(error.value) == ("latents: the model takes about 3.0 GiB of memory, more than the 1.0 GiB that there "
                                "are; ask for fewer")


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries do as they like")
def test_memory_of_freed_arrays_is_kept():
    returned, kept = (int(subprocess.run([sys.executable, "-c", COUNTING.format(keeps=keeps)], check=True,
                                         capture_output=True, text=True).stdout) for keeps in (False, True))
    pages = 4 * 2**22 / resource.getpagesize()
    assert kept < returned - 5 * pages      # of the 20 times that arrays came, glibc cleared about half
