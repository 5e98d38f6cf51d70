"""Names of a checkpoint's arrays: each variable has one, and it does not depend on what else was made."""

import keras
import pytest
from cases import CASES, IDS, build

from vae_tf import array_names, replicas


def names(case, optimizer):
    program = replicas.Single(build(*case), optimizer, 0)
    return {name: array.shape for name, array in program.collect_state()[0].items()}


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_variable_has_a_name_that_other_models_do_not_change(case):
    adam = keras.optimizers.Adam()
    model = build(*case)
    named = array_names.name_model_variables(model)
    assert {id(variable) for variable in named.values()} == {id(variable) for variable in model.variables}
    found = names(case, keras.optimizers.Adam())
    assert names(case, adam) == found                   # Keras' own names have counted up
    slots = {name.removeprefix("optimizer/") for name in found if name.startswith("optimizer/")}
    first = {id(variable) for variable in model.updates(adam)[0].variables}
    trainable = {name for name, variable in named.items() if id(variable) in first}
    assert slots == {"iteration", "learning_rate"} | {f"{name}/{slot}" for name in trainable
                                                       for slot in ("momentum", "velocity")}


def test_a_variable_of_an_optimizer_without_a_name_is_not_numbered():
    case = CASES[0]
    found = names(case, keras.optimizers.Nadam())
    assert names(case, keras.optimizers.Nadam()) == found and "optimizer/variable" in found


def test_a_variable_without_a_name_is_none_of_the_first_stack_of_a_process():
    """Keras calls the first stacks of replicas `variable`, too."""
    keras.backend.clear_session()
    programs = [replicas.Stacked([build(*CASES[1], seed) for seed in (0, 1)], keras.optimizers.Nadam(), [0, 1])
                for _ in range(2)]
    first, second = (set(program.collect_state()[0]) for program in programs)
    assert first == second == {*names(CASES[1], keras.optimizers.Nadam())}


def test_names_say_network_layer_and_weight():
    case = ("ivae", "conv_faces", (64, 64, 1), "gaussian_learned", {})
    found = names(case, keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1, momentum=0.9)))
    assert {"encoder/conv2d/kernel", "encoder/batch_normalization_1/moving_mean", "encoder/dense_2/bias",
            "decoder/conv2d_transpose_3/kernel", "prior_network/dense_3/kernel", "likelihood_layer/log_variance",
            "optimizer/dynamic_scale", "optimizer/encoder/conv2d/kernel/momentum"} <= set(found)
    assert found["encoder/dense/kernel"] != found["encoder/dense_1/kernel"]


def test_weights_that_belong_to_no_network_and_equal_names_are_told_apart():
    class Plain(keras.Model):
        def __init__(self):
            super().__init__()
            self.scale = self.add_weight(shape=(), name="scale")
            inputs = keras.Input((2,))
            self.first = keras.Model(inputs, keras.layers.Dense(1, name="same")(inputs))
            self.second = keras.Model(inputs, keras.layers.Dense(1, name="same")(inputs))

    model = Plain()
    named = array_names.name_model_variables(model)
    assert set(named) == {"scale", "first/dense/kernel", "first/dense/bias", "second/dense/kernel", "second/dense/bias"}
    adam = keras.optimizers.Adam()
    adam.build(list(named.values()))
    slots = array_names.name_optimizer_variables("adam", adam, named)
    assert len(slots) == len(adam.variables) == 2 + 2 * len(named)
    assert {f"adam/{name}/momentum" for name in named} <= set(slots)


def test_a_variable_whose_path_begins_like_another_s_has_its_own_state():
    weights = {name: keras.Variable([0.0] * size, name=path)
               for size, (name, path) in enumerate((("b", "same_1"), ("a", "same"), ("c", "same_1_1")), 1)}
    adam = keras.optimizers.Adam()
    adam.build(list(weights.values()))
    slots = array_names.name_optimizer_variables("adam", adam, weights)
    assert {name: slots[f"adam/{name}/velocity"].shape for name in weights} == {"b": (1,), "a": (2,), "c": (3,)}
    assert len(slots) == 2 + 2 * 3
