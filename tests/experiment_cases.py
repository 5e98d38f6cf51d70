"""A small table, a configuration and a result of it, for the tests of experiments."""

from vae_tf.configuration import Configuration
from vae_tf.experiments import planning, recipes, results, tables

TABLE = """
title = "A title"
paper = "A paper"
where = "Table 1"
shows = "Something."
[metrics.dto]
label = "DtO"
better = "lower"
read = "metrics.dto.score"
[[cells]]
row = "a row"
column = "a column"
recipe = "rolinek2018/synthetic_linear_beta_vae"
printed = { dto = [0.5, 0.1] }
quick = { epochs = 2, seeds = 3 }
"""
QUICK = planning.Asked("quick")

CONFIG = Configuration(
    model="vae", network="linear", latents=2, likelihood="gaussian", likelihood_variance=0.01, beta=None,
    beta_warmup_steps=0, dataset="synthetic_linear", data_seed=0, split="random", steps=5, batch_size=64,
    optimizer="adam", learning_rate=1e-3, clip_gradients=0.0, precision="float32", jit_compile="auto", seed=0,
    init_from=None, active_threshold=0.5, data_fingerprint="data", keras={})


def table(tmp_path, text=TABLE):
    path = tmp_path / "a_table.toml"
    path.write_text(text)
    return tables.read(path)


def a_result(seed=0, steps=100, **more):
    flags = dict(recipes.read("rolinek2018/synthetic_linear_beta_vae").flags)
    return {"recipe": "rolinek2018/synthetic_linear_beta_vae", "flags": flags, "seed": seed, "steps": steps,
            "epochs": 2.0, "configuration": {**flags, "seed": seed, "steps": steps}, "numerics": results.NUMERICS,
            "command": "python train.py", "versions": {}, "machine": "a machine", "seconds": {"scoring": 1.0},
            "metrics": {"dto": {"score": 0.25}, "mig --examples=5": {"score": 0.5},
                        "od_score": {"score": 1.0, "no_meaning": "no latent says anything"}},
            "history": {"step": [50, 100], "kl": [3.0, 2.0]}, **more}
