"""Pictures of image models while they train: reconstructions and traversals, as grids for TensorBoard."""

import tensorflow as tf

from vae_tf.models import Autoencoder
from vae_tf.typing import Tensor

EXAMPLES = 8                        # that are reconstructed
PLACES, REACH = 9, 2.0              # where a latent is shown, and how far it moves, in prior standard deviations
MOST_LATENTS = 16
DESCRIPTIONS = {
    "reconstructions": "Above: examples of the training data. Below: what the decoder makes of their codes.",
    "traversals": f"A row for each latent, the first on top. It moves from -{REACH:g} to {REACH:g} standard deviations "
                  "of the prior, or of the codes of an autoencoder; the others stay as encoded from the first example.",
}


def draw_pictures(model: Autoencoder, x: Tensor, u: Tensor | None) -> dict[str, Tensor]:
    """Draw what DESCRIPTIONS describes, each as one image [H, W, C] from 0 to 1; nothing is drawn at random.

    Args:
        model: a model of images; of other than 1 or 3 channels the first 1 or 3 are shown.
        x: [B, h, w, c], from 0 to 1.
        u: [B, |u|], or None.
    """
    mean = model.posterior(x, u).mean()
    reconstructed = model.likelihood(mean).mean()
    moved = model.likelihood(tf.reshape(_move_latents(model, mean, u), (-1, model.latents))).mean()
    return {"reconstructions": _arrange(tf.stack([x, reconstructed])),
            "traversals": _arrange(tf.reshape(moved, (-1, PLACES, *x.shape[1:])))}


def _move_latents(model: Autoencoder, mean: Tensor, u: Tensor | None) -> Tensor:
    """Return codes [L, PLACES, d]: latent l of the first example moves in row l, at most MOST_LATENTS of them."""
    prior = model.prior(None if u is None else u[:1])
    centre, width = ((tf.reduce_mean(mean, 0), tf.math.reduce_std(mean, 0)) if prior is None else
                     (tf.reshape(each, (-1, model.latents))[0] for each in (prior.mean(), prior.stddev())))
    moves = tf.eye(model.latents)[:MOST_LATENTS, tf.newaxis]                        # [L, 1, d]
    places = centre + tf.linspace(-REACH, REACH, PLACES)[:, tf.newaxis] * width     # [PLACES, d]
    return (1 - moves) * mean[0] + moves * places


def _arrange(images: Tensor) -> Tensor:
    """Return rows of images [R, T, h, w, c] as one image [R h, T w, 1 or 3] from 0 to 1."""
    rows, columns, height, width, channels = images.shape
    grid = tf.reshape(tf.transpose(images, (0, 2, 1, 3, 4)), (rows * height, columns * width, channels))
    return tf.clip_by_value(tf.cast(grid, tf.float32)[..., :1 if channels < 3 else 3], 0.0, 1.0)
