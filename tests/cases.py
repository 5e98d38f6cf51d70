"""One table of models, driven through build, training step, export and reload."""

import os

import numpy as np
import pytest

from vae_tf import data, models

# The models of the five papers.
PAPERS = ("ae", "vae", "beta_vae", "full_covariance_vae", "beta_tcvae", "ivae")

# The other models differ from the VAE in the objective alone: their exports are those of a VAE.
KINDS = ("ae", "vae", "full_covariance_vae", "ivae")

# Options of a FactorVAE whose discriminator trains in milliseconds; that of the paper has 5,000,000 weights.
NARROW = {"discriminator_units": 16}

# model, network, shape of an example, likelihood, further arguments
CASES = [
    *((name, "mlp_synthetic", (3,), "gaussian", {}) for name in PAPERS),
    *((name, "conv_locatello", (16, 16, 1), "bernoulli", {}) for name in KINDS),
    ("vae", "linear", (6,), "gaussian_learned", {}),
    ("vae", "mlp_mnist", (8, 8, 1), "bernoulli", {}),
    ("vae", "mlp_dsprites", (8, 8, 1), "bernoulli", {}),
    ("beta_vae", "mlp_mixture", (20,), "gaussian", {"beta": 0.5}),
    ("vae", "conv_bhowal", (16, 16, 3), "bernoulli", {}),
    ("ivae", "conv_faces", (16, 16, 1), "gaussian", {}),
    ("ivae", "mlp_tcl", (5,), "gaussian", {"prior_mean": "learned"}),
    ("beta_tcvae", "mlp_synthetic", (3,), "gaussian", {"tc_estimator": "stratified"}),
    ("vae", "conv_locatello", (32, 16, 1), "bernoulli", {"dtype": "mixed_bfloat16"}),
    *((name, "mlp_synthetic", (3,), "gaussian", NARROW if name == "factor_vae" else {})
      for name in models.MODELS if name not in PAPERS),
]
IDS = [f"{name}-{network}-{'x'.join(map(str, shape))}-{'-'.join(map(str, more.values()))}".rstrip("-")
       for name, network, shape, _, more in CASES]

EXAMPLES, FACTORS, LATENTS = 40, 2, 3


def find(model, network):
    """The index of the first of CASES with this model and network."""
    return next(index for index, case in enumerate(CASES) if case[:2] == (model, network))

NEEDS_MNIST = pytest.mark.skipif("TFDS_DATA_DIR" not in os.environ, reason="no test downloads: needs TFDS_DATA_DIR")


def dataset(shape, seed=0):
    """Random data with two factors."""
    rng = np.random.default_rng(seed)
    x = (rng.integers(0, 256, (EXAMPLES, *shape), np.uint8) if len(shape) == 3
         else rng.standard_normal((EXAMPLES, *shape)).astype(np.float32))
    values = rng.integers(0, 4, (EXAMPLES, FACTORS))
    factors = [data.Factor("a", 4, "ordinal"), data.Factor("b", 4, "ordinal")]
    return data.from_arrays("random", x, values, factors)


def shake(model, scale=3.0, seed=0):
    """Give a decoder weights of such a size, and biases, that its outputs depend on z as those of a trained one do.

    Those of an untrained decoder hardly do, so that the outputs of another decoder would pass for them.
    """
    rng = np.random.default_rng(seed)
    model.decoder.set_weights([scale * w + rng.normal(0, 0.1, w.shape) for w in model.decoder.get_weights()])
    return model


def build(name, network, shape, likelihood, more, seed=0):
    return models.build(name, shape, network=network, latents=LATENTS, likelihood=likelihood, u_size=FACTORS,
                        examples=EXAMPLES, seed=seed, **more)
