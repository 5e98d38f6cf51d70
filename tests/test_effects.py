"""Flags that have no effect beside others are refused on the command line, and ignored in a flagfile."""

import pytest
from absl import flags
from commands import parse

from vae_tf import cli, data
from vae_tf.cli import scoring_effects, training_effects
from vae_tf.errors import InputError


@pytest.mark.parametrize(("define", "table"), [
    (cli.define_train_flags, [*training_effects.list_effects(), *training_effects.WITH_DATA]),
    (cli.define_evaluate_flags, [*scoring_effects.EFFECTS])])
def test_the_tables_name_every_flag_once(define, table):
    groups = define(flags.FlagValues())
    assert sorted(table) == sorted(name for names in groups.values() for name in names)


@pytest.mark.parametrize(("argv", "message"), [
    (["--dataset=circles", "--model=vae", "--tc_estimator=stratified"],
     "--tc_estimator: it has an effect only with --model=beta_tcvae"),
    (["--dataset=circles", "--model=vae", "--beta_warmup_steps=5"], "--beta_warmup_steps: .* a model that has a beta"),
    (["--dataset=circles", "--model=ae", "--polarised_every=5"], "--polarised_every: .* a model that has a prior"),
    (["--dataset=circles", "--polarised_every=0", "--active_threshold=0.1"], "--active_threshold: .*_every above 0"),
    (["--dataset=circles", "--accept_dark"], "--accept_dark: it has an effect only with images"),
    (["--dataset=circles", "--beta=2", "--sweep_beta=1,2"], "--beta: it has an effect only without --sweep_beta"),
    (["--dataset=circles", "--replicas=2", "--strategy=mirrored"], "--strategy: .* without --replicas and --sweep"),
    (["--dataset=circles", "--split=grid", "--validate_every=5"], "--validate_every: .* with --split=random, which"),
    (["--dataset=circles", "--early_stopping=5"], "--early_stopping: it has an effect only with --validate_every"),
    (["--dataset=circles", "--export_weights=best"], "--export_weights: .* with --validate_every and without"),
    (["--dataset=circles", "--learning_rate_schedule=linear", "--learning_rate_warmup_steps=5"],
     "--learning_rate_warmup_steps: .* with --learning_rate_schedule=constant or cosine"),
    (["--dataset=circles", "--optimizer=sgd", "--optimizer_epsilon=1e-8"],
     "--optimizer_epsilon: it has an effect only without --optimizer=sgd"),
    (["--dataset=circles", "--init_from=a", "--steps=0"], "--init_from: it has an effect only with --steps above 0"),
    (["--dataset=circles", "--jacobian_weight=2"], "--jacobian_weight: it has an effect only with --jacobian_penalty"),
    (["--dataset=dsprites", "--likelihood_variance=1"], "--likelihood_variance: .* with --likelihood=gaussian, or"),
])
def test_idle_flags_of_training_are_refused(argv, message):
    values = parse(cli.define_train_flags, *argv)
    with pytest.raises(InputError, match=message):
        cli.configure(values, data.load(values.dataset))


@pytest.mark.parametrize(("argv", "message"), [
    (["--codes=a.npz", "--export=b"], "--export: it has an effect only without --codes and --compare"),
    (["--codes=a.npz", "--compare=b"], "--codes: it has an effect only without --compare"),
    (["--codes=a.npz", "--dataset=circles"], "--dataset: it has an effect only without --codes"),
    (["--codes=a.npz", "--geometry_examples=3"], "--geometry_examples: .* without --codes"),
    (["--geometry=", "--theory=", "--geometry_examples=3"], "--geometry_examples: .* a name in --geometry or --theory"),
    (["--compare=b", "--factors=x"], "--factors: it has an effect only without --compare"),
    (["--export=b", "--group_by=beta"], "--group_by: it has an effect only with --compare"),
    (["--metrics=mig", "--samples_per_value=9"], "--samples_per_value: .* with mig_posterior or mig_sup"),
    (["--compare=b", "--samples_per_value=9"], "--samples_per_value: .* with mig_posterior or mig_sup"),
])
def test_idle_flags_of_scoring_are_refused(argv, message):
    with pytest.raises(InputError, match=message):
        cli.read_scoring_request(parse(cli.define_evaluate_flags, *argv))


