"""16 bits on a processor: where they are refused, and where train.py says that they are slow."""

import contextlib

import commands
import pytest
import tensorflow as tf

from vae_tf import devices
from vae_tf.errors import InputError

ONE_DEVICE = tf.distribute.get_strategy()
ON_PROCESSOR = pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="a GPU trains instead of it")


@pytest.mark.parametrize(("precision", "limit", "onednn", "refused"), [
    ("mixed_bfloat16", "AVX2", None, True), ("mixed_bfloat16", "sse41", None, True),
    ("mixed_bfloat16", "AVX2", "0", False), ("mixed_bfloat16", "AVX512_CORE", None, False),
    ("mixed_bfloat16", None, None, False), ("float32", "AVX2", None, False)])
def test_bfloat16_below_avx_512_is_refused(monkeypatch, precision, limit, onednn, refused):
    for name, value in (("ONEDNN_MAX_CPU_ISA", limit), ("TF_ENABLE_ONEDNN_OPTS", onednn)):
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=r"precision: .*ONEDNN_MAX_CPU_ISA") if refused else contextlib.nullcontext():
        devices.check_precision(precision)


@ON_PROCESSOR
@pytest.mark.parametrize(("precision", "instructions", "is_slow"), [
    ("mixed_bfloat16", "avx2 fma", True), ("mixed_bfloat16", "avx2 avx512_bf16", False),
    ("mixed_bfloat16", "amx_bf16", False), ("mixed_bfloat16", "asimdhp bf16", False),
    ("mixed_float16", "avx2 avx512_bf16", True), ("mixed_float16", "avx512_fp16", False),
    ("mixed_float16", "fphp asimdhp", False), ("float32", "avx2", False)])
def test_a_processor_without_instructions_for_16_bits_is_named(monkeypatch, tmp_path, precision, instructions, is_slow):
    monkeypatch.setattr(devices, "PROCESSOR", tmp_path / "cpuinfo")
    assert devices.explain_slow_precision(precision, ONE_DEVICE) is None        # nothing is known
    devices.PROCESSOR.write_text(f"flags : fpu {instructions}\n")
    said = devices.explain_slow_precision(precision, ONE_DEVICE)
    assert (said is not None) == is_slow
    assert not is_slow or f"no instructions for {precision[6:]}; with --precision={precision}" in said


@ON_PROCESSOR
def test_train_warns_of_16_bits_once(monkeypatch, tmp_path):
    monkeypatch.setattr(devices, "PROCESSOR", tmp_path / "cpuinfo")
    devices.PROCESSOR.write_text("flags : fpu avx2\n")
    with pytest.warns(UserWarning) as caught:
        commands.run_train(*commands.QUICK, "--model=vae", "--dataset=synthetic_linear", "--network=mlp_synthetic",
                           "--replicas=2", "--precision=mixed_bfloat16", f"--run_root={tmp_path / 'runs'}",
                           f"--export_root={tmp_path / 'exported'}")
    assert sum("no instructions for bfloat16" in str(each.message) for each in caught) == 1
