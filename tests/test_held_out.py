"""Which examples are held out, what is said of it, and how data are told apart."""

import dataclasses
import warnings

import numpy as np
import pytest

from vae_tf import data
from vae_tf.data import held_out
from vae_tf.data.in_memory import fingerprint
from vae_tf.errors import InputError


def numbered(n=100, name="mine", parts=None, shift=0):
    """Examples that are their own indices."""
    return data.from_arrays(name, np.arange(n, dtype=np.float32)[:, np.newaxis] + shift, parts=parts)


def examples(part):
    return part.images_at(np.arange(len(part)))[:, 0].astype(int).tolist()


def test_data_without_parts_of_their_own_are_split_at_random():
    for whole in (numbered(), data.load("synthetic_linear"), data.load("linear_mixture")):
        assert whole.choose_split("auto") == "random"
    parts = [examples(numbered().split("auto", part, seed=3)) for part in data.dataset.PARTS]
    assert [len(part) for part in parts] == [80, 10, 10] and sorted(np.concatenate(parts)) == list(range(100))
    assert parts[2] == examples(numbered().split("random", "test", seed=3))
    assert parts[2] != examples(numbered().split("auto", "test", seed=4))


def test_nine_tenths_are_for_training_if_asked():
    whole = numbered()
    train, validation, test = (examples(whole.split("random_90_10", part, seed=3)) for part in data.dataset.PARTS)
    assert len(train) == 90 and sorted(train + test) == list(range(100)) and validation == test
    scored = held_out.take_test_part(whole, recipe(whole, "random_90_10"))
    assert examples(scored.dataset) == examples(whole.split("random_90_10", "test"))
    assert scored.settings["trained_on"] == 0


def test_complete_grids_and_published_parts_keep_their_convention():
    published = numbered(parts={"train": range(70), "test": range(70, 100)})
    assert examples(published.split("auto", "train")) == list(range(70))
    assert examples(published.split("auto", "test")) == examples(published.split("auto", "validation"))
    dsprites = data.load("dsprites")
    assert dsprites.complete_grid and not published.complete_grid
    assert len(dsprites.split("auto", "train")) == len(dsprites.split("auto", "test")) == 737_280
    assert len(dsprites.split("random", "test")) == 73_728
    assert dsprites.take(np.arange(737_280)[::-1]).complete_grid and not dsprites.take(np.arange(40)).complete_grid


def test_too_few_examples_to_split_are_refused():
    for n in range(1, 8):
        with pytest.raises(InputError, match=f"split: .* need 8 examples or more; mine has {n}; --split=grid"):
            numbered(n).split("auto", "train")
    for n in range(8, 40):
        assert min(len(numbered(n).split("random", part)) for part in data.dataset.PARTS) > 0
    assert len(numbered(4).split("grid", "train")) == 4
    with pytest.raises(InputError, match=r"split: expected one of auto, .*, random_90_10, hold_out: .*got 'bogus'"):
        numbered().split("bogus", "train")
    with pytest.raises(InputError, match="part: expected one of train, validation, test; got 'all'"):
        numbered().split("auto", "all")


def test_combinations_of_factors_are_held_out():
    sprites = data.load("dsprites").take(np.arange(0, 737_280, 97))
    v = sprites.factors_at(np.arange(len(sprites)))
    held = (v[:, 0] == 2) & (v[:, 3] > 16)
    train, validation, test = (sprites.split("hold_out:shape = 2, x>16.0", part)
                               for part in data.dataset.PARTS)
    np.testing.assert_array_equal(train.part.indices, np.flatnonzero(~held))
    np.testing.assert_array_equal(test.part.indices, np.flatnonzero(held))
    np.testing.assert_array_equal(validation.part.indices, test.part.indices)
    assert train.part.how == "hold_out:shape=2,x>16" and 0 < len(test) < len(train)
    assert held_out.describe_training_part(train) == (
        f"dsprites ({len(train):,} of {len(sprites):,} examples, without those of shape=2 and x>16; the others are "
        "held out)")
    trained = recipe(sprites, train.part.how)
    scored = held_out.take_test_part(sprites, trained)
    assert scored.settings["trained_on"] == 0 and len(scored.dataset) == len(test)
    assert held_out.take_test_part(sprites, trained, "grid").settings["trained_on"] == len(train)


@pytest.mark.parametrize(("given", "written"), [
    ("t>=1700000005001", "t>=1700000005001"), ("t<0.3333333333333333", "t<0.3333333333333333"), ("t=1e3", "t=1000"),
    ("t>1e300", "t>1e+300"), ("t!=-0.0", "t!=0")])
