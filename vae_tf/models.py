"""The models: AE, VAE, beta-VAE, full covariance, beta-TCVAE and iVAE.

    z ~ q(z|x, u)     posterior
    z ~ p(z|u)        prior
    x ~ p(x|z)        likelihood
    objective = reconstruction + beta KL(q || p), per example

Each model overrides one of these; u is there for the iVAE alone.
"""

from typing import Any

import keras
import tensorflow as tf

from vae_tf import checks, devices, distributions, networks, objectives
from vae_tf.errors import InputError

TRAINED_BY = "train with training.fit(model, dataset, optimizer, steps=..., batch_size=...)"


def unit_range(x):
    """Data as a user has them to data as a model sees them: uint8 images to [0, 1], float vectors unchanged."""
    return tf.cast(x, tf.float32) / 255.0 if x.dtype == tf.uint8 else x


class VAE(keras.Model):
    """q(z|x) = N(mu, diag s^2), p(z) = N(0, I), beta = 1 (Kingma, Welling 2014; rolinek (1)-(4)).

    Args:
        encoder: Keras model from x (and u) to a list of heads, sized as `heads` says.
        decoder: Keras model from z [B, d] to the data's shape.
        likelihood: distributions.Likelihood.
    """

    beta = 1.0

    @staticmethod
    def heads(latents):
        """Sizes of the encoder's heads: mean, log-variance."""
        return latents, latents

    def __init__(self, encoder, decoder, likelihood):
        super().__init__()
        self.encoder = encoder
        self.decoder = decoder
        self.likelihood_layer = likelihood
        self.latents = decoder.input_shape[-1]
        self.u_size = encoder.input_shape[1][-1] if isinstance(encoder.input_shape, list) else 0
        self.built = True

    def encode(self, x, u=None, training=False):
        """The encoder's heads for x, float in [0, 1], [B, ...]."""
        inputs = [tf.convert_to_tensor(x), tf.convert_to_tensor(u)] if self.u_size else x
        return keras.tree.flatten(self.encoder(inputs, training=training))

    def posterior(self, x, u=None, training=False):
        """q(z|x): batch shape [B], event shape [d]."""
        return distributions.diagonal_normal(*self.encode(x, u, training))

    def prior(self, u=None):
        """p(z), event shape [d]."""
        return distributions.standard_normal(self.latents)

    def likelihood(self, z, training=False):
        """p(x|z) for z [B, d]; its mean is the decoded image."""
        return self.likelihood_layer.distribution(self.decoder(z, training=training))

    def objective(self, x, u=None, *, noise, beta=None, training=False):
        """The terms of the objective for one z per example, and their weighted sum `loss`, each [B], in nats.

        noise is eps [B, d] of z = mu + L eps, see distributions.noise; beta None stands for the model's own.
        """
        posterior = self.posterior(x, u, training)
        z = distributions.reparameterised(posterior, noise)
        reconstruction = objectives.reconstruction(self.likelihood(z, training), x)
        kl = objectives.kl(posterior, self.prior(u))
        beta = self.beta if beta is None else beta
        return {"loss": reconstruction + beta * kl, "reconstruction": reconstruction, "kl": kl}

    def call(self, x, u=None, training=False):
        """The mean image decoded from the posterior mean."""
        return self.likelihood(self.posterior(x, u, training).mean(), training).mean()

    def compile(self, optimizer="rmsprop", **options):
        """As Keras has it, without a loss: the objective is the model's own.

        Raises:
            InputError: a loss or metrics.
        """
        asked = [name for name in ("loss", "loss_weights", "metrics", "weighted_metrics") if options.get(name)]
        if asked:
            raise InputError(f"{asked[0]}: a {type(self).__name__} has an objective of its own; expected none, "
                             f"got {options[asked[0]]!r}; {TRAINED_BY}")
        super().compile(optimizer=optimizer, **options)

    def _refuse(self, *args, **options):
        raise InputError(f"fit: Keras' own loop knows no objective of a {type(self).__name__}; {TRAINED_BY}")

    fit = evaluate = train_on_batch = test_on_batch = _refuse


class AE(VAE):
    """Autoencoder: q(z|x) is a point, there is no prior, objective = reconstruction."""

    beta = 0.0

    @staticmethod
    def heads(latents):
        return (latents,)

    def posterior(self, x, u=None, training=False):
        return distributions.point(*self.encode(x, u, training))

    def prior(self, u=None):
        return None

    def objective(self, x, u=None, *, noise=None, beta=None, training=False):
        z = self.posterior(x, u, training).mean()
        reconstruction = objectives.reconstruction(self.likelihood(z, training), x)
        return {"loss": reconstruction, "reconstruction": reconstruction}


class BetaVAE(VAE):
    """objective = reconstruction + beta KL (Higgins 2017; rolinek 2.1; sikka (1))."""

    def __init__(self, encoder, decoder, likelihood, beta=4.0):
        super().__init__(encoder, decoder, likelihood)
        self.beta = beta


