"""Libraries of linear algebra use one thread where that was asked for, whenever they were loaded; calls in pairs."""

import os
import subprocess
import sys
import threading

import pytest

from vae_tf import threads

CODE = """
import numpy
from threadpoolctl import threadpool_info
from vae_tf import threads

def count():
    return {each["filepath"]: each["num_threads"] for each in threadpool_info()}

with threads.limit_to_one():
    assert set(count().values()) == {1}
before = count()
import sklearn.linear_model
after = count()
assert set(before) < set(after), "scikit-learn loads no library of its own"
with threads.limit_to_one():
    assert set(count().values()) == {1}, count()
assert count() == after and set(after.values()) == {2}, after
"""


def test_one_thread_in_what_was_loaded_before_and_after_the_first_search():
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


def test_calls_in_pairs_are_two_at_a_time_and_in_order():
    met = threading.Barrier(2, timeout=60)      # which lets nobody through who comes alone

    def call(i, text):
        met.wait()
        return i, text

    assert list(threads.map_in_pairs(call, range(6), "abcdef")) == list(enumerate("abcdef"))


def test_no_call_begins_after_one_has_failed():
    begun = []

    def call(i):
        begun.append(i)
        if not i:
            raise ValueError("the first")

    with pytest.raises(ValueError, match="the first"):
        list(threads.map_in_pairs(call, range(100_000)))
    assert len(begun) < 100_000
