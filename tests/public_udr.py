"""UDR by disentanglement_lib's own code: `python tests/public_udr.py PATH`.

PATH is a checkout of github.com/google-research/disentanglement_lib. It prints the numbers to which
test_metrics_ranking.py holds `metrics.udr`.
"""

import importlib.util
import pathlib
import sys
import types

import numpy as np

KL = np.array([[0.5, 0.7, 1.0, 2.0], [0.5, 0.0, 1.0, 0.0], [1.0, 1.0, 0.009, 0.3], [0.2, 0.0, 0.0, 0.0]])


def models(rows=300):
    """Codes [4, N, 4]: one representation, mixed in four ways, with noise; KL says which latents are informative."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((rows, 4))
    mixings = np.eye(4) + 0.5 * rng.standard_normal((4, 4, 4))
    return z @ mixings + 0.3 * rng.standard_normal((4, rows, 4))


def main(checkout):
    gin = types.ModuleType("gin")
    gin.tf = types.ModuleType("gin.tf")
    gin.tf.configurable = gin.configurable = lambda *_, **__: lambda function: function
    sys.modules.update({"gin": gin, "gin.tf": gin.tf})
    path = pathlib.Path(checkout, "disentanglement_lib/evaluation/udr/metrics/udr.py")
    spec = importlib.util.spec_from_file_location("public", path)
    public = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(public)
    codes = models()
    data = types.SimpleNamespace(sample_observations=lambda count, random_state: np.arange(count))
    functions = [lambda indices, z=z, kl=kl: (z[indices], kl) for z, kl in zip(codes, KL, strict=True)]
    for similarity in ("spearman", "lasso"):
        scores = public.compute_udr_sklearn(data, functions, np.random.RandomState(0), len(codes[0]), len(codes[0]),
                                            similarity)
        print(similarity, np.round(scores["model_scores"], 12).tolist())
        print(np.round(scores["pairwise_disentanglement_scores"], 12)[..., 0].tolist())


if __name__ == "__main__":
    main(*sys.argv[1:])