class FullCovarianceVAE(BetaVAE):
    """q(z|x) = N(mu, L L^T): rolinek's control, whose objective is rotationally symmetric (rolinek 8.3)."""

    @staticmethod
    def heads(latents):
        return latents, latents * (latents + 1) // 2

    def posterior(self, x, u=None, training=False):
        return distributions.full_normal(*self.encode(x, u, training))


class BetaTCVAE(BetaVAE):
    """objective = reconstruction + alpha MI + beta TC + gamma dimension-wise KL, alpha = gamma = 1 (Chen 2018; bhowal).

    examples is N, the size of the training set; tc_estimator a key of objectives.TC_ESTIMATORS.
    """

    def __init__(self, encoder, decoder, likelihood, examples, beta=6.0, tc_estimator="weighted"):
        super().__init__(encoder, decoder, likelihood, beta)
        self.examples = examples
        self.tc_estimator = tc_estimator

    def objective(self, x, u=None, *, noise, beta=None, training=False):
        posterior, prior = self.posterior(x, u, training), self.prior(u)
        z = distributions.reparameterised(posterior, noise)
        reconstruction = objectives.reconstruction(self.likelihood(z, training), x)
        kl = objectives.kl_decomposition(posterior, prior, z, self.examples, self.tc_estimator)
        beta = self.beta if beta is None else beta
        loss = (reconstruction + kl["mutual_information"] + beta * kl["total_correlation"]
                + kl["dimension_wise_kl"])
        return {"loss": loss, "reconstruction": reconstruction, "kl": sum(kl.values()), **kl}


class IVAE(BetaVAE):
    """p(z|u) = N(m(u), diag s_p^2(u)), learned; the encoder sees u too (Khemakhem 2020; bonheme (5)).

    prior_network takes u to the log-variances, and before them the means when their mean is learned too.
    """

    def __init__(self, encoder, decoder, likelihood, prior_network, beta=1.0):
        super().__init__(encoder, decoder, likelihood, beta)
        self.prior_network = prior_network

    def prior(self, u=None):
        *mean, log_variance = tf.split(self.prior_network(u), self.prior_network.output_shape[-1] // self.latents, -1)
        return distributions.diagonal_normal(mean[0] if mean else tf.zeros_like(log_variance), log_variance)


MODELS: dict[str, Any] = {"ae": AE, "vae": VAE, "beta_vae": BetaVAE, "full_covariance_vae": FullCovarianceVAE,
                          "beta_tcvae": BetaTCVAE, "ivae": IVAE}
PRIOR_MEANS = ("zero", "learned")


def build(name, shape, *, network, latents, likelihood="bernoulli", likelihood_variance=0.5, beta=None, u_size=0,
          examples=None, tc_estimator="weighted", prior_mean="zero", seed=0, dtype="float32"):
    """A model by name, with freshly initialised networks.

    Args:
        name: a key of MODELS.
        shape: of one example, (H, W, C) or (n,).
        network: a key of networks.NETWORKS.
        latents: d.
        likelihood, likelihood_variance: see distributions.Likelihood.
        beta: None for the model's own default.
        u_size: |u|, for the iVAE.
        examples: size of the training set, for beta-TCVAE.
        tc_estimator: "weighted" or "stratified", for beta-TCVAE.
        prior_mean: "zero" or "learned", for the iVAE.
        seed: of the initial weights.
        dtype: "float32", "mixed_bfloat16" or "mixed_float16".

    Raises:
        InputError: an argument that this model, network or data cannot take.
    """
    devices.check_precision(dtype)
    checks.choice("model", name, MODELS)
    checks.shape("shape", shape)
    checks.whole("u_size", u_size, 0)
    checks.choice("tc_estimator", tc_estimator, objectives.TC_ESTIMATORS)
    checks.choice("prior_mean", prior_mean, PRIOR_MEANS)
    if beta is not None:
        checks.number("beta", beta, low=0)
    if MODELS[name] is BetaTCVAE:
        checks.whole("examples", examples, 1)
    if beta is not None and not issubclass(MODELS[name], BetaVAE):
        raise InputError(f"beta: {name} has none; got {beta}; models with beta: "
                         + ", ".join(key for key, model in MODELS.items() if issubclass(model, BetaVAE)))
    conditional = MODELS[name] is IVAE
    if conditional and not u_size:
        raise InputError("model: ivae needs data with u or factors; got data with neither; "
                         "choose another model, or give the data a u")
    heads = MODELS[name].heads(latents)
    pair = networks.build(network, shape, latents, heads, u_size if conditional else 0, seed, dtype)
    options = {} if beta is None else {"beta": beta}
    if MODELS[name] is BetaTCVAE:
        options.update(examples=examples, tc_estimator=tc_estimator)
    if conditional:
        outputs = 2 * latents if prior_mean == "learned" else latents
        options.update(prior_network=networks.prior_network(u_size, outputs, seed))
    return MODELS[name](*pair, distributions.Likelihood(likelihood, likelihood_variance), **options)
