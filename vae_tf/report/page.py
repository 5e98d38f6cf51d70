"""The page of a model: one HTML file that holds everything it shows, and opens without a network."""

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf import activity, files, metrics
from vae_tf.errors import make_printable
from vae_tf.report import figures, histograms, pictures
from vae_tf.report.answers import answer_all
from vae_tf.report.facts import Facts
from vae_tf.report.rows import REGIME, gather_skipped, list_groups
from vae_tf.report.theme import draw_svg
from vae_tf.report.traversals import Latent, draw_strip, list_latents
from vae_tf.report.warned import list_warnings

EXAMPLES = 10               # images whose reconstructions are shown
VECTORS = 100               # the same of data that are vectors
MOST_LATENTS = 30           # whose histograms, responses and columns are shown
MOST_BARS = 100             # latents whose KL is shown
MOST_ROWS = 500             # of a history that are shown of each term
ORDER = ("training", "reconstructions", "responses", "kl", "posterior", "information", "gram", "rotations", "variances")
LONGEST = 20                # characters of a factor's name, for which there is room above a panel
MARKS = {"yes": "✓", "partly": "≈", "no": "✗", "unknown": "?"}      # a verdict is a shape and a word beside a colour
SPOKEN = {"yes": "yes", "partly": "partly", "no": "no", "unknown": "open"}


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of the page: what it shows, as a heading; what a reader should see, and hear; its SVG."""

    name: str
    heading: str
    caption: str
    alt: str
    svg: str


def write_page(path: pathlib.Path, facts: Facts, model: Any, dataset: Any, part: str = "examples",
               passive_kl: float = activity.PASSIVE_KL, drawn: Sequence[Figure] | None = None) -> None:
    """Write the page of a model as one HTML file.

    Args:
        path: path of the file.
        facts: what the answers on top are made from.
        model: the `export.Exported`.
        dataset: the `data.Dataset` that it was scored on.
        part: which examples it was scored on, in words.
        passive_kl: nats, see activity.classify.
        drawn: what `draw_figures` returned before the scores of codes were there; None draws the figures now.
    """
    files.write_text(path, make_page(facts, model, dataset, part, passive_kl, drawn))


def make_page(facts: Facts, model: Any, dataset: Any, part: str = "examples",
              passive_kl: float = activity.PASSIVE_KL, drawn: Sequence[Figure] | None = None) -> str:
    """Return the text of the page that `write_page` writes."""
    scored = facts.scored
    latents = list_latents(facts, model, dataset) if dataset.is_image else []
    first = pictures.reconstruct(model, dataset, scored, EXAMPLES) if dataset.is_image else ()
    strips = [(name, draw_strip(images)) for name, images in zip(("data", "reconstruction"), first, strict=False)]
    information = _draw_information(facts)
    shown = [*(draw_figures(facts, model, dataset, passive_kl) if drawn is None else drawn),
             *([information] if information else [])]
    return render(
        "page.html", title=pictures.make_title(model.card), answers=answer_all(facts), marks=MARKS, spoken=SPOKEN,
        path=make_printable(model.path), part=part, examples=len(scored.posterior.mean),
        remarks=list_warnings(facts, model.card, part), strips=strips, latents=latents,
        unshown=_count_unshown(latents, facts), figures=sorted(shown, key=lambda figure: ORDER.index(figure.name)),
        groups=_describe_groups(facts),
        skipped=gather_skipped(scored), theory=_compare_theory(facts), recipe=_list_recipe(model.card))


def render(template: str, **values: Any) -> str:
    """Return the text of a page that a template makes of values; text among them is escaped."""
    import jinja2

    environment = jinja2.Environment(loader=jinja2.PackageLoader("vae_tf.report"), autoescape=True, trim_blocks=True,
                                     lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    text = environment.get_template(template).render(values)
    return text.encode("utf-8", "backslashreplace").decode()        # names may hold what is no Unicode


def _count_unshown(latents: Sequence[Latent], facts: Facts) -> int:
    return scored - len(latents) if latents and (scored := facts.scored.codes.shape[1]) > len(latents) else 0


def draw_figures(facts: Facts, model: Any, dataset: Any, passive_kl: float = activity.PASSIVE_KL) -> list[Figure]:
    """Return the figures of the page that do not show scores of codes."""
    made = [_draw_training(facts.history), *([] if dataset.is_image else _draw_vectors(facts, model, dataset)),
            _draw_kl(facts, bool(model.card["u_size"])), _draw_regime(facts, passive_kl),
            *_draw_columns(facts, model.card.get("prior", "standard"))]
    return [figure for figure in made if figure is not None]


def _draw_training(history: Sequence[Mapping[str, Any]]) -> Figure | None:
    steps = [row["step"] for row in history]
    terms = {name: _thin([row.get(name, np.nan) for row in history])
             for name in dict.fromkeys(name for row in history for name in row)
             if name not in ("step", "examples_per_second")}
    terms = {name: values for name, values in terms.items() if np.isfinite(values).any()}
    if len(history) < 2 or not terms:
        return None
    last = ", ".join(f"{name} {values[np.isfinite(values)][-1]:.4g}" for name, values in terms.items())
    return Figure("training", "How it was trained",
                  "The terms of the objective over the steps of training. A curve that still falls at the end asks for "
                  "more steps. The first steps may lie above the panel. Of a run with a validation part, the dashed "
                  "curves are of examples that training does not see.",
                  f"Training curves over {steps[-1]:,} steps. At the end: {last}.",
                  draw_svg("training", figures.plot_curves, steps, terms))


def _thin(values: Sequence[float]) -> np.ndarray:
    """Return values [R] with NaN in place of all but MOST_ROWS of the finite ones, the first and the last among them.

    Each term is thinned by itself, because some terms have a value in every tenth row or fewer.
    """
    array = np.asarray(values, float)
    finite = np.flatnonzero(np.isfinite(array))
    left_out = np.ones(len(array), bool)
    left_out[finite[np.linspace(0, len(finite) - 1, min(len(finite), MOST_ROWS)).round().astype(int)]] = False
    return np.where(left_out, np.nan, array)


def _draw_vectors(facts: Facts, model: Any, dataset: Any) -> list[Figure]:
    """Return what stands for images of data that are vectors."""
    reconstructions = pictures.reconstruct(model, dataset, facts.scored, VECTORS)
    places = np.linspace(-2, 2, 21)
    x, reconstructed = (each.reshape(len(each), -1) for each in reconstructions)
    most = figures.MOST_ENTRIES
    shown = f" The first {most} of {x.shape[1]:,} entries are drawn." if x.shape[1] > most else ""
    order = pictures.order_latents(facts.scored)[:MOST_LATENTS]
    labels = pictures.label_latents(facts.scored, dataset, LONGEST)
    moved = np.array([each.reshape(len(places), -1)
                      for each in pictures.move_latents(model, dataset, facts.scored, order, places)])
    error = float(np.mean((x - reconstructed) ** 2))
    return [
        Figure("reconstructions", "Does x come back?", "Each point is an entry of a data vector. On the line it comes "
               f"back from the latents unchanged.{shown}", f"Data against reconstructions. The mean squared error of "
               f"all entries is {error:.3g}.", draw_svg("reconstructions", figures.plot_reconstructed_vectors,
                                                        x[:, :most], reconstructed[:, :most])),
        Figure("responses", "What each latent does", "Each panel moves one latent from -2 to 2 standard "
               "deviations of its prior, or of the codes of a model without a prior. The latent of the largest KL "
               "comes first; without a posterior, the one whose codes vary most. Flat lines are a latent that does "
               f"nothing.{_say_most(len(labels))}",
               f"Responses of the decoder to {len(order)} latents.",
               draw_svg("responses", figures.plot_responses, places, moved,
                        [labels[j] for j in order]))]


def _say_most(latents: int) -> str:
    """Return a sentence on the latents that a figure leaves out; "" if it shows all."""
    return f" {MOST_LATENTS} of {latents:,} latents are drawn." if latents > MOST_LATENTS else ""


def _draw_kl(facts: Facts, sees_u: bool) -> Figure | None:
    """Return the bars of each latent's KL, against a prior that sees u or is N(0, I)."""
    verdict = facts.scored.verdict
    if verdict is None or verdict.kl is None:
        return None
    order = np.argsort(-verdict.kl, kind="stable")[:MOST_BARS]
    ordered = ", ".join(f"z{j} {verdict.kl[j]:.2g}" for j in order[:10])
    return Figure("kl", "How much each latent says",
                  f"The KL of a latent is the most nats of x that it can carry{' beyond what u says' * sees_u}; a part "
                  "of it may be how far all of its codes together are from the prior. Below the dashed line a latent "
                  f"says nothing{' beyond u' * sees_u}: its posterior is the prior. An active latent is used at "
                  "every example, a mixed one at some.",
                  f"Bars of KL per latent, in nats: {ordered}.",
                  draw_svg("kl", figures.plot_kl, verdict.kl[order], [facts.kinds[j] for j in order], order))


