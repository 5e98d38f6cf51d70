"""The devices that share the work: tf.distribute strategies, and what a training step needs to know of them.

A batch is shared out over the devices in order of its rows. Noise, sums over the batch and statistics of the
batch are those of the whole, so the result does not depend on how many devices there are, to rounding.
"""

import contextlib
import functools
import itertools
import json
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from vae_tf import console
from vae_tf.console import environment
from vae_tf.errors import InputError, shorten
from vae_tf.typing import Tensor

PROCESSOR = pathlib.Path("/proc/cpuinfo")       # Linux names the processor's instructions there
# Parts of the names of instructions, of which a processor has one if it computes in 16 bits by itself.
INSTRUCTIONS = {"mixed_bfloat16": ("bf16",), "mixed_float16": ("fp16", "asimdhp")}


# Two strategies of a kind would number their collectives alike and mix them up: one of each kind per process.
@functools.cache
def _make_mirrored() -> tf.distribute.Strategy:
    found = _name_logical("GPU") or _name_logical("CPU")
    # One device needs no strategy, under which XLA would compile nothing.
    return tf.distribute.MirroredStrategy(found) if len(found) > 1 else tf.distribute.get_strategy()


@functools.cache
def _make_multi_worker() -> tf.distribute.Strategy:
    if not _read_cluster():
        raise InputError('strategy: multi_worker needs the environment variable TF_CONFIG, such as {"cluster": '
                         '{"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}')
    made = tf.distribute.MultiWorkerMirroredStrategy()
    console.renew_handlers()        # TensorFlow has taken SIGTERM for itself
    return made


@functools.cache
def _make_tpu() -> tf.distribute.Strategy:
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(tpu=os.environ.get("TPU_NAME", "local"))
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, tf.errors.OpError, RuntimeError) as error:
        raise InputError(f"strategy: no TPU was found ({str(error).splitlines()[0].partition('. ')[0]}); "
                         "choices: auto, one_device, mirrored, multi_worker") from None
    return tf.distribute.TPUStrategy(resolver)


def _choose_for_machine() -> tf.distribute.Strategy:
    if _read_cluster():
        return _make_multi_worker()
    if os.environ.get("TPU_NAME"):
        return _make_tpu()
    return _make_mirrored() if len(tf.config.list_physical_devices("GPU")) > 1 else tf.distribute.get_strategy()


STRATEGIES = {
    "auto": _choose_for_machine,                                 # TF_CONFIG, TPU_NAME, several GPUs, or one device
    "one_device": tf.distribute.get_strategy,           # TensorFlow's own: the first GPU, or the CPU
    "mirrored": _make_mirrored,                             # every GPU of this machine, or every logical CPU device
    "multi_worker": _make_multi_worker,                     # the machines of TF_CONFIG
    "tpu": _make_tpu,                                       # TPU_NAME, or this TPU VM's own
}


def choose_strategy(name: str) -> tf.distribute.Strategy:
    """Return a tf.distribute.Strategy by name; to be called before TensorFlow has computed anything.

    Raises:
        InputError: unknown name, or there is no such hardware or cluster.
    """
    if name not in STRATEGIES:
        raise InputError(f"strategy: expected one of {', '.join(STRATEGIES)}; got {name!r}")
    return STRATEGIES[name]()


def check_precision(precision: str) -> None:
    """Refuse bfloat16 where the environment forbids the instructions that TensorFlow's kernels for it rely on.

    On a processor with AVX-512 those kernels abort the process, or fail at the first convolution, once oneDNN's
    environment variable ONEDNN_MAX_CPU_ISA keeps it below AVX-512.

    Raises:
        InputError: "mixed_bfloat16" under such a setting.
    """
    limit = os.environ.get("ONEDNN_MAX_CPU_ISA", "").upper()
    if (precision == "mixed_bfloat16" and limit in ("SSE41", "AVX", "AVX2", "AVX2_VNNI", "AVX2_VNNI_2")
            and os.environ.get("TF_ENABLE_ONEDNN_OPTS") != "0"):
        raise InputError(f"precision: mixed_bfloat16 needs AVX-512 here, and ONEDNN_MAX_CPU_ISA={limit} in the "
                         "environment forbids it; unset it, set TF_ENABLE_ONEDNN_OPTS=0, or choose float32")


