"""Posteriors q(z|x), priors p(z) and likelihoods p(x|z), made from the tensors that networks return.

Each function returns a distribution of TensorFlow Probability with batch shape [B]: one distribution per example, over
all latents or all pixels of that example. Tensors of 16 bits, which networks in mixed precision return,
become float32 first, because noise is in float32, and sums over pixels overflow in float16.
"""

import math
from typing import Annotated, Any

import keras
import tensorflow as tf

from vae_tf import arguments, checks, devices
from vae_tf import probability as tfd
from vae_tf.errors import InputError
from vae_tf.tensors import AnyDistribution, AnyFloats, Count, Seed, Tensors, Vectors, widen
from vae_tf.typing import Distribution

LIKELIHOODS = ("bernoulli", "gaussian", "gaussian_learned")


@arguments.check_arguments
def point(mean: Vectors) -> Distribution:
    """Return q(z|x) of an autoencoder: all its mass is at mean [B, d]."""
    return tfd.VectorDeterministic(widen(mean))


@arguments.check_arguments
def diagonal_normal(mean: Vectors, log_variance: Vectors) -> Distribution:
    """Return N(mean, diag exp(log_variance)), both [B, d] (Kingma, Welling 2014; rolinek (3))."""
    return tfd.MultivariateNormalDiag(widen(mean), tf.exp(0.5 * widen(log_variance)))


@arguments.check_arguments
def full_normal(mean: Vectors, lower: Annotated[tf.Tensor, Tensors("... k")]) -> Distribution:
    """Return N(mean, L L^T) (rolinek S76-S78).

    mean is [B, d]; lower is [B, d (d + 1) / 2], the entries of L. The diagonal of L is the exponential of its entries,
    which makes it positive; lower = 0 gives L = I.
    """
    size = mean.shape[-1] * (mean.shape[-1] + 1) // 2
    if lower.shape[-1] != size:
        raise InputError(f"lower: expected {size} numbers per example, to suit the mean; got {lower.shape[-1]}")
    import tensorflow_probability as tfp  # when it is first used, as `probability` does

    L = tfp.math.fill_triangular(widen(lower))
    return tfd.MultivariateNormalTriL(widen(mean), tf.linalg.set_diag(L, tf.exp(tf.linalg.diag_part(L))))


@arguments.check_arguments
def standard_normal(latents: arguments.Size) -> Distribution:
    """Return p(z) = N(0, I) over `latents` dimensions, batch shape []."""
    return tfd.MultivariateNormalDiag(tf.zeros(latents), tf.ones(latents))


@arguments.check_arguments
def draw_noise(seed: Seed, examples: Count, latents: arguments.Size) -> tf.Tensor:
    """Draw eps ~ N(0, I) [B, d] for z = mu + L eps; it depends on the seed alone, which is two integers.

    Under a tf.distribute strategy `examples` counts the examples on this device, and the noise is the rows of the whole
    batch's noise that belong to them. An example therefore gets the same noise whatever the number of devices.
    """
    device, count = devices.locate_device()
    # Latent by latent, as TensorFlow Probability's multivariate normal draws it, with which results were recorded.
    whole = tf.transpose(tf.random.stateless_normal((latents, examples * count), seed))
    return whole if count == 1 else whole[device * examples:(device + 1) * examples]


@arguments.check_arguments
def reparameterise(posterior: AnyDistribution, noise: Vectors) -> tf.Tensor:
    """Sample a normal q(z|x): z = mu + L eps [B, d] for noise eps [B, d] (Kingma, Welling 2014; rolinek S76)."""
    fit = posterior.event_shape.is_compatible_with(noise.shape[-1:]) and posterior.dtype == noise.dtype
    try:
        tf.broadcast_static_shape(posterior.batch_shape, noise.shape[:-1])
    except ValueError:
        fit = False
    if not hasattr(posterior, "bijector") or not fit:
        raise InputError(f"noise: expected a normal posterior, and a number of noise for each of its latents; got "
                         f"{type(posterior).__name__} of {posterior.dtype.name}, batch shape {posterior.batch_shape} "
                         f"and event shape {posterior.event_shape}, and noise of {noise.dtype.name} and shape "
                         f"{noise.shape}")
    return posterior.bijector.forward(noise)


@keras.saving.register_keras_serializable("vae_tf")
class Likelihood(keras.layers.Layer):
    """The likelihood p(x|z), made from the decoder's output.

    Args:
        kind: "bernoulli" (the decoder's output is logits), "gaussian" (its output is the mean, and the variance is
            fixed) or "gaussian_learned" (all pixels share one variance, which is learned; bonheme calls it gamma).
        variance: variance of each pixel, in squared data units; the value at the start if the variance is learned. With
            1/2 the negative log-likelihood is the squared error of the papers, up to a constant.
        trainable: whether a learned variance is trained, as of any Keras layer.
    """

    def __init__(self, kind: str, variance: float = 0.5, trainable: bool = True) -> None:
        super().__init__(name="likelihood", dtype="float32", trainable=trainable)
        checks.check_choice("likelihood", kind, LIKELIHOODS)
        checks.check_number("likelihood_variance", variance, checks.SMALLEST_FLOAT, 0, checks.LARGEST_FLOAT)
        self.kind = kind
        self.log_variance = math.log(variance)
        if kind == "gaussian_learned":
            self.log_variance = self.add_weight(
                shape=(), initializer=keras.initializers.Constant(self.log_variance), name="log_variance",
                autocast=False)
        self.built = True

    @property
    def variance(self) -> float:
        """The variance as it is now, or the nearest that __init__ takes."""
        least, largest = checks.SMALLEST_FLOAT, checks.LARGEST_FLOAT
        logarithm = min(float(self.log_variance), math.log(largest))        # whose exponential is no overflow
        return min(max(math.exp(logarithm), least), largest)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments of __init__, with the variance as it is now."""
        return {"kind": self.kind, "variance": self.variance, "trainable": self.trainable}

    @arguments.check_arguments
    def make_distribution(self, output: AnyFloats) -> Distribution:
        """Return p(x|z) for the decoder's output [B, ...]; its event shape is the shape of one example."""
        output, event_rank = widen(output), len(output.shape) - 1
        if self.kind == "bernoulli":
            from vae_tf.bernoulli import Bernoulli  # imports TensorFlow Probability

            # The dtype is float32, because grey images are scored too, by x log p + (1 - x) log(1 - p).
            return tfd.Independent(Bernoulli(logits=output, dtype=tf.float32), event_rank)
        stddev = tf.cast(tf.exp(0.5 * tf.convert_to_tensor(self.log_variance)), output.dtype)
        return tfd.Independent(tfd.Normal(output, stddev), event_rank)
