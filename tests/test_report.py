"""What is said of a model before its scores, which scores are not shown at all, and what the picture says."""

import io
import json

import matplotlib.image
import numpy as np
import pytest
import tensorflow as tf
from cases import build, dataset

from vae_tf import data, evaluation, export, metrics, models, report, training, verdicts
from vae_tf.metrics import Result, information
from vae_tf.report import pictures

N = 400


def codes(width, d=3, seed=0):
    """Codes of d latents that follow a factor each, with a posterior of the given widths [d] and the KL that follows.

    The means of a latent of width near 1 follow their factor, too, and so every metric likes them.
    """
    rng = np.random.default_rng(seed)
    factors = rng.integers(0, 4, (N, d))
    width = np.broadcast_to(width, d)
    mean = (factors - 1.5) / np.sqrt(1.25) * np.sqrt(1 - width ** 2)
    return evaluation.Codes(mean, factors, None, np.broadcast_to(width, mean.shape))


def scored(width, names=("active_units", "mig", "mcc"), **more):
    found = evaluation.score(codes(width, **more), names)
    return found._replace(results={**found.results, "dto": result("dto"), "hessian_diagonality": result("dto"),
                                   "linear_optimum": result("optimum")})


def result(name, per_example=(0.4, 0.5)):
    values = np.array(per_example)
    return Result(name, values.mean(), {"per_example": values, "standard_error": values.std() / np.sqrt(len(values))},
                  "a meaning")


def row(table, name):
    return next(line for line in table.splitlines() if line.startswith(f"  {name} "))


def test_a_dead_model_is_said_to_be_dead_and_has_no_scores():
    """Its codes follow the factors exactly, mig and mcc are 1, and none of it reaches the decoder."""
    dead = scored(np.sqrt(1 - 1e-3))        # KL = -log(1 - 1e-3) / 2 = 0.0005 nats
    assert dead.results["mcc"].score > 0.99
    table = report.write_table(dead)
    assert table.splitlines()[0].startswith("  No latent says anything about x: posterior collapse.")
    for name in ("mig", "mcc", "dto", "hessian_diagonality"):
        assert row(table, name).split() == [
            name, "-", "no", "meaning:", "no", "latent", "says", "anything", "about", "x"]
    assert row(table, "active_units").split()[1].startswith("0")
    assert "0.45" in row(table, "linear_optimum")
    written = json.loads(evaluation.as_json(dead))
    assert written["verdict"]["state"] == "dead" and written["verdict"]["informative"] == [False] * 3
    assert written["metrics"]["mcc"]["no_meaning"] == "no latent says anything about x"
    assert written["metrics"]["mcc"]["score"] > 0.99 and "no_meaning" not in written["metrics"]["active_units"]


def test_a_model_that_says_less_than_log_2_nats_is_nearly_dead():
    nearly = scored(np.sqrt(1 - 0.2))       # KL = -log(0.8) / 2 = 0.112 nats each
    table = report.write_table(nearly)
    assert table.splitlines()[0].startswith("  Nearly dead: 3 of 3 latents carry information about x")
    assert "no meaning: all latents together say 0.33 nats of x" in row(table, "mig")
    assert report.write_table(scored(0.3)).splitlines()[0].startswith("  3 of 3 latents carry information")


def test_one_latent_has_no_other_to_be_orthogonal_to():
    one = report.write_table(scored([0.1, 1, 1]), width=200)
    assert one.splitlines()[0].startswith("  1 of 3 latents carries information")
    assert "has no other to be orthogonal to" in row(one, "dto") and "no meaning" not in row(one, "mig")
    two = report.write_table(scored([0.1, 0.1, 1]))
    assert "no meaning" not in two and "0.45" in row(two, "dto")


