"""SavedModels: exported/NAME/VERSION/, written whole or not at all, read with TensorFlow alone.

NAME/ is laid out as TensorFlow Serving watches it. assets.extra/ holds what TensorFlow itself does not need: the card,
the requests that warm a server up, and the Keras weights to go on training with.

    signatures      what the graph computes, what it refuses, and how much one request may ask
    card            what an export says of itself, and the scale of its factors
    folders         the versions: written, found, pruned
    operations      whether a stranger's graph touches files
    exported        a SavedModel as NumPy functions
"""

from vae_tf.export.card import (
    CARD,
    EXTRA,
    SCORED,
    TRAINED_FURTHER,
    WEIGHTS,
    describe,
    outside_of_training,
    read_card,
    scaled_as_trained,
)
from vae_tf.export.exported import Exported, load
from vae_tf.export.folders import check_writable, existing, load_weights, newest, save, versions
from vae_tf.export.operations import suspicious

__all__ = ["CARD", "EXTRA", "SCORED", "TRAINED_FURTHER", "WEIGHTS", "Exported", "check_writable", "describe",
           "existing", "load", "load_weights", "newest", "outside_of_training", "read_card", "save",
           "scaled_as_trained", "suspicious", "versions"]
