import pytest
import tensorflow as tf
from cases import build

from vae_tf import graphs, models


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