def test_codes_without_a_posterior_are_judged_by_whether_they_move():
    constant = evaluation.Codes(np.ones((N, 2)), np.arange(2 * N).reshape(N, 2) % 3)
    table = report.write_table(evaluation.score(constant, ["mcc"]))
    assert table.splitlines()[0].startswith("  No latent varies over x") and "no meaning" in row(table, "mcc")
    moving = report.write_table(evaluation.score(constant._replace(mean=codes(0.1, 2).mean), ["mcc"]))
    assert "2 of 2 latents vary over x" in moving and "no meaning" not in moving


def test_an_ivae_is_judged_against_its_own_prior():
    q = codes(0.1)
    verdict = verdicts.judge(q.mean, 0.5 * q.stddev, q.mean, 0.5 * q.stddev)
    assert verdict.state == "dead" and "beyond what u says" in verdicts.describe(verdict)
    assert verdicts.judge(q.mean, 0.5 * q.stddev).state == "alive"


@pytest.mark.parametrize(("model", "likelihood", "said"), [
    ("vae", "gaussian", "smaller --likelihood_variance (it is 0.5), or --model=beta_vae with a --beta below 1"),
    ("beta_vae", "gaussian", "--likelihood_variance (it is 0.5), or a --beta below 4"),
    ("beta_vae", "bernoulli", "Try a --beta below 4, a beta that grows slowly"),
    ("ae", "gaussian", "another --seed")])
def test_what_to_do_about_it(model, likelihood, said):
    card = {"model": model, "beta": 4.0, "likelihood": likelihood, "likelihood_variance": 0.5, "steps": 100}
    assert said in verdicts.advise(card)


def test_training_names_dead_models_first():
    dead, alive = (verdicts.judge(codes(width).mean, codes(width).stddev) for width in (1.0, 0.1))
    card = {"model": "beta_vae", "beta": 4.0, "likelihood": "gaussian", "likelihood_variance": 0.5, "steps": 100}
    lines = verdicts.write_closing_lines({"a": alive, "b": dead, "c": alive}, dict.fromkeys("abc", card))
    assert lines[0].startswith("b: No latent says anything about x") and "--beta below 4" in lines[0]
    assert lines[1] == "2 of 3 models are alive: 3 of 3 latents carry information about x."
    assert verdicts.write_closing_lines({"a": alive}, {"a": card})[0].startswith("a: 3 of 3 latents carry information")


def test_a_fresh_model_is_judged_on_its_training_data():
    x = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    dataset = data.from_arrays("cloud", x, np.zeros((60, 1), int), [data.Factor("a", 1, "ordinal")])
    for name in ("vae", "ae", "full_covariance_vae"):
        model = build(name, "mlp_synthetic", (3,), "gaussian", {})
        verdict = verdicts.judge_model(model, dataset)
        q = model.posterior(x)
        expected = verdicts.judge(q.mean().numpy(), None if name == "ae" else q.stddev().numpy())
        assert verdict.informative.tolist() == expected.informative.tolist()
        assert (verdict.kl is None) == (name == "ae")


def test_a_posterior_that_diverged_in_the_last_step_is_said_in_words_of_the_user():
    """Its weights are finite, so training has not stopped."""
    x = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32)
    dataset = data.from_arrays("cloud", x, np.zeros((60, 1), int), [data.Factor("a", 1, "ordinal")])
    for name, bias in (("vae", 400.0), ("vae", -400.0), ("full_covariance_vae", 1e30), ("ae", np.inf)):
        model = build(name, "linear", (3,), "gaussian", {})
        variable = model.encoder.trainable_variables[-1]
        variable.assign(np.full(variable.shape, bias))
        with pytest.raises(training.NonFiniteError, match=r"posterior: expected finite means.* training has diverged"):
            verdicts.judge_model(model, dataset)


