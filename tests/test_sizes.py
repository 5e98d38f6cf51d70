"""What a training would take in memory is estimated, and refused by the name of the flag that asks for most."""

import pytest
from commands import parse

from vae_tf import cli, configured, data, memory
from vae_tf.errors import InputError


@pytest.fixture(autouse=True)
def twenty_gigabytes():
    memory.set_limit(20 * 2**30)
    yield
    memory.set_limit(None)


def check(*argv):
    values = parse(cli.define_train_flags, *argv)
    whole = data.load(values.dataset)
    dataset = whole.split(values.split, "train", 0)
    configs, settings = list(cli.configure_all(values, dataset).values()), cli.read_settings(values)
    configured.check_memory(configs, dataset, settings, configured.take_validation_part(configs[0], whole))


@pytest.mark.parametrize(("argv", "flag"), [
    (["--latents=100000000"], "latents"), (["--model=full_covariance_vae", "--latents=100000"], "latents"),
    (["--latents=2147483647"], "latents"), (["--batch_size=1000000000"], "batch_size"),
    (["--dataset=dsprites", "--batch_size=300000"], "batch_size"), (["--replicas=10000"], "replicas"),
    (["--model=beta_tcvae", "--batch_size=100000"], "batch_size"), (["--replicas=300", "--latents=90000"], "replicas"),
    (["--model=factor_vae", "--discriminator_units=30000"], "discriminator_units"),
    (["--model=factor_vae", "--discriminator_units=3000", "--replicas=100"], "replicas"),
])
def test_what_does_not_fit_is_refused_by_its_flag(argv, flag):
    with pytest.raises(InputError, match=rf"^--{flag}: training .* takes about [\d,.]+ GiB of memory, more than the "
                       r"20.0 GiB that there are; .*--memory_limit") as error:
        check("--dataset=circles", "--model=vae", *argv)
    assert "\n" not in str(error.value)


def test_a_larger_limit_lets_it_try():
    memory.set_limit(10**18)
    check("--dataset=circles", "--model=vae", "--latents=100000000")


@pytest.mark.parametrize("argv", [["--dataset=dsprites"], ["--dataset=dsprites", "--batch_size=1024"],
                                  ["--dataset=circles", "--batch_size=800", "--replicas=200"],
                                  ["--dataset=circles", "--model=beta_tcvae", "--batch_size=4000"]])
def test_what_people_train_fits(argv):
    check(*argv)


@pytest.mark.parametrize(("flag", "argv"), [
    ("polarised_every", []), ("validate_every", ["--polarised_every=0", "--split=random", "--validate_every=9"])])
def test_examples_that_are_measured_beside_small_batches_count_too(flag, argv):
    small = ("--dataset=dsprites", "--model=vae", "--batch_size=4", "--steps=500")
    memory.set_limit(45 * 2**20)
    with pytest.raises(InputError, match=rf"^--{flag}: .* (500|5,000) examples.* more than the 45.0 MiB that there"):
        check(*small, *argv)
    check(*small, "--polarised_every=0")