def explain_slow_precision(precision: str, strategy: tf.distribute.Strategy) -> str | None:
    """Return a sentence for the user if the processor has no instructions for a precision of 16 bits; else None.

    It is None, too, where a GPU or a TPU trains, and where nobody knows the processor's instructions: outside of Linux.
    """
    if (precision not in INSTRUCTIONS or isinstance(strategy, tf.distribute.TPUStrategy)
            or tf.config.list_physical_devices("GPU") or not PROCESSOR.exists()):
        return None
    known = PROCESSOR.read_text()
    if any(part in known for part in INSTRUCTIONS[precision]):
        return None
    return (f"this processor has no instructions for {precision.removeprefix('mixed_')}; with "
            f"--precision={precision}, training may be slower than with float32, by far with convolutions")


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Return whether this process is the one that writes: the only one, or the first worker of several."""
    resolver = strategy.cluster_resolver
    return resolver is None or not resolver.task_type or (resolver.task_type, resolver.task_id) in (
        ("chief", 0), *((("worker", 0),) if "chief" not in resolver.cluster_spec().jobs else ()))


def count_workers(strategy: tf.distribute.Strategy) -> int:
    """Return the number of processes that share the work."""
    resolver = strategy.cluster_resolver
    return len(resolver.cluster_spec().as_dict().get("worker", [])) + len(
        resolver.cluster_spec().as_dict().get("chief", [])) if resolver and resolver.task_type else 1


def meet(strategy: tf.distribute.Strategy) -> None:
    """Wait until every worker calls this, or one of them has ended."""
    if count_workers(strategy) > 1:
        with contextlib.suppress(tf.errors.OpError):
            tf.function(lambda: strategy.reduce("SUM", strategy.run(lambda: tf.constant(1.0)), axis=None))()


def locate_device() -> tuple[int, int]:
    """Return (this device's number, how many devices there are) under the current strategy; ((0, 1) outside of any)."""
    context = tf.distribute.get_replica_context()
    alone = context is None or context.num_replicas_in_sync == 1
    return (0, 1) if alone else (context.replica_id_in_sync_group, context.num_replicas_in_sync)


def find_threads() -> tuple[str, str]:
    """Return how many threads TensorFlow has for an operation, and how many operations it runs at once.

    Each is a number as in the environment; "0" is as many as there are processors.
    """
    threading = tf.config.threading
    within, between = (str(asked or os.environ.get(name) or 0) for asked, name in zip(
        (threading.get_intra_op_parallelism_threads(), threading.get_inter_op_parallelism_threads()),
        environment.TENSORFLOW_THREADS, strict=True))
    return within, between


def gather_batch(x: Tensor) -> Tensor:
    """Return x [B, ...] of all devices, one after another; gradients flow back to the device of each row."""
    return x if locate_device()[1] == 1 else tf.distribute.get_replica_context().all_gather(x, axis=0)


def change_known(function: Callable[[list[tf.Tensor]], list[tf.Tensor]], gradients: Sequence[tf.Tensor | None],
                 ) -> list[tf.Tensor | None]:
    """Return what a function makes of all gradients that there are, with None for variables that have none."""
    known = [gradient for gradient in gradients if gradient is not None]
    changed = iter(function(known) if known else ())
    return [None if gradient is None else next(changed) for gradient in gradients]


def share_scaled_gradients(gradients: Sequence[tf.Tensor], optimizer: keras.optimizers.Optimizer) -> list[tf.Tensor]:
    """Return gradients with the same sum over all devices as these, and alike on each if the optimizer scales its loss.

    Such an optimizer leaves out a step whose gradients are not finite, which it tells from those of one device.
    """
    _, count = locate_device()
    if count == 1 or not isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return list(gradients)
    return [total / count for total in tf.distribute.get_replica_context().all_reduce("SUM", list(gradients))]


def check_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Refuse settings of an optimizer that are another algorithm, or fail, where several devices share a batch.

    Keras would clip the gradient of each device's share of the batch rather than that of the whole. The devices are
    those of the strategy in scope.

    Raises:
        InputError: an optimizer that clips, accumulates gradients or overwrites weights with their averages.
    """
    if tf.distribute.get_strategy().num_replicas_in_sync == 1:
        return
    inner = getattr(optimizer, "inner_optimizer", optimizer)        # of a LossScaleOptimizer
    parts = (inner, *getattr(inner, "optimizers", ()))              # of a MultiOptimizer
    for part, name in itertools.product(parts, ("clipnorm", "global_clipnorm", "clipvalue",
                                                "gradient_accumulation_steps", "ema_overwrite_frequency")):
        got = getattr(part, name, None)
        if got and (name != "ema_overwrite_frequency" or part.use_ema):
            instead = "; clip_gradients of training.fit clips that of the whole batch" if "clip" in name else ""
            raise InputError(f"optimizer: expected none of Keras' {name} where several devices share a batch; got "
                             f"{got:g}{instead or '; train on one device'}")


def _read_cluster() -> dict[str, Any] | None:
    """Return the cluster of TF_CONFIG, {kind of process: addresses}; None if it names none.

    Raises:
        InputError: TF_CONFIG is no JSON object, or its cluster or its task is none that can train.
    """
    given = os.environ.get("TF_CONFIG") or "{}"
    try:
        config = json.loads(given)
    except (ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise InputError("strategy: expected a JSON object in the environment variable TF_CONFIG; got "
                         + shorten(given, 200))
    cluster = config.get("cluster")
    if not cluster:
        return None
    _check_cluster(cluster)
    task = config.get("task")
    kind, index = (task.get("type"), task.get("index")) if isinstance(task, dict) else (None, None)
    number = int(index) if isinstance(index, str) and index.isdecimal() and len(index) < 9 else index
    if kind not in tuple(cluster) or type(number) is not int or not 0 <= number < len(cluster[kind]):
        raise _refuse_config("task", '{"type": one of ' + " or ".join(cluster) + ', "index": its place there}', task)
    return cluster


def _check_cluster(cluster: Any) -> None:
    """Raise InputError unless a cluster is {"worker": addresses} with, perhaps, one "chief"."""
    chiefs = cluster.get("chief") if isinstance(cluster, dict) else None
    many = isinstance(chiefs, list) and len(chiefs) > 1
    if many or not isinstance(cluster, dict) or not set(cluster) <= {"worker", "chief"}:
        raise _refuse_config("cluster", "an object with lists of addresses of worker and of at most one chief", cluster)
    for kind, addresses in cluster.items():
        if not isinstance(addresses, list) or not addresses:
            raise _refuse_config(kind, "a list of addresses", addresses)
        for address in addresses:
            host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
            if not (host.isprintable() and host.strip() and port.isascii() and port.isdigit() and len(port) < 6
                    and 0 < int(port) < 2**16):
                raise _refuse_config(kind, "addresses such as host1:2222, with a port from 1 to 65535", address)


def _refuse_config(name: str, expected: str, got: Any) -> InputError:
    return InputError(f"strategy: TF_CONFIG: {name}: expected {expected}; got {shorten(json.dumps(got), 200)}")


def _name_logical(kind: str) -> list[str]:
    return [device.name.removeprefix("/device:") for device in tf.config.list_logical_devices(kind)]
