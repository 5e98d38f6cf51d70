"""Choose the examples that a model is scored on, and describe how many of them were used for training."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vae_tf.data import conditions
from vae_tf.data.dataset import Dataset, Part


class Scored(NamedTuple):
    """The part of a dataset that a model is scored on.

    settings are dataset, data_seed, split, data_fingerprint of the whole, and trained_on: how many examples of the part
    were in the training part, None where that cannot be told. words say it after "scored on N".
    """

    dataset: Dataset
    settings: dict[str, Any]
    words: str


def describe_training_part(dataset: Dataset) -> str:
    """Describe the part of a dataset that train.py trains on, such as "mine.npz (80 of 100 examples, ...)"."""
    part, size = _find_part(dataset), len(dataset)
    if dataset.complete_grid and part.how == "grid" and size == part.whole:
        words = f"all {size:,} examples: a complete grid has no held-out part"
    elif size == part.whole:
        words = f"all {size:,} examples: --split=grid holds none out"
    else:
        chosen = _describe_choice(part.how)
        words = f"{size:,} of {part.whole:,} examples, {chosen}; the others are held out"
    return f"{dataset.name} ({words})"


def _describe_choice(how: str) -> str:
    """Return how the examples for training were chosen, in words."""
    if how.startswith(conditions.PREFIX):
        return f"without those of {how.removeprefix(conditions.PREFIX).replace(',', ' and ')}"
    return "the published train part" if how == "grid" else "chosen at random"


def take_test_part(whole: Dataset, recipe: Mapping[str, Any], how: str | None = None, data_seed: int | None = None,
                   earlier: Sequence[Mapping[str, Any]] = ()) -> Scored:
    """Return the part of a dataset to score a model on.

    Args:
        whole: the data.Dataset.
        recipe: the recipe in the card: dataset, data_seed, split, and data_fingerprint unless the card is older. A
            dataset or a split that is an empty text is not known. The training may then have seen any data.
        how: the kind of split, see Dataset.find_indices; None for that of training. Data that the model was not trained
            on need not be held out from it: None takes their published test part, or the whole.
        data_seed: the seed that gave `whole`, and that splits it; None if the recipe's gave it, and the training on
            these data says which one splits it.
        earlier: the same entries of the trainings whose weights the model began with.

    Raises:
        InputError: there is no such split, or the data have too few examples for it.
    """
    seed = recipe["data_seed"] if data_seed is None else data_seed
    of_these = _find_trainings(whole, [recipe, *earlier], seed)
    chosen = next((each for each in of_these if each["split"]), {**recipe, "split": "grid"})
    how = whole.choose_split(how or chosen["split"])
    seed = chosen["data_seed"] if data_seed is None else data_seed
    dataset = whole.split(how, "test", seed)
    trained_on = count_trained_on(dataset, whole, [recipe, *earlier], seed)
    settings = {"dataset": whole.name, "data_seed": seed, "split": how,
                "trained_on": trained_on if of_these else None, "data_fingerprint": whole.fingerprint}
    seen = ("of which training may have seen any: the model's card does not say all that it was trained on"
            if trained_on is None else _describe_seen(dataset, settings, recipe))
    return Scored(dataset, settings, f"{_describe_examples(dataset)}, {seen}")


def count_trained_on(part: Dataset, whole: Dataset, trainings: Sequence[Mapping[str, Any]], data_seed: int
                     ) -> int | None:
    """Return how many examples of a part were in the training part of some training; None where that cannot be told.

    Args:
        part: the part, see Dataset.split.
        whole: the dataset that it is a part of.
        trainings: the recipe of each training, as `take_test_part` has it.
        data_seed: the seed that gave `whole`.
    """
    of_these = _find_trainings(whole, trainings, data_seed)
    # Without a fingerprint, data of another name or seed may be the same.
    if not all(each["dataset"] and (each.get("data_fingerprint") or each in of_these) for each in trainings) or not all(
            each["split"] for each in of_these):
        return None
    trained = [whole.find_indices("train", each["split"], each["data_seed"]) for each in of_these]
    return int(np.isin(_find_part(part).indices, np.concatenate(trained)).sum()) if trained else 0


def _find_trainings(whole: Dataset, trainings: Sequence[Mapping[str, Any]], data_seed: int) -> list[Mapping[str, Any]]:
    """Return those trainings that were given a part of a dataset, by its content or, in older cards, by its name."""
    return [each for each in trainings if (
        whole.fingerprint == each["data_fingerprint"] if each.get("data_fingerprint") else
        (whole.name, data_seed) == (each["dataset"], each["data_seed"]))]


def _find_part(dataset: Dataset) -> Part:
    """Return which part of a dataset this is, for datasets that `split` made."""
    if dataset.part is None:
        raise ValueError(f"{dataset.name}: expected a part of a dataset, see Dataset.split; got a whole one")
    return dataset.part


def _describe_examples(dataset: Dataset) -> str:
    """Return which examples are scored, in words."""
    size, part = len(dataset), _find_part(dataset)
    kind = "" if size == part.whole else f"the {'published ' * (part.how == 'grid')}test part of "
    return f"of the {size:,} examples of {kind}{dataset.name}"


def _describe_seen(dataset: Dataset, settings: Mapping[str, Any], recipe: Mapping[str, Any]) -> str:
    """Return how many of the scored examples training could see, in words."""
    trained_on = settings["trained_on"]
    if trained_on is None:
        others = (f"({recipe['dataset']})" if recipe["dataset"] != dataset.name
                  else "(--data_seed draws others)" if settings["data_seed"] != recipe["data_seed"]
                  else "(they have changed since)")
        return f"which are other data than those of training {others}"
    if trained_on == 0:
        return "none of which was trained on"
    if trained_on < len(dataset):
        return f"{trained_on:,} of which training could see"
    return "all of which training could see" + (": a complete grid has no held-out part" if dataset.complete_grid
                                                else "")
