import numpy as np
import pytest
import tensorflow as tf
from cases import build

from vae_tf import graphs, models
from vae_tf.metrics import derivatives


class Outside(models.VAE):
    """A model whose class is not the package's."""


def decide(x):
    return tf.exp(x) if x > 0 else x        # only code that AutoGraph rewrites can decide by a tensor


def test_autograph_rewrites_what_models_from_outside_need_and_nothing_else():
    own = build("vae", "mlp_synthetic", (3,), "gaussian", {})
    outside = Outside(own.encoder, own.decoder, own.likelihood_layer)
    assert float(graphs.trace(decide, [own, outside])(tf.constant(-1.0))) == -1
    with pytest.raises(TypeError, match="symbolic"):
        graphs.trace(decide, [own])(tf.constant(-1.0))


def test_autograph_rewrites_what_decoders_from_outside_need():
    """A decoder may be a function, a method, or what a SavedModel gives."""
    own = build("vae", "mlp_synthetic", (3,), "gaussian", {})
    outside = Outside(own.encoder, own.decoder, own.likelihood_layer)
    for decoder in (lambda z: z, outside.call):
        assert float(graphs.trace(decide, [decoder])(tf.constant(-1.0))) == -1
    for decoder in (own.call, own.decoder, tf.exp):
        with pytest.raises(TypeError, match="symbolic"):
            graphs.trace(decide, [decoder])(tf.constant(-1.0))


def test_a_decoder_may_decide_by_a_tensor():
    def decode(z):
        return z * 2.0 if tf.reduce_sum(z) > 0 else z
    np.testing.assert_allclose(derivatives.compute_grams(decode, np.ones((3, 2))), np.tile(4 * np.eye(2), (3, 1, 1)))
    np.testing.assert_allclose(derivatives.compute_grams(decode, -np.ones((3, 2))), np.tile(np.eye(2), (3, 1, 1)))
