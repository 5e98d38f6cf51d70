"""A program's streams and signals, in processes that import nothing slow."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PRINTING = """
import sys
from vae_tf import console
console.start()
print("\\u00b1", "x" * 100_000)
print("said", file=sys.stderr)
assert all(open("/dev/null").fileno() > 2 for _ in range(3))      # no file takes a standard stream's place
open(sys.argv[1], "w").write("worked")
"""
STOPPED = """
import atexit, os, sys
from vae_tf import console
console.start()

def main():
    atexit.register(print, "tidied up")
    try:
        os.kill(os.getpid(), int(sys.argv[1]))
    except BaseException as error:
        sys.excepthook(SystemError, SystemError("of native code"), error.__traceback__)
        raise
    finally:
        print("left")

console.run("program", main)
print("never")
"""


@pytest.mark.parametrize("redirection", [">/dev/full 2>/dev/full", ">&- 2>&- <&-", "2>/dev/full | true", ">/dev/null"])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_what_cannot_be_printed_is_dropped(tmp_path, redirection, locale):
    (tmp_path / "program.py").write_text(PRINTING)
    command = f"set -o pipefail; {sys.executable} {tmp_path}/program.py {tmp_path}/done {redirection}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True,
                          env={"PYTHONPATH": str(ROOT), "LC_ALL": locale, "PYTHONUTF8": "0",
                               "PYTHONCOERCECLOCALE": "0", "PATH": "/usr/bin:/bin"})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "done").read_text() == "worked"


def test_an_error_amid_a_line_that_is_rewritten_has_a_line_of_its_own():
    printed = ["\rstep 1\033[K", "\rstep 2\033[K", "a warning\n", "another\n", "\rstep 3\033[K", "\r\033[K", "clear\n",
               "\rstep 4\033[K", "\n", "ended\n", "\rstep 5\033[K"]
    program = (f"import sys\nfrom vae_tf import console\nconsole.start()\nfor line in {printed}:\n"
               "    print(line, end='', file=sys.stderr, flush=True)\nconsole.fail('torn')\n")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True)
    assert done.returncode == 2
    assert done.stderr == (b"\rstep 1\033[K\rstep 2\033[K\na warning\nanother\n\rstep 3\033[K\r\033[Kclear\n"
                           b"\rstep 4\033[K\nended\n\rstep 5\033[K\n-c: error: torn\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_program_tidies_up_and_ends_by_the_signal(number):
    done = subprocess.run([sys.executable, "-c", STOPPED, str(int(number))], cwd=ROOT, capture_output=True, text=True,
                          preexec_fn=lambda: signal.signal(number, signal.SIG_DFL))     # a shell may ignore it
    assert done.returncode == -number
    assert done.stdout.splitlines() == ["left", "tidied up"]
    assert done.stderr.splitlines() == [f"program: stopped by {number.name}"]


def test_ctrl_c_amid_imports_ends_the_process_without_a_word():
    done = subprocess.run([sys.executable, "-c", "import os\nfrom vae_tf import console\nconsole.start()\n"
                           "os.kill(os.getpid(), 2)\nprint('never')"], cwd=ROOT, capture_output=True, text=True,
                          preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(("given", "kept"), [({}, "true"), ({"TF_FORCE_GPU_ALLOW_GROWTH": "0"}, "0")])
def test_programs_share_a_gpu_unless_the_environment_says_otherwise(given, kept):
    rest = {name: value for name, value in os.environ.items() if name != "TF_FORCE_GPU_ALLOW_GROWTH"}
    done = subprocess.run([sys.executable, "-c", "import os\nfrom vae_tf import console\nconsole.start()\n"
                           "print(os.environ['TF_FORCE_GPU_ALLOW_GROWTH'])"], cwd=ROOT, capture_output=True, text=True,
                          env={**rest, **given})
    assert (done.stdout, done.stderr) == (f"{kept}\n", "")


@pytest.mark.parametrize("room", ["data", "experiments", "metrics"])
def test_a_module_that_is_run_has_safe_streams_before_its_slow_imports(room):
    text = (ROOT / "vae_tf" / room / "__main__.py").read_text()
    assert text.index("\n    console.start()") < text.index("\nimport ")
