"""The page of a model: whole, without requests, and readable by everybody."""

import base64
import dataclasses
import io
import re

import numpy as np
import pytest
from cases import build
from pages import check
from PIL import Image

from vae_tf import data, distributions, evaluation, export, models, report, verdicts
from vae_tf.report import page as report_page
from vae_tf.report import traversals

HOSTILE = "</svg><script>alert(1)</script> $si_$ze & \udcff"
HISTORY = [{"step": step, "loss": 1 / step, "kl": float(step)} for step in range(1, 31)]


def make(folder, model, network, x, factors, likelihood, names=("mig",), examples=40):
    dataset = data.from_arrays("mine", x, factors,
                                       [data.Factor(name, 3, "ordinal") for name in (HOSTILE, "size")])
    built = build(model, network, x.shape[1:], likelihood, {})
    card = {"model": model, "latents": built.latents, "u_size": 0, "steps": 30, "beta": 1.0, "likelihood": likelihood,
            "data": {"name": "mine", "shape": x.shape[1:]}, "history": {}, "recipe": {"batch_size": 4, "seed": 0}}
    exported = export.Exported(export.save(folder / "exported", built, dataset, card))
    scored = evaluation.evaluate(exported, dataset, names, examples=examples, quick=True)
    if scored.verdict.kl is not None:       # an untrained model says too little for scores to mean something
        kl = np.array([0.5, 2.0, 1.0])
        scored = scored._replace(verdict=verdicts.Verdict(kl, kl > 0))
    facts = report.Facts(scored, card, HISTORY, report.judge_convergence([row["loss"] for row in HISTORY], 30),
                         report.examine_columns(exported, scored), quick=True)
    text = report.make_page(facts, exported, dataset, "of the examples")
    drawn = report.draw_figures(dataclasses.replace(facts, scored=scored._replace(results={})), exported, dataset)
    assert report.make_page(facts, exported, dataset, "of the examples", drawn=drawn) == text
    return text, facts


@pytest.fixture(scope="module")
def rng():
    return np.random.default_rng(0)


@pytest.fixture(scope="module")
def images(tmp_path_factory, rng):
    x = rng.integers(0, 255, (60, 6, 6, 1)).astype(np.uint8)
    return make(tmp_path_factory.mktemp("images"), "vae", "mlp_mnist", x, rng.integers(0, 3, (60, 2)), "bernoulli")


def test_the_page_of_images_has_everything(images):
    text, facts = images
    page = check(text)
    words = " ".join(page.words)
    for answer in report.answer_all(facts):
        assert answer.question in words and answer.short in words
    latents = facts.scored.codes.shape[1]
    assert len([each for each in page.find("input") if each["type"] == "range"]) == latents
    sections = {attributes.get("id") for attributes in page.find("section")}
    assert sections >= {"answers", "pictures", "training", "kl", "posterior", "information", "gram", "scores"}
    assert "mig" in words and "chance" in text and "Keep in mind" in words
    assert "&lt;script&gt;" in text and "</svg><scrip…" in words        # the factor's name is shown as text


def test_a_factor_that_was_left_out_is_not_known_by_any_latent(images):
    facts = images[1]
    mig = facts.scored.results["mig"]
    lacking = {"mutual_information": mig.parts["mutual_information"] * [1, np.nan],
               "entropy": mig.parts["entropy"] * [1, np.nan]}
    mig = dataclasses.replace(mig, parts={**mig.parts, **lacking})
    alive = verdicts.Verdict(np.ones(3), np.ones(3, bool))
    scored = facts.scored._replace(results={**facts.scored.results, "mig": mig}, verdict=alive)
    figure = report_page._draw_information(dataclasses.replace(facts, scored=scored))
    assert figure.alt.endswith("size was not measured.") and "(nan" not in figure.alt


def test_latents_stand_in_the_order_of_their_kl(images):
    text, facts = images
    shown = [int(j) for j in re.findall(r"<h3>z(\d+)</h3>", text)]
    assert shown == np.argsort(-facts.scored.verdict.kl).tolist()


