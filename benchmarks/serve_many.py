"""Send a served model many requests of all signatures and sizes from eight threads: python benchmarks/serve_many.py.

It raises an error unless every answer is that of a lone request, wrong requests are refused, and memory stays flat.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import concurrent.futures
import pathlib
import tempfile
import time
from collections.abc import Iterable

import numpy as np
import psutil
import tensorflow as tf

from vae_tf import data, export, models

THREADS = 8
SIGNATURES = ("encode", "encode_floats", "decode", "reconstruct", "sample", "traverse", "jacobian")
SIZES = (1, 2, 3, 7, 16, 33, 64)        # numbers of rows of a request
GROWTH = 100 * 2**20                    # bytes by which memory may grow after the first tenth


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=100_000, help="Number of requests. [100000]")
    with tempfile.TemporaryDirectory() as folder:
        print(serve(pathlib.Path(folder), parser.parse_args().requests))


def serve(folder: pathlib.Path, requests: int) -> str:
    """Send the requests; return what was seen in a line.

    Raises:
        AssertionError: a wrong answer, a wrong request that was answered, or growing memory.
    """
    loaded = tf.saved_model.load(str(export_model(folder)))
    cases = [make_case(name, size) for name in SIGNATURES for size in SIZES]
    expected = [ask(loaded, name, inputs) for name, inputs in cases]
    bad = [("decode", {"z": np.full((2, 3), number, np.float32)}) for number in (np.nan, np.inf)]
    bad += [("decode", {"z": np.zeros((0, 3), np.float32)}),
            ("encode_floats", {"x": np.full((2, 8, 8, 1), 3e38, np.float32)}),
            ("sample", {"n": np.int32(2**31 - 1), "seed": np.int32(0)})]

    def request(number: int) -> None:
        order = np.random.default_rng(number)
        if order.integers(10) == 0:
            refuse(loaded, *bad[order.integers(len(bad))])
        place = order.integers(len(cases))
        for key, value in ask(loaded, *cases[place]).items():
            # Sums in another order, because TensorFlow shares the work of a large batch out over threads.
            np.testing.assert_allclose(value, expected[place][key], rtol=1e-4, atol=1e-5)

    def send_all(numbers: Iterable[int]) -> None:
        for number in numbers:
            request(number)

    def send(first: int, last: int) -> None:
        """Send the requests of these numbers; each thread loops, because a future for each request takes memory."""
        with concurrent.futures.ThreadPoolExecutor(THREADS) as threads:
            shares = [range(first + thread, last, THREADS) for thread in range(THREADS)]
            list(threads.map(send_all, shares))

    process, started = psutil.Process(), time.perf_counter()
    send(0, requests // 10)
    before = process.memory_info().rss
    send(requests // 10, requests)
    grown = process.memory_info().rss - before
    assert grown < GROWTH, f"memory grew by {grown / 2**20:.0f} MiB"
    return (f"{requests:,} requests from {THREADS} threads in {time.perf_counter() - started:.0f} s: all answers "
            f"right, memory grew by {grown / 2**20:.1f} MiB")


def export_model(folder: pathlib.Path) -> pathlib.Path:
    """Export an untrained model of small images; return its path."""
    model = models.build("vae", (8, 8, 1), network="mlp_synthetic", latents=3)
    dataset = data.from_arrays("none", np.zeros((1, 8, 8, 1), np.uint8))
    return export.save(folder / "served", model, dataset, {"model": "vae", "u_size": 0, "recipe": {}}, accept_dark=True)


def make_case(name: str, size: int) -> tuple[str, dict[str, np.ndarray]]:
    """Return a signature and its inputs, with some rows."""
    order = np.random.default_rng(size)
    x = order.integers(0, 256, (size, 8, 8, 1), np.uint8)
    z = order.standard_normal((size, 3)).astype(np.float32)
    inputs = {"encode": {"x": x}, "encode_floats": {"x": (x / 255).astype(np.float32)}, "decode": {"z": z},
              "reconstruct": {"x": x}, "sample": {"n": np.int32(size), "seed": np.int32(size)}, "jacobian": {"z": z},
              "traverse": {"x": x, "latent": np.int32(1), "values": np.linspace(-2, 2, 5, dtype=np.float32)}}
    return name, inputs[name]


def ask(loaded: tf.Module, name: str, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a signature's answer, as arrays by name."""
    answer = loaded.signatures[name](**{key: tf.constant(value) for key, value in inputs.items()})
    return {key: value.numpy() for key, value in answer.items()}


def refuse(loaded: tf.Module, name: str, inputs: dict[str, np.ndarray]) -> None:
    """Raise AssertionError unless a request is refused by the graph's own checks."""
    try:
        ask(loaded, name, inputs)
    except tf.errors.InvalidArgumentError as error:
        assert "assertion failed" in str(error), error
        return
    raise AssertionError(f"{name} answered what it should refuse")


if __name__ == "__main__":
    main()
