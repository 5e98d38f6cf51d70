import json
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from cases import CASES, FACTORS, IDS, LATENTS, build, dataset

from vae_tf import export, models
from vae_tf.errors import InputError


def card(case):
    return {"model": case[0], "u_size": FACTORS if case[0] == "ivae" else 0,
            "data": {"name": "random", "shape": case[2]}, "recipe": {}}


def saved(tmp_path, case, seed=0):
    model, data = build(*case, seed=seed), dataset(case[2])
    return model, data, export.save(tmp_path / "model", model, data, card(case))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_reloaded_equals_the_model(tmp_path, case):
    model, data, path = saved(tmp_path, case)
    assert path == tmp_path / "model" / "1"
    loaded = export.load(tmp_path)
    # The same kernels on the same numbers; the batch's size and the graph may change their order of summing.
    tolerance = {"rtol": 0.1, "atol": 0.02} if case[4].get("dtype") else {"rtol": 1e-4, "atol": 1e-5}
    for size in (1, 3, 8):
        i = np.arange(size)
        x, u = data.images_at(i), data.u_at(i) if model.u_size else None
        posterior, encoded = model.posterior(models.unit_range(tf.constant(x)), u), loaded.encode(x, u)
        np.testing.assert_allclose(encoded["mean"], posterior.mean(), **tolerance)
        if case[0] == "full_covariance_vae":
            np.testing.assert_allclose(encoded["scale_tril"], posterior.scale_tril, **tolerance)
        elif case[0] != "ae":
            np.testing.assert_allclose(encoded["stddev"], posterior.stddev(), **tolerance)
        if case[0] == "ivae":
            np.testing.assert_allclose(encoded["prior_mean"], model.prior(u).mean(), **tolerance)
            np.testing.assert_allclose(encoded["prior_stddev"], model.prior(u).stddev(), **tolerance)
        z = encoded["mean"]
        decoded = loaded.decode(z)
        np.testing.assert_allclose(decoded["mean"], model.likelihood(z).mean(), **tolerance)
        assert ("logits" in decoded) == (case[3] == "bernoulli")
        ready = models.unit_range(tf.constant(x))
        np.testing.assert_allclose(loaded.reconstruct(x, u)["mean"], model(ready, u), **tolerance)
        for name, term in model.objective(ready, u, seed=(5, 0)).items():
            relative = 0.02 if case[4].get("dtype") else 1e-4
            np.testing.assert_allclose(loaded.objective(x, 5, u)[name], term, rtol=relative, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("case", CASES[:12], ids=IDS[:12])
def test_samples_come_from_the_prior(tmp_path, case):
    _, data, _ = saved(tmp_path, case)
    loaded = export.load(tmp_path / "model")
    if case[0] == "ae":
        with pytest.raises(InputError, match="sample: a model of kind ae has none"):
            loaded.sample(4)
        return
    u = data.u_at(np.arange(1)) if case[0] == "ivae" else None
    one, same, other = (loaded.sample(2_000, seed, u) for seed in (0, 0, 1))
    assert one["images"].shape == (2_000, *case[2]) and one["z"].shape == (2_000, LATENTS)
    np.testing.assert_array_equal(one["z"], same["z"])
    assert not np.array_equal(one["z"], other["z"])
    stddev = loaded.encode(data.images_at(np.arange(1)), u)["prior_stddev"][0] if u is not None else 1
    z = one["z"] / stddev
    assert (np.abs(z.mean(0)) < 5 / np.sqrt(2_000)).all() and (np.abs(z.var(0) - 1) < 5 * np.sqrt(2 / 2_000)).all()


def test_a_process_without_vae_tf_loads_and_runs_every_signature(tmp_path):
    case = CASES[11]
    assert case[0] == "ivae" and case[1] == "conv_locatello"
    _, data, path = saved(tmp_path, case)
    x, u = data.images_at(np.arange(3)), data.u_at(np.arange(3))
    np.savez(tmp_path / "in.npz", x=x, u=u)
    program = f"""
import sys
for name in ("vae_tf", "tensorflow_probability", "keras"):
    sys.modules[name] = None                    # importing it is an error
import numpy as np, tensorflow as tf
model = tf.saved_model.load({str(path)!r})
given = np.load({str(tmp_path / 'in.npz')!r})
x, u = tf.constant(given["x"]), tf.constant(given["u"])
s = model.signatures
assert sorted(s) == ["decode", "encode", "jacobian", "reconstruct", "sample", "serving_default", "traverse"], sorted(s)
out = s["serving_default"](x=x, u=u)
out["decoded"] = s["decode"](z=out["mean"])["mean"]
out["reconstruction"] = s["reconstruct"](x=x, u=u)["mean"]
out["samples"] = s["sample"](n=tf.constant(2), seed=tf.constant(0), u=u[:1])["images"]
np.savez({str(tmp_path / 'out.npz')!r}, **{{k: v.numpy() for k, v in out.items()}})
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, capture_output=True)
    out, loaded = np.load(tmp_path / "out.npz"), export.load(path)
    for name, value in loaded.encode(x, u).items():
        np.testing.assert_allclose(out[name], value, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(out["reconstruction"], out["decoded"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out["samples"], loaded.sample(2, 0, u[:1])["images"], rtol=1e-4, atol=1e-5)


def test_versions_count_up_and_the_newest_is_loaded(tmp_path):
    for version in (1, 2, 3):
        _, _, path = saved(tmp_path, CASES[1], seed=version)
        assert path.name == str(version)
    (tmp_path / "model" / "not a version").mkdir()
    assert export.load(tmp_path).path == export.load(tmp_path / "model").path == path
    assert export.load(tmp_path / "model" / "2").path.name == "2"
    assert sorted(p.name for p in (tmp_path / "model").iterdir()) == ["1", "2", "3", "not a version"]
    assert json.loads((path / export.CARD).read_text())["model"] == "vae"


def test_a_failed_export_leaves_nothing(tmp_path, monkeypatch):
    saved(tmp_path, CASES[1])

    def fail(*args, **more):
        raise OSError("disk full")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        saved(tmp_path, CASES[1])
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["1"]


def test_two_exports_at_once_get_two_versions(tmp_path, monkeypatch):
    rename, raced = os.rename, []

    def race(source, target):
        if not raced:                  # another process is first to take this number
            raced.append(target)
            target.mkdir()
            (target / "saved_model.pb").write_bytes(b"theirs")
        rename(source, target)

    monkeypatch.setattr(os, "rename", race)
    _, _, path = saved(tmp_path, CASES[1])
    assert path.name == "2" and (tmp_path / "model" / "1" / "saved_model.pb").read_bytes() == b"theirs"


def test_no_model_and_wrong_u_are_one_clear_line(tmp_path):
    for root in (tmp_path, tmp_path / "none"):
        with pytest.raises(InputError, match="expected a folder that holds an exported model"):
            export.load(root)
    _, data, _ = saved(tmp_path, CASES[5])
    loaded, x = export.load(tmp_path), data.images_at(np.arange(2))
    with pytest.raises(InputError, match=r"u: a model of kind ivae takes \[B, 2\]; got none"):
        loaded.encode(x)


def test_check_writable_leaves_nothing_behind(tmp_path):
    export.check_writable(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="expected a folder that can be written"):
        export.check_writable(tmp_path / "file" / "b")
