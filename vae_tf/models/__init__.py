"""The models of the five papers, those that people compare them with, and those that `register` adds.

    z ~ q(z|x, u)     posterior
    z ~ p(z|u)        prior
    x ~ p(x|z)        likelihood
    objective = reconstruction + beta KL(q || p), per example

Each model overrides one of these, and declares what else the programs need to know of it (`Autoencoder`).
"""

from vae_tf.models.autoencoder import Autoencoder
from vae_tf.models.declarations import KL, LinearTheory, Setting, Update
from vae_tf.models.registry import MODELS, find, find_declared, list_models_with_beta, list_options, register
from vae_tf.models.trainable import check_terms, scale_to_unit_range
from vae_tf.options import Option

# Each of these modules registers its models; the order is that of --help.
from vae_tf.models.ae import AE  # isort: skip
from vae_tf.models.vae import VAE, BetaVAE, FullCovarianceVAE  # isort: skip
from vae_tf.models.beta_tcvae import BetaTCVAE  # isort: skip
from vae_tf.models.ivae import IVAE  # isort: skip
from vae_tf.models.factor_vae import FactorVAE  # isort: skip
from vae_tf.models.dip_vae import DIPVAEI, DIPVAEII  # isort: skip
from vae_tf.models.annealed_vae import AnnealedVAE  # isort: skip
from vae_tf.models.building import build, count_numbers  # isort: skip

DEFAULT = "ivae"        # what train.py trains unless --model says otherwise

__all__ = ["AE", "DEFAULT", "DIPVAEI", "DIPVAEII", "IVAE", "KL", "MODELS", "VAE", "AnnealedVAE", "Autoencoder",
           "BetaTCVAE", "BetaVAE", "FactorVAE", "FullCovarianceVAE", "LinearTheory", "Option", "Setting", "Update",
           "build", "check_terms", "count_numbers", "find", "find_declared", "list_models_with_beta", "list_options",
           "register", "scale_to_unit_range"]