def _draw_regime(facts: Facts, passive_kl: float) -> Figure | None:
    if not facts.scored.polarised or facts.scored.posterior.stddev is None:
        return None
    if not {"active_latents", "mixed_latents", "passive_latents"} & {*facts.scored.polarised}:
        return None
    return Figure("posterior", "Posterior against prior",
                  "A row per latent: the active ones first, then the mixed and the passive ones, each from the largest "
                  "KL on. An active latent has a narrow posterior, so its samples follow its means. A passive latent "
                  f"repeats the prior, the outline.{_say_most(len(facts.kinds))}",
                  "Histograms of posterior means, of variances, and of samples beside the prior, for "
                  f"{min(len(facts.kinds), MOST_LATENTS)} latents.",
                  draw_svg("posterior", histograms.plot_polarised, "", facts.scored.posterior, passive_kl,
                           most=MOST_LATENTS))


def _draw_information(facts: Facts) -> Figure | None:
    result, names = facts.scored.results.get("mig"), facts.scored.factors
    if result is None or names is None or facts.scored.explain_no_meaning("mig"):
        return None
    entropy = result.parts["entropy"]
    shares = np.divide(result.parts["mutual_information"], entropy, where=entropy > 0,
                       out=np.where(np.isnan(result.parts["mutual_information"]), np.nan, 0.0))
    known = np.where(np.isnan(shares), -1.0, shares)        # a factor may be left out
    best = ", ".join(f"{make_printable(name)} by z{facts.scored.latents[j]} ({shares[j, k]:.0%})" if known[j, k] >= 0
                     else f"{make_printable(name)} was not measured"
                     for k, (name, j) in enumerate(zip(names, known.argmax(0), strict=True)))
    order = np.argsort(-known.max(1), kind="stable")[:MOST_LATENTS]
    return Figure("information", "Which latent knows which factor",
                  "Mutual information of each latent with each factor. A disentangled model has one bright cell in "
                  f"each column, in a row of its own.{_say_most(len(known))}", f"Each factor is known best: {best}.",
                  draw_svg("information", figures.plot_information, shares[order],
                           [make_printable(name) for name in names], facts.scored.latents[order]))