def test_spreads_say_what_they_are_over():
    found = scored(0.1)
    found = found._replace(results={**found.results, "column_cosine": result("column_cosine", [0.2095, 0.2095])})
    table = report.write_table(found)
    assert "± is the standard error of a mean over x" in table and "half-samples of x" in table
    assert "0.4500 ± 0.0354 over x" in row(table, "dto")
    assert "0.2095 same at every x" in row(table, "column_cosine") and "±" not in row(table, "column_cosine")
    assert "other seeds may give another" in table


def test_an_example_with_dependent_columns_leaves_the_others_their_spread():
    J = np.random.default_rng(0).standard_normal((20, 5, 3))
    J[0, :, 2] = J[0, :, 1]
    with pytest.warns(UserWarning, match="linearly dependent"):
        gap = metrics.hadamard_gap(J.transpose(0, 2, 1) @ J)
    found = scored(0.1)
    table = report.write_table(found._replace(results={**found.results, "hadamard_gap": gap}))
    assert f"± {gap.parts['standard_error']:.4f} over x" in row(table, "hadamard_gap")


def test_as_many_labels_are_named_once_where_there_are_few():
    q = codes(0.1)
    meaning = metrics.downstream_logistic(q.mean[:150], q.factors[:150]).meaning
    assert meaning.count("10 labels") == meaning.count("100 labels") == 1


@pytest.mark.parametrize(("value", "said"), [(0, "0.000"), (0.5, "0.500"), (0.01, "0.010"), (0.0042, "0.0042"),
                                             (1.4e-5, "1.4e-05"), (-3e-7, "-3e-07")])
def test_small_numbers_are_not_hidden(value, said):
    assert report.format_number(value) == said


def test_the_factor_that_a_latent_knows_best():
    q = codes(0.1, d=4)
    mixed = q.mean.copy()
    mixed[:, 3] = np.random.default_rng(1).standard_normal(N)
    known = information.find_best_known_factors(mixed[:, [2, 3, 0]], np.hstack([q.factors, np.zeros((N, 1), int)]))
    assert [best and best[0] for best in known] == [2, None, 0]
    assert known[0][1] == pytest.approx(1)
    half = np.where(q.factors[:, :1] < 2, 0.0, 1.0)      # one bit of two
    assert information.find_best_known_factors(half, q.factors)[0][1] == pytest.approx(0.5, abs=0.02)


def test_noise_is_rarely_said_to_know_a_factor():
    rng = np.random.default_rng(0)
    noise, factors = rng.standard_normal((300, 40)), rng.integers(0, 5, (300, 5))
    assert information.find_best_known_factors(noise, factors).count(None) >= 39


def test_factors_are_named_by_their_kinds():
    """A continuous factor that is stored as integers hides no other."""
    rng = np.random.default_rng(0)
    factors = np.stack([rng.integers(0, 4, N), rng.permutation(N)], -1)
    mean = np.stack([factors[:, 0] + 0.01 * rng.standard_normal(N), rng.standard_normal(N)], -1)
    found = evaluation.score(evaluation.Codes(mean, factors, ("ordinal", "continuous"), np.full((N, 2), 0.1),
                                              factor_names=("a", "b")), ())
    labels = pictures.label_latents(found, None)
    assert labels[0].endswith("\na 100%") and "%" not in labels[1]


@pytest.mark.parametrize(("width", "labelled"), [([0.1, 0.9999, 0.1], "02"), (0.9999, ""), (0.9, "")])
def test_latents_that_carry_no_information_are_labelled_with_no_factor(width, labelled):
    """Their means follow a factor each, but no decoder sees it."""
    labels = pictures.label_latents(evaluation.score(codes(width), ())._replace(factors=("a", "b", "c")), None)
    assert [label[1] for label in labels if "%" in label] == list(labelled)


@pytest.mark.parametrize(("kind", "codes", "first", "last"), [
    ("ivae", {"prior_mean": [[5.0, 0.0]], "prior_stddev": [[0.1, 1.0]]}, 4.8, 5.2), ("vae", {}, -2, 2),
    ("ae", {}, 4, 10)])
