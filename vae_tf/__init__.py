"""vae_tf: why, and when, do variational autoencoders disentangle?

Notation: x data · z latents, size d · u auxiliary variables (iVAE) · v factors · q(z|x) = N(mu, Sigma) ·
p(z) or p(z|u) prior · B batch · N examples. Everything is in nats.

Reading order, each file importing only from those before it:

    checks          arguments that are none, one line each
    kinds           what kind a factor is, decided once
    devices         several of them, and what a training step needs to know
    distributions   tensors -> distributions: posteriors, priors, likelihoods
    activity        what an active latent is: every rule by name
    networks        one encoder/decoder pair per paper table
    objectives      reconstruction, KL, total correlation, per example
    models          AE, VAE, beta-VAE, full covariance, beta-TCVAE, iVAE
    theory          closed forms in float64 NumPy: what the papers predict, and the posteriors of data that have one
    data            what they are trained on
    defaults        what a dataset is trained with, and what theory says of a choice beforehand
    runs            a run's folder: configuration, history, checkpoints
    replicas        several models as one program
    batches         which examples form a step
    train_step      the training step, many of them in one graph
    console         a program's terminal: its streams, requests to stop, progress
    rows            rows of history
    training        fit: steps, rows of history, checkpoints, resume
    jacobians       d Dec(z) / dz, in forward and reverse mode
    metrics         what the papers measure
    export          SavedModels, written and read
    verdicts        how many latents carry information, in words
    workers         the processes of an evaluation
    evaluation      an exported model, or anybody's codes, scored
    comparison      recipes against each other, over their seeds
    report          the table of scores, the picture of a model
    cli             every flag, once
"""

import os
import sys

__version__ = "0.1.0"

# Keras picks its backend when it is imported; the models here are TensorFlow programs.
if "keras" in sys.modules and (_backend := sys.modules["keras"].backend.backend()) != "tensorflow":
    raise ImportError(f"vae_tf: expected Keras on the backend tensorflow; it already runs on {_backend} in this "
                      "process; import vae_tf first, or set KERAS_BACKEND=tensorflow")
os.environ["KERAS_BACKEND"] = "tensorflow"