def _draw_columns(facts: Facts, prior: str) -> list[Figure]:
    """Return the figures of the decoder's Jacobian, of a model with a prior that its card calls so."""
    columns = facts.columns
    if columns is None:
        return []
    sees = prior not in ("standard", "none")
    blind = ("does not see, but the prior of this model may" if sees else
             "does not see" if prior == "none" else "and the prior N(0, I) do not see")
    order = pictures.order_latents(facts.scored)[:MOST_LATENTS]
    count = len(columns.squared_norms)
    found = [
        Figure("gram", "Does each latent move x in a direction of its own?",
               "The Gram matrix of the decoder's Jacobian J, with columns of length 1. A cell is how far two latents "
               "move x in the same direction; an orthogonal decoder is dark beside the diagonal."
               + _say_most(len(columns.cosines)),
               f"Mean |cosine| of pairs of columns around {count} examples; {columns.measured:.2f} on average.",
               draw_svg("gram", figures.plot_cosines, columns.cosines, order)),
        Figure("rotations", "Is that more than chance?",
               f"The same after the latents are turned at random, which the likelihood {blind}. If the line stands "
               f"left of the histogram, training has aligned the axes{', perhaps for the sake of the prior' * sees}.",
               f"This model: {columns.measured:.2f}; random rotations: {columns.chance.min():.2f} to "
               f"{columns.chance.max():.2f}.",
               draw_svg("rotations", figures.plot_against_chance, columns.measured, columns.chance,
                        "mean |cosine| of two columns", "latents turned at random"))]
    stddev = facts.scored.posterior.stddev
    if stddev is not None:
        count = min(count, len(stddev))     # of few examples, there are codes of half as many again, to be tested on
        found.append(Figure(
            "variances", "Theory beside measurement: variance and length",
            "Theory (Rolinek 2018) says that a latent that moves x further has a narrower posterior: variance times "
            "squared length is constant, the dashed line. A point is a latent at an example.",
            f"Posterior variances against squared lengths of columns, at {count} examples.",
            draw_svg("variances", figures.plot_variance_norms, np.square(stddev[:count]),
                     columns.squared_norms[:count], facts.kinds)))
    return found