def test_conditions_keep_every_digit(given, written):
    assert data.dataset.check_split(f"hold_out:{given}") == f"hold_out:{written}"
    assert data.dataset.check_split(f"hold_out:{written}") == f"hold_out:{written}"


@pytest.mark.parametrize(("how", "said"), [
    ("hold_out:", "hold_out: and conditions .* got ''"), ("hold_out:x", "got 'x'"), ("hold_out:x>nan", "got 'x>nan'"),
    ("hold_out:x>1,", "got ''"), ("hold_out:=3", "got '=3'"), ("hold_out:x>big", "got 'x>big'"),
    ("hold_out:colour=3", "expected conditions on shape, scale, orientation, x, y; got colour=3"),
    ("hold_out:x>31", "none of 737,280 meet x>31"), ("hold_out:x>=0,y>=0", "all of 737,280 meet x>=0, y>=0"),
])
def test_conditions_that_hold_nothing_out_are_refused(how, said):
    with pytest.raises(InputError, match=f"^split: .*{said}"):
        data.load("dsprites").split(how, "train")


def test_a_number_beyond_float32_is_above_all_of_its_values():
    made = data.from_arrays("mine", np.zeros((4, 2), np.float32), np.float32([[1], [2], [3], [np.nan]]),
                            [data.Factor("v1", None, "continuous")])
    with warnings.catch_warnings(action="error"), pytest.raises(InputError, match=r"none of 4 meet v1>1e\+?39"):
        made.split("hold_out:v1>1e39", "train")


def test_without_factors_there_are_no_conditions():
    with pytest.raises(InputError, match="factors, of which there are none; got v=1"):
        numbered().split("hold_out:v=1", "train")


@pytest.mark.parametrize(("whole", "how", "said"), [
    (numbered(), "auto", "mine (80 of 100 examples, chosen at random; the others are held out)"),
    (numbered(), "random_90_10", "mine (90 of 100 examples, chosen at random; the others are held out)"),
    (numbered(), "grid", "mine (all 100 examples: --split=grid holds none out)"),
    (numbered(parts={"train": range(70), "test": range(70, 100)}), "auto",
     "mine (70 of 100 examples, the published train part; the others are held out)"),
    (dataclasses.replace(numbered(parts={"train": range(70), "test": range(70, 100)}), complete_grid=True), "auto",
     "mine (70 of 100 examples, the published train part; the others are held out)"),
    (data.load("dsprites"), "auto", "dsprites (all 737,280 examples: a complete grid has no held-out part)"),
])
def test_what_is_said_of_training(whole, how, said):
    assert held_out.describe_training_part(whole.split(how, "train")) == said


def recipe(whole, split, **changed):
    return {"dataset": whole.name, "data_seed": 0, "split": split, "data_fingerprint": whole.fingerprint, **changed}


@pytest.mark.parametrize(("whole", "trained", "flags", "words", "trained_on"), [
    (numbered(), {"split": "random"}, (), "10 examples of the test part of mine, none of which was trained on", 0),
    (numbered(), {"split": "grid"}, (), "100 examples of mine, all of which training could see", 100),
    (numbered(), {"split": "random"}, ("grid",), "100 examples of mine, 80 of which training could see", 80),
    (numbered(parts={"train": range(70), "test": range(70, 100)}), {"split": "grid"}, (),
     "30 examples of the published test part of mine, none of which was trained on", 0),
    (data.load("dsprites"), {"split": "grid"}, (),
     "737,280 examples of dsprites, all of which training could see: a complete grid has no held-out part", 737_280),
    (numbered(), {"split": "random", "data_fingerprint": "f00"}, (),
     "100 examples of mine, which are other data than those of training (they have changed since)", None),
    (numbered(), {"split": "random", "data_fingerprint": "f00", "dataset": "old"}, (),
     "100 examples of mine, which are other data than those of training (old)", None),
    (numbered(), {"split": "random", "data_fingerprint": "f00"}, (None, 1),
     "100 examples of mine, which are other data than those of training (--data_seed draws others)", None),
    (numbered(), {"split": ""}, (), "100 examples of mine, of which training may have seen any: the model's card does "
     "not say all that it was trained on", None),
    (numbered(), {"split": "", "dataset": "", "data_fingerprint": ""}, ("random",), "10 examples of the test part of "
     "mine, of which training may have seen any: the model's card does not say all that it was trained on", None),
    # The content counts, not the name; and older cards have the name alone.
    (numbered(), {"split": "random", "dataset": "old"}, (),
     "10 examples of the test part of mine, none of which was trained on", 0),
    (numbered(), {"split": "grid", "data_fingerprint": None}, (),
     "100 examples of mine, all of which training could see", 100),
])
def test_what_is_said_of_scoring(whole, trained, flags, words, trained_on):
    scored = held_out.take_test_part(whole, recipe(whole, **trained), *flags)
    assert scored.words == f"of the {words}" and scored.settings["trained_on"] == trained_on
    assert scored.settings["split"] == scored.dataset.part.how