def test_idle_flags_in_a_flagfile_are_ignored(tmp_path):
    (tmp_path / "recipe.flags").write_text("--model=beta_tcvae\n--tc_estimator=stratified\n--likelihood_variance=2\n"
                                           "--beta_warmup_steps=7\n--optimizer_epsilon=1e-8\n--active_threshold=0.1\n")
    recipe = f"--flagfile={tmp_path / 'recipe.flags'}"
    loaded = data.load("circles")
    config = cli.configure(parse(cli.define_train_flags, recipe, "--model=vae", "--optimizer=sgd"), loaded)
    assert (config.model, config.beta_warmup_steps) == ("vae", 0)       # a warm-up would scale the KL of any model
    assert config.optimizer_epsilon is None
    shown = [cli.configure(parse(cli.define_train_flags, recipe, f"--polarised_every={every}"), loaded)
             for every in (0, 10)]
    assert shown[0] == shown[1] and shown[0].active_threshold == 0.1       # a run may go on with the other
    assert cli.configure(parse(cli.define_train_flags, recipe), loaded).beta_warmup_steps == 7
    with pytest.raises(InputError, match="--tc_estimator"):
        cli.configure(parse(cli.define_train_flags, recipe, "--model=vae", "--tc_estimator=stratified"), loaded)


def test_a_metric_may_be_asked_for_by_its_other_name():
    asked = cli.read_scoring_request(parse(cli.define_evaluate_flags, "--compare=exported/a",
                                           "--geometry=ima_contrast"))
    assert asked.geometry == ("hadamard_gap",)


def test_codes_of_a_flagfile_give_way_to_models_that_are_compared(tmp_path):
    (tmp_path / "mine.flags").write_text("--codes=a.npz\n--quick\n")
    argv = (f"--flagfile={tmp_path / 'mine.flags'}", "--compare=b", "--dataset=circles", "--metrics=dto")
    asked = cli.read_scoring_request(parse(cli.define_evaluate_flags, *argv))
    assert (asked.codes, asked.compare, asked.options.quick) == (None, ("b",), True)


def test_early_stopping_in_a_flagfile_needs_validation_too(tmp_path):
    (tmp_path / "recipe.flags").write_text("--early_stopping=3\n--split=random\n")
    recipe, loaded = f"--flagfile={tmp_path / 'recipe.flags'}", data.load("circles")
    with pytest.raises(InputError, match="--early_stopping: it has an effect only with --validate_every"):
        cli.configure(parse(cli.define_train_flags, "--dataset=circles", recipe), loaded)
    assert cli.configure(parse(cli.define_train_flags, "--dataset=circles", recipe, "--validate_every=7"), loaded)


def test_flags_that_have_an_effect_are_taken():
    loaded = data.load("circles")
    for argv in (["--model=ae", "--polarised_every=0"], ["--model=beta_tcvae", "--tc_estimator=stratified"],
                 ["--split=random", "--validate_every=5", "--export_weights=best"], ["--likelihood_variance=2"],
                 ["--replicas=2", "--strategy=one_device"], ["--sweep_beta=1,2"],
                 ["--model=annealed_vae", "--beta_warmup_steps=5"]):
        cli.configure(parse(cli.define_train_flags, "--dataset=circles", *argv), loaded)
    for argv in (["--codes=a.npz", "--metrics=mig", "--jobs=1"], ["--metrics=all", "--samples_per_value=9"],
                 ["--samples_per_value=9"], ["--export=b", "--quick"]):
        assert cli.read_scoring_request(parse(cli.define_evaluate_flags, *argv))
