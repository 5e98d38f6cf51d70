"""SavedModels: exported/NAME/VERSION/, written whole or not at all, read with TensorFlow alone.

NAME/ is laid out as TensorFlow Serving watches it. assets.extra/ holds what TensorFlow itself does not need: the card,
the requests that warm a server up, and the Keras weights to go on training with.

    checking        checks that are a part of a graph
    limits          how much one request may ask
    functions       what the graph computes, and what it refuses
    signatures      what a server offers: functions within those limits
    card            what an export says of itself, and the scale of its factors
    checksums       whether its files are still those that were exported
    warmup          requests that warm a server up
    priors          the prior that scores compare the posterior with
    versions        exported/NAME/VERSION: found, claimed, pruned
    saving          an export that is written
    model_card      the page of an export on the Hugging Face Hub
    hub             exports sent to the Hub and fetched from it
    weights         the Keras weights beside a SavedModel
    operations      whether a stranger's graph touches files
    exported        a SavedModel as NumPy functions
    from_keras      a model exported that no run is known of, as `model.export` does

What writes an export or computes with one needs TensorFlow, and is imported when it is first used. Cards, versions and
the Hub do without.
"""

import importlib
from typing import TYPE_CHECKING, Any

from vae_tf.export.card import (
    CARD,
    EXTRA,
    SCORED,
    TRAINED_FURTHER,
    WEIGHTS,
    describe_model,
    describe_outside,
    describe_terms,
    list_trainings,
    read_card,
    scale_as_trained,
    update_card,
)
from vae_tf.export.hub import find_newest, is_address, pull, push
from vae_tf.export.versions import list_versions, prune

if TYPE_CHECKING:
    from vae_tf.export.exported import Exported, load
    from vae_tf.export.operations import find_suspicious
    from vae_tf.export.priors import check_prior
    from vae_tf.export.saving import find_existing, save
    from vae_tf.export.weights import load_weights

__all__ = ["CARD", "EXTRA", "SCORED", "TRAINED_FURTHER", "WEIGHTS", "Exported", "check_prior", "describe_model",
           "describe_outside", "describe_terms", "find_existing", "find_newest", "find_suspicious", "is_address",
           "list_trainings", "list_versions", "load", "load_weights", "prune", "pull", "push", "read_card", "save",
           "scale_as_trained", "update_card"]
# The modules of what is imported when it is first used.
_LATER = {"Exported": "exported", "load": "exported", "find_suspicious": "operations", "check_prior": "priors",
          "find_existing": "saving", "save": "saving", "load_weights": "weights"}


def __getattr__(name: str) -> Any:
    """Import what needs TensorFlow when it is first used."""
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
