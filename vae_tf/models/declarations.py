"""Classes for what a model declares beside its mathematics: its updates, and what theory knows of it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from vae_tf.typing import Optimizer, Tensor

# The terms of an objective that beta may weigh, in words.
KL = "KL term"
TOTAL_CORRELATION = "total correlation"


class Setting(NamedTuple):
    """The sizes, seed and options for which a model is built.

    latents: d, the number of latents.
    u_size: |u|; 0 if the data have no u.
    examples: number of training examples; None if it is not known.
    seed: the seed for the initial weights.
    options: the value of each of the model's own options, checked.
    """

    latents: int
    u_size: int
    examples: int | None
    seed: int
    options: Mapping[str, Any]


class Update(NamedTuple):
    """One update of a training step: an optimizer moves variables down the gradient of a term of the objective.

    term: the name of the term, whose mean over the batch these variables minimise.
    variables: trainable variables of the model.
    optimizer: a Keras optimizer, which no other update of the model uses.
    """

    term: str
    variables: Sequence[Any]
    optimizer: Optimizer

    def find_loss(self, terms: Mapping[str, Tensor]) -> Tensor:
        """Return what the variables minimise: the term, and the regularizers of layers, which `loss` has already."""
        if self.term == "loss" or "regularization" not in terms:
            return terms[self.term]
        return terms[self.term] + terms["regularization"]


class LinearTheory(NamedTuple):
    """What theory knows of a model whose encoder and decoder are linear (vae_tf/theory), under a Gaussian likelihood.

    kl_weight: w in the condition that decides which latents collapse: an eigenvalue of the data's covariance is used
        if it is above w s^2 (`theory.critical_betas`). None if w is beta.
    optimum: the posterior's covariance at the optimum that `theory.linear_beta_vae` gives, "diagonal" or "full"; None
        if the optimum is not known.
    """

    kl_weight: float | None = None
    optimum: str | None = None
