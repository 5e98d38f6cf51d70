"""The configuration of a run as an object, as JSON and as flags."""

import dataclasses

import pytest
from absl import flags

from vae_tf import cli, models
from vae_tf.cli import training_request
from vae_tf.configuration import SETTINGS, Configuration
from vae_tf.errors import InputError

CONFIG = Configuration(
    model="beta_tcvae", network="linear", latents=2, likelihood="gaussian", likelihood_variance=0.01, beta=None,
    beta_warmup_steps=0, dataset="synthetic_linear", data_seed=0, split="random", steps=5, batch_size=64,
    optimizer="adam", learning_rate=1e-3, clip_gradients=0.0, precision="float32", jit_compile="auto", seed=0,
    init_from=None, active_threshold=0.5, data_fingerprint="data", keras={"floatx": "float32"},
    options={"tc_estimator": "stratified", "of_an_outside_model": 3})


@pytest.mark.parametrize("config", [CONFIG, dataclasses.replace(CONFIG, optimizer_epsilon=1e-8, options={}),
                                    dataclasses.replace(CONFIG, validate_every=5, learning_rate_schedule="cosine")])
def test_a_configuration_is_read_back_from_its_json(config):
    assert Configuration.from_json(config.as_json()) == config


def test_entries_are_flat_and_what_is_not_set_is_left_out_where_it_did_not_exist_before():
    entries = CONFIG.as_json()
    assert entries["tc_estimator"] == "stratified" and entries["of_an_outside_model"] == 3
    assert "options" not in entries and entries["beta"] is None
    assert not {"optimizer_epsilon", "validate_every", "early_stopping", "learning_rate_schedule"} & set(entries)


def test_an_entry_that_is_missing_is_named():
    entries = CONFIG.as_json()
    del entries["latents"]
    with pytest.raises(InputError, match=r"^configuration: expected an entry latents; got none$"):
        Configuration.from_json(entries)


def test_a_configuration_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        CONFIG.steps = 6


def test_every_flag_is_of_the_configuration_or_of_the_settings():
    values = flags.FlagValues()
    groups = cli.define_train_flags(values)
    fields = {field.name for field in dataclasses.fields(Configuration)} - {*training_request.WITHOUT_FLAG}
    asked = [name for names in groups.values() for name in names]
    assert sorted(asked) == sorted({*fields, *SETTINGS, *models.list_options()})
    assert len(asked) == len(fields) + len(SETTINGS) + len(models.list_options())


def test_settings_that_nobody_gives_are_the_flags_defaults():
    values = flags.FlagValues()
    cli.define_train_flags(values)
    values.mark_as_parsed()
    assert cli.read_settings(values) == type(cli.read_settings(values))()
