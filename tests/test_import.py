"""What importing the package changes in a process, and what it refuses; each in a process of its own."""

import os
import pathlib
import platform
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
WATCHING = """
import os, sys, warnings
touched = []
for name in ("dup2", "close"):
    given = getattr(os, name)
    setattr(os, name, lambda descriptor, *more, given=given, name=name: (
        touched.append((name, descriptor, *more)) if 0 <= min((descriptor, *more)) and descriptor in (0, 1, 2) or
        set(more) & {0, 1, 2} else None, given(descriptor, *more))[1])
before = warnings.showwarning, sys.stdout, sys.stderr, sys.excepthook, [os.fstat(i).st_ino for i in (0, 1, 2)]
import vae_tf
from vae_tf.programs import evaluate, train
after = warnings.showwarning, sys.stdout, sys.stderr, sys.excepthook, [os.fstat(i).st_ino for i in (0, 1, 2)]
assert before == after and not touched, touched
print("unchanged")
"""
# A backend that the tests install anyway.
ON_OPENVINO = """
import keras
assert keras.backend.backend() == "openvino"
import vae_tf
"""
# train.py ends where it looks for the other machines, which is after TensorFlow was imported.
CHOOSING = """
import atexit, os, runpy, sys
sys.argv = ["train.py", "--strategy=multi_worker", *{flags}]
def tell():
    from tensorflow.python.util._pywrap_util_port import IsMklEnabled
    print(os.environ.get("TF_ENABLE_ONEDNN_OPTS"), IsMklEnabled())
atexit.register(tell)
runpy.run_path("train.py", run_name="__main__")
"""


def python(program, **environment):
    return subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, **environment})


def test_importing_the_package_changes_no_stream_and_no_hook():
    done = python(WATCHING)
    assert done.stdout == "unchanged\n", done.stderr


def test_a_keras_that_runs_on_another_backend_is_refused():
    done = python(ON_OPENVINO, KERAS_BACKEND="openvino")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "ImportError: vae_tf: expected Keras on the backend tensorflow; it already runs on openvino in this process; "
        "import vae_tf first, or set KERAS_BACKEND=tensorflow")


def test_what_scores_codes_is_imported_without_tensorflow_or_another_slow_library():
    done = python("import sys\nimport vae_tf.data, vae_tf.evaluation, vae_tf.metrics, vae_tf.theory\n"
                  "print({*sys.modules} & {'tensorflow', 'keras', 'sklearn', 'scipy.stats', 'matplotlib', 'pandas'})\n")
    assert done.stdout == "set()\n", done.stderr


def test_a_worker_s_metrics_are_imported_without_pandas_which_can_be_imported_later():
    done = python("import gc, sys\nfrom vae_tf import evaluation\nevaluation.import_libraries()\n"
                  "print('sklearn' in sys.modules, 'pandas' in sys.modules, gc.isenabled())\n"
                  "import pandas\nprint(pandas.DataFrame({'a': [1]}).a.sum())\n")
    assert done.stdout == "True False True\n1\n", done.stderr


def test_a_program_says_nothing_of_its_imports_and_of_tensorflow_s_advice_to_its_programmers():
    program = ("from vae_tf import console\nconsole.start()\nconsole.import_tensorflow()\n"
               "import sys\nassert not {'sklearn', 'matplotlib', 'pandas'} & {*sys.modules}\n"
               "import sklearn, matplotlib\n"
               "from vae_tf.programs import evaluate, train\n"
               "import gc\nassert gc.isenabled() and gc.get_freeze_count() > 100_000\n"
               "assert gc.get_threshold()[0] == 20_000\n"
               "import tensorflow as tf\nassert not tf.config.experimental.tensor_float_32_execution_enabled()\n"
               "def copy(x):\n    return x\n"
               "for i in range(9):\n    tf.function(copy)(tf.zeros(i))\n"      # it would advise against retracing
               "tf.get_logger().warning('a warning')\n")
    done = python(program, TF_CPP_MIN_LOG_LEVEL="3")
    assert (done.returncode, done.stdout) == (0, "")
    said, = done.stderr.splitlines()
    assert said.endswith("a warning")


def test_what_scores_an_export_is_imported_without_tensorflow_probability_which_is_imported_when_it_is_needed():
    done = python("import sys\nfrom vae_tf import console\nconsole.start()\n"
                  "console.import_tensorflow(distributions=False)\n"
                  "from vae_tf.programs import evaluate\nfrom vae_tf import distributions\n"
                  "print('tensorflow_probability' in sys.modules)\n"
                  "print(distributions.standard_normal(2).event_shape, 'tensorflow_probability' in sys.modules)\n")
    assert done.stdout == "False\n(2,) True\n", done.stderr


@pytest.mark.skipif(platform.machine() != "x86_64", reason="TensorFlow has the kernels of oneDNN on x86 alone")
@pytest.mark.parametrize(("flags", "given", "told"), [
    (["--dataset=dsprites"], None, "1 True"), (["--dataset=dsprites"], "0", "0 False"),
    (["--dataset=dsprites", "--network=mlp_tcl"], None, "None")])
def test_training_takes_the_kernels_of_onednn_unless_networks_are_narrow(monkeypatch, flags, given, told):
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    done = python(CHOOSING.format(flags=flags), **({"TF_ENABLE_ONEDNN_OPTS": given} if given else {}))
    assert "needs the environment variable TF_CONFIG" in done.stderr
    assert done.stdout.startswith(told), done.stderr       # what TensorFlow does by itself depends on the processor


@pytest.mark.parametrize(("flags", "more", "told"), [
    (["--network=conv_locatello"], {}, True), ([], {}, True), (["--network=mlp_dsprites"], {}, False),
    (["--network=conv_faces"], {}, False),
    (["--network=conv_bhowal", "--strategy=one_device", "--jit_compile=false"], {}, True),
    (["--network=conv_locatello", "--replicas=2"], {}, False),
    (["--network=conv_locatello", "--sweep_beta=1,2", "--model=beta_vae"], {}, False),
    (["--network=conv_locatello", "--jit_compile=true"], {}, False),
    (["--network=conv_locatello", "--strategy=mirrored"], {}, False),
    (["--network=conv_locatello"], {"TF_CONFIG": "{}"}, False),
    (["--network=conv_locatello"], {"TPU_NAME": "local"}, False)])
def test_training_asks_for_threads_for_parts_of_batches_where_it_has_such_parts(flags, more, told):
    program = ("import runpy, sys\nfrom vae_tf import console\n"
               "sys.argv = ['train.py', '--dataset=dsprites', *{flags}]\n"
               "console.import_tensorflow = lambda narrow, in_parts: sys.exit(f'in parts: {{bool(in_parts)}}')\n"
               "runpy.run_path('train.py', run_name='__main__')\n")
    assert python(program.format(flags=flags), **more).stderr == f"in parts: {told}\n"
