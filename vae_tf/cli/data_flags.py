"""The definitions of the data flags, which both programs have."""

from vae_tf import data
from vae_tf.cli.groups import FlagGroups


def define_data_flags(group: FlagGroups, dataset: str | None, text: str) -> None:
    """Define the flags of data.

    Args:
        group: the groups to which the flags are added.
        dataset: the default of --dataset; None if all data flags default to the data that the model was trained on.
        text: the help text of --dataset.
    """
    trained = "; by default as in training" if dataset is None else ""
    group.start("Data")
    group.add_path("dataset", dataset, text)
    group.add_path("data_dir", None, "Folder where TFDS keeps prepared datasets; $TFDS_DATA_DIR by default.")
    group.add_integer("data_seed", None if trained else 0, "Seed for data that are drawn at random, and for a random "
                      f"split{trained}.", lower_bound=0)
    group.add_text("split", None if trained else "auto", data.check_split,
                   "Which examples are for training and which for scoring. grid: the published train and test parts, "
                   "or the whole dataset for both if it has no such parts; random: 80, 10 and 10 % for "
                   "training, validation and test; "
                   "random_90_10: 90 and 10 % for training and test; hold_out:shape=2,x>16: examples whose factors "
                   "meet all of these conditions for test, and the others for training; auto: grid for the "
                   "complete grids of factors that this package makes and for data with published parts, random for "
                   f"all other data, such as your own files{trained}.")
