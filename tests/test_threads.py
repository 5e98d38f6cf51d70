"""Libraries of linear algebra use one thread where that was asked for, whenever they were loaded."""

import os
import subprocess
import sys

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
