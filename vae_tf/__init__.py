"""vae_tf: why, and when, do variational autoencoders disentangle?

Notation: x data · z latents, size d · u auxiliary variables (iVAE) · v factors · q(z|x) = N(mu, Sigma) ·
p(z) or p(z|u) prior · B batch · N examples. Everything is in nats. docs/glossary.md has every other symbol.

Reading order; each file or folder imports only from those before it (docs/architecture.md says what flows where):

    Tools
    errors          the errors that are one line, and text made safe to print
    typing          names for arrays and tensors in annotations
    memory          the memory that a program may take
    files           files that appear whole or not at all, and locks
    schemas         what a file that is read back must hold
    checks          checks of arguments, one line for each mistake
    arguments       annotations that say what a function takes, and the decorator that checks calls by them
    options         options of models, each a flag and a key of configurations
    kinds           whether a factor is categorical, ordinal, cyclic or continuous
    extensions      code from outside that adds models, networks, datasets and metrics
    extras          packages that not everybody needs
    configuration   everything that a run depends on
    console         the terminal of a program: streams, progress, requests to stop
    flagfiles       recipes, and files of flags that name others
    workers         worker processes
    threads         one thread in the libraries of linear algebra

    Mathematics
    theory          closed forms in float64 NumPy: what the papers predict
    activity        every rule by which a latent is active
    devices         devices that share a batch
    probability     distributions of TensorFlow Probability, imported when one is first used
    tensors         declarations of tensors that a function takes
    graphs          functions of models that become graphs
    bernoulli       a Bernoulli distribution whose gradient takes less time
    distributions   posteriors, priors and likelihoods, made from tensors
    adam            Keras' optimizer Adam with updates that take less time
    wide            a dense layer of many units, whose gradient takes less time
    biases          layers whose gradients of biases are exact and fast
    upsampling      the transposed convolution at the end of a decoder
    splitting       convolutional networks on parts of a batch
    networks        one pair of encoder and decoder per table of a paper
    objectives      reconstruction, KL and total correlation, per example
    jacobians       d Dec(z) / dz in forward and reverse mode, and Gram matrices
    penalties       penalties on a decoder's Jacobian
    models          the models: a posterior, a prior and an objective each

    Data and training
    data            datasets: examples by index, factors and u
    defaults        what theory says of a configuration before training, and step sizes
    array_names     names of a program's arrays in a checkpoint
    replicas        one model, or several of a kind, as one program
    train_step      the training step inside a graph
    runs            a run's folder: configuration, history and checkpoints
    training        the training loop, from a seed and a step

    Scores and exports
    metrics         what the papers measure; METRICS holds what each metric declares
    export          SavedModels, written and read
    verdicts        how many latents carry information, in words
    evaluation      codes and models scored, with chance levels and intervals
    comparison      recipes against each other, over their seeds
    report          answers, tables, figures, and a page for each model

    Programs
    configured      what a configuration becomes: a model, its training, its folder and its card
    cli             every flag once, and the objects that flags become
    programs        train and evaluate, the two to read first
    experiments     the papers' tables and figures, run and summarised
    __main__        the command `vae-tf`, whose first word names a program
"""

import os
import sys

__version__ = "0.1.0"

# Keras picks its backend when it is imported; the models here are TensorFlow programs.
if "keras" in sys.modules and (_backend := sys.modules["keras"].backend.backend()) != "tensorflow":
    raise ImportError(f"vae_tf: expected Keras on the backend tensorflow; it already runs on {_backend} in this "
                      "process; import vae_tf first, or set KERAS_BACKEND=tensorflow")
os.environ["KERAS_BACKEND"] = "tensorflow"