def _describe_groups(facts: Facts) -> dict[str, list[dict[str, str]]]:
    """Return {heading: rows} of the tables of scores, each with what the metric asks."""
    groups = {}
    for heading, rows in list_groups(facts.scored).items():
        asks = {row.name: metrics.METRICS[row.name].meaning.replace("`", "") for row in rows
                if row.name in metrics.METRICS}
        if rows:
            groups["The polarised regime" if heading == REGIME else heading] = [
                {**row._asdict(), "asks": asks.get(row.name, "")} for row in rows]
    return groups


def _compare_theory(facts: Facts) -> list[tuple[str, str, str]]:
    """Return (quantity, what theory says, what was measured) of the comparisons that have two numbers."""
    results, rows = facts.scored.results, []
    if (gap := results.get("deterministic_elbo_gap")) is not None:
        count = len(gap.parts["per_example"])
        rows.append((f"ELBO at {count:,} examples, nats each",
                     f"{gap.parts['deterministic']:.4g}, expanded to second order",
                     f"{gap.parts['monte_carlo']:.4g}, from samples of z"))
    if (optimum := results.get("linear_optimum")) is not None:
        rows.append(("objective above its least, nats", "0, the linear beta-VAE's closed form",
                     f"{optimum.parts['excess']:.3g}"))
    rows += [(what, "0, the optimum", f"{results[name].score:.1%} away")
             for name, what in (("posterior_covariance_gap", "posterior precision"),
                                ("diagonal_covariance_gap", "diagonal of the posterior precision"),
                                ("hessian_diagonality", "off-diagonal share of the Hessian"))
             if name in results and not facts.scored.explain_no_meaning(name)]
    return rows


def _list_recipe(card: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the recipe and the versions of a model as text."""
    recipe = {name: value for name, value in card.get("recipe", {}).items() if not isinstance(value, dict)}
    versions = {f"{name} version": value for name, value in card.get("versions", {}).items()}
    return [(name, make_printable("" if value is None else value)) for name, value in {**recipe, **versions}.items()]