def test_latents_move_where_the_prior_or_the_codes_are(kind, codes, first, last):
    class Model:
        def __init__(self):
            self.card = {"model": kind, "recipe": {}}

        def u_at(self, dataset, i):
            return None

        def encode(self, x, u=None):
            return {"mean": np.ones((len(x), 2)), **{name: np.array(value) for name, value in codes.items()}}

        def decode(self, z):
            return {"mean": z}

    class Found:
        indices, codes = np.arange(2), np.array([[5.5, 0.0], [8.5, 0.0]])      # mean 7, standard deviation 1.5

    dataset = data.from_arrays("mine", np.zeros((2, 3), np.float32))
    moved, = pictures.move_latents(Model(), dataset, Found, np.array([0]), np.linspace(-2, 2, 5))
    np.testing.assert_allclose(moved[[0, -1], 0], [first, last], atol=1e-12)
    np.testing.assert_array_equal(moved[:, 1], 1)


@pytest.mark.parametrize("channels", [2, 7])
def test_a_picture_of_any_number_of_channels(tmp_path, channels, monkeypatch):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 3, (40, 1))
    x = np.broadcast_to((values * 100)[:, :, np.newaxis, np.newaxis], (40, 6, 6, channels)).astype(np.uint8)
    dataset = data.from_arrays("mine", x, values, [data.Factor("$si_$ze", 3, "ordinal")])
    model = build("vae", "mlp_mnist", (6, 6, channels), "bernoulli", {})
    card = {"model": "vae", "latents": 3, "u_size": 0, "steps": 0, "beta": 1.0,
            "data": {"name": "mine", "shape": (6, 6, channels)}, "history": {}}
    exported = export.Exported(export.save(tmp_path / "tmpabc", model, dataset, card))
    found = evaluation.evaluate(exported, dataset, (), examples=40)
    means = np.hstack([values[found.indices], rng.standard_normal((40, 2))])
    texts = []
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    monkeypatch.setattr(Axes, "text", lambda self, x, y, said, *_, text=Axes.text, **more: (
        texts.append(said), text(self, x, y, said, **more))[1])
    monkeypatch.setattr(Figure, "suptitle", lambda self, said, suptitle=Figure.suptitle, **more: (
        texts.append(said), suptitle(self, said, **more))[1])
    picture = report.draw_overview(exported, dataset,
                                   found._replace(posterior=found.posterior._replace(mean=means),
                                                  verdict=verdicts.Verdict(np.ones(3), np.ones(3, bool))))
    assert matplotlib.image.imread(io.BytesIO(picture)).shape[0] > 300
    assert [said for said in texts if said.startswith("z0") and "$si_$ze 100%" in said]
    assert not [said for said in texts if said.startswith(("z1", "z2")) and "%" in said]
    assert texts[-1].startswith("vae on mine, 3 latents, 0 steps") and "tmpabc" not in texts[-1]
    assert {2: "channel 1 of 2", 7: "channels 1 to 3 of 7"}[channels] in texts[-1]


def test_a_fresh_model_of_images_is_judged_on_numbers_from_0_to_1():
    images = dataset((6, 6, 1))
    model = build("vae", "mlp_mnist", (6, 6, 1), "bernoulli", {})
    q = model.posterior(models.scale_to_unit_range(tf.constant(images.images_at(np.arange(len(images))))))
    expected = verdicts.judge(q.mean().numpy(), q.stddev().numpy())
    np.testing.assert_allclose(verdicts.judge_model(model, images).kl, expected.kl, rtol=1e-4)


@pytest.mark.parametrize(("nats", "state"), [(0.68, "nearly dead"), (0.70, "alive")])
def test_a_model_that_says_log_2_nats_is_alive(nats, state):
    mean = np.full((9, 2), np.sqrt(nats))            # KL_j = mean^2 / 2
    assert verdicts.judge(mean, np.ones((9, 2))).state == state