def test_the_page_of_vectors_shows_responses(tmp_path, rng):
    x = rng.standard_normal((60, 3)).astype(np.float32)
    text, _ = make(tmp_path, "ae", "mlp_synthetic", x, rng.integers(0, 3, (60, 2)), "gaussian")
    page = check(text)
    assert "without a posterior, the one whose codes vary most" in " ".join(page.words)
    sections = {attributes.get("id") for attributes in page.find("section")}
    assert {"reconstructions", "responses"} <= sections and not {"pictures", "kl", "posterior"} & sections
    assert not page.find("input")


@pytest.mark.parametrize("model, variances, sentence", [
    ("vae", (1, 1, 1), "which the likelihood and the prior N(0, I) do not see."),
    ("vae", (1, 4, 1), "which the likelihood does not see, but the prior of this model may."),
    ("ae", None, "which the likelihood does not see.")])
def test_the_page_says_whether_the_prior_sees_rotations(model, variances, sentence, tmp_path, rng, monkeypatch):
    if variances:
        prior = distributions.diagonal_normal(np.zeros(3, np.float32), np.log(variances, dtype=np.float32))
        monkeypatch.setattr(models.VAE, "prior", lambda self, u=None: prior)
    x = rng.standard_normal((60, 3)).astype(np.float32)
    text, _ = make(tmp_path, model, "mlp_synthetic", x, rng.integers(0, 3, (60, 2)), "gaussian")
    assert sentence in " ".join(check(text).words)


def test_the_page_of_few_examples_of_metrics_that_are_tested_on_others(tmp_path, rng):
    """These metrics get half as many codes again, of which the page has no posterior."""
    x = rng.standard_normal((60, 3)).astype(np.float32)
    text, facts = make(tmp_path, "vae", "mlp_synthetic", x, rng.integers(0, 3, (60, 2)), "gaussian",
                       names=("disentanglement_score",), examples=8)
    assert len(facts.scored.codes) == 12 and len(facts.scored.posterior.stddev) == 8
    words = " ".join(check(text).words)
    assert "against squared lengths of columns, at 8 examples" in text
    assert ", scored on 8 " in words and "The scores are of 8 examples;" in words


@pytest.mark.parametrize("shape", [(3, 4, 5, 1), (2, 4, 5, 2), (2, 4, 5, 7), (2, 200, 100, 3)])
def test_a_strip_has_its_images_side_by_side(shape, rng):
    images = rng.random(shape)
    uri = traversals.draw_strip(images)
    strip = np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))
    every = -(-np.array(shape[1:3]) // traversals.LARGEST_SIDE)
    first = images[0, ::every[0], ::every[1], :1 if shape[-1] < 3 else 3]
    np.testing.assert_array_equal(strip[:, :first.shape[1]], np.round(255 * first).astype(np.uint8).squeeze()
                                  if shape[-1] < 3 else np.round(255 * first).astype(np.uint8))
    assert strip.shape[1] == shape[0] * first.shape[1] and max(strip.shape[0], first.shape[1]) <= 100


def test_curves_keep_terms_that_few_rows_have_and_the_last_row():
    rare = ("kl_polarised", "delta_kl", "active_latents", "validation_loss")
    history = [{"step": step, "loss": float(step), **(dict.fromkeys(rare, 7.0) if step % 500 == 0 else {})}
               for step in range(50, 35_051, 50)]
    figure = report.page._draw_training([*history, {"step": 35_075, "loss": 1.0}])
    assert figure.alt.startswith("Training curves over 35,075 steps. At the end: loss 1, kl_polarised 7, delta_kl 7, ")
    assert "validation_loss 7" in figure.alt
    thinned = report.page._thin([np.nan, *range(1_000), np.inf])
    assert np.isfinite(thinned).sum() == report.page.MOST_ROWS and thinned[[1, 1_000]].tolist() == [0, 999]
    np.testing.assert_array_equal(report.page._thin([3.0, np.nan, 4.0]), [3, np.nan, 4])


def test_strips_are_left_out_where_the_page_would_be_too_large():
    assert traversals.count_fitting((64, 64, 1)) >= 40 and traversals.count_fitting((4_000, 4_000, 3)) == 6
