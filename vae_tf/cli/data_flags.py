"""The flags of data, which both programs have."""

from vae_tf import data


def _define_data_flags(group, dataset, text):
    trained = "; by default as in training" if dataset is None else ""
    group.start("Data")
    group.path("dataset", dataset, text)
    group.path("data_dir", None, "Folder where TFDS keeps prepared datasets; $TFDS_DATA_DIR by default.")
    group.integer("data_seed", None if trained else 0, "Seed for data that are drawn at random, and for a random split"
                  f"{trained}.", lower_bound=0)
    group.enum("split", None if trained else "auto", data.SPLITS,
               "Which examples are for training and which for scoring. grid: the published train and test parts, or "
               "else the whole for both; random: 80, 10 and 10 % for training, validation and test; random_90_10: 90 "
               "and 10 % for training and test; auto: grid for a complete grid of factors and for data with published "
               f"parts, random for all other data{trained}.")