def test_another_seed_of_the_split_is_counted_exactly():
    whole = numbered(1_000)
    scored = held_out.take_test_part(whole, recipe(whole, "random"), "random", 1)
    trained = set(examples(whole.split("random", "train", 0)))
    assert scored.settings["trained_on"] == len(trained & set(examples(scored.dataset))) not in (0, 100)


@pytest.mark.parametrize(("own", "earlier", "split", "trained_on"), [
    ({}, [{}], "random", 0), ({}, [{"split": "grid"}], "random", 10), ({}, [{"data_fingerprint": "f00"}], "random", 0),
    # Further on other data, scored on the first, by the seed that split these.
    ({"data_fingerprint": "f00", "split": "grid"}, [{"data_seed": 3}], "random", 0),
    ({"split": "grid"}, [{"dataset": ""}], "grid", None), ({}, [{"split": ""}], "random", None),
    ({}, [{"dataset": "b", "data_fingerprint": "f00", "split": ""}], "random", 0),      # on the whole of other data
    # Older cards have names alone.
    ({}, [{"data_fingerprint": "", "data_seed": 3}], "random", None),
    ({}, [{"data_fingerprint": "", "dataset": "there/mine"}], "random", None),
    ({}, [{"data_fingerprint": ""}], "random", 0),
    ({}, [{"data_fingerprint": "f00"}, {"split": "grid"}], "random", 10)])
def test_what_the_first_weights_were_trained_on_counts(own, earlier, split, trained_on):
    whole = numbered()
    scored = held_out.take_test_part(whole, recipe(whole, **{"split": "random", **own}),
                                     earlier=[recipe(whole, **{"split": "random", **each}) for each in earlier])
    assert (scored.settings["split"], scored.settings["trained_on"]) == (split, trained_on)
    assert ("may have seen any" in scored.words) == (trained_on is None)


def test_data_are_told_apart_by_content():
    base = numbered()
    assert base.fingerprint == numbered(name="elsewhere").fingerprint == base.split("auto", "test").fingerprint
    assert len({base.fingerprint, numbered(shift=1).fingerprint, numbered(n=99).fingerprint}) == 3
    x, v = np.zeros((4, 2), np.float32), np.arange(8).reshape(4, 2)
    a, b = data.Factor("a", 8, "ordinal"), data.Factor("b", 8, "ordinal")
    parts = {"train": range(1), "test": range(1, 4)}
    given = [(), (v, (a, b)), (v[::-1], (a, b)), (v, (a, b), v.astype(np.float32)), (v, (b, a)),
             (v, (a, b._replace(kind="cyclic"))), (v, (a, b), None, parts),
             (v, (a, b), None, {**parts, "train": range(2)}), (v, (a, b), None, {**parts, "test": range(1, 4, 2)})]
    known = [data.from_arrays("a", x, *more).fingerprint for more in given]
    assert len(set(known)) == len(given)
    as_numpy = [data.Factor(np.str_(name), np.int64(8), np.str_("ordinal")) for name in "ab"]
    turned = dict(reversed(parts.items()))
    assert known[1] == data.from_arrays("a", x, v, as_numpy).fingerprint
    assert known[6] == data.from_arrays("a", x, v, (a, b), None, turned).fingerprint
    # What a computer's floating point could change does not count: the name, the seed and the version do.
    assert data.load("synthetic_linear").fingerprint == data.load("synthetic_linear").fingerprint
    names = [name for name, entry in data.DATASETS.items() if entry.prepared is None]
    loaded = [data.load(name, seed=seed).fingerprint for name in names for seed in (0, 1)]
    assert len(set(loaded)) == 2 * len(names) - 3         # dSprites, the scenes and the circles have no seed


def test_a_fingerprint_is_of_the_values_not_of_how_they_lie_in_memory():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    same = fingerprint(x)
    assert same == fingerprint(np.asfortranarray(x)) == fingerprint(x.astype(">f4"))
    for other in (x.T, x.reshape(4, 3), x.astype(np.float64), x.view(np.int32)):
        assert fingerprint(other) != same
    assert fingerprint("a", 1) != fingerprint("a", "1") != fingerprint("a1")
