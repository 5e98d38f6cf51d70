"""Turn a configuration into a model, its training, its run folder and the card of its export.

    building    the model with its weights
    sizes       the memory that its training takes, estimated
    fitting     its training
    folders     the folder of its run
    cards       what its export says of itself
"""

from vae_tf.configured.building import build_model, scale_as_init_from, take_validation_part
from vae_tf.configured.cards import describe_best, describe_polarised, make_card
from vae_tf.configured.fitting import fit
from vae_tf.configured.folders import choose_name, choose_run_folder
from vae_tf.configured.sizes import check_memory

__all__ = ["build_model", "check_memory", "choose_name", "choose_run_folder", "describe_best", "describe_polarised",
           "fit", "make_card", "scale_as_init_from", "take_validation_part"]
