"""What people ask of a trained model, answered in words that are made from its numbers."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vae_tf import activity, evaluation, verdicts
from vae_tf.errors import join_names
from vae_tf.report.convergence import Convergence
from vae_tf.report.facts import Facts
from vae_tf.report.numbers import format_number, format_share
from vae_tf.report.usual import compare_with_usual, find_usual

VERDICTS = ("yes", "partly", "no", "unknown")

# Scores of codes against factors that are 0 for none and 1 for all, the first of which decides.
HEADLINES = {"mig": "MIG", "disentanglement_score": "disentanglement score", "dci": "DCI", "dci_fast": "fast DCI",
             "sap": "SAP", "mcc": "MCC"}
HIGH_CHANCE = 0.9       # where chance is nearly perfect, as DCI is of one factor, a score tells nothing
SOME, MOST = 0.1, 0.5       # shares of the way from chance to 1 from which a score says "partly" and "yes"

# Comparisons with theory that are relative errors, and what each compares.
GAPS = {"posterior_covariance_gap": "the posterior's precision is off by", "diagonal_covariance_gap":
        "its diagonal is off by", "hessian_diagonality": "the off-diagonal share of the Hessian is"}
AGREES, DIFFERS = 0.1, 0.5      # relative errors up to which theory agrees, and from which it does not


@dataclasses.dataclass(frozen=True)
class Answer:
    """An answer: a word for the question, the question, a name of VERDICTS, a short sentence, and further ones.

    `count` stands in the verdict's place where a number is the answer, such as "9 of 10".
    """

    word: str
    question: str
    verdict: str
    short: str
    more: str = ""
    count: str = ""


def answer_all(facts: Facts) -> list[Answer]:
    """Answer all questions that can be asked of these facts."""
    answers = [answer_latents(facts), answer_disentangled(facts)]
    if facts.card is not None and facts.convergence is not None:
        answers = [answer_trained(facts.card), answer_converged(facts.convergence), *answers,
                   answer_orthogonal(facts), answer_theory(facts)]
    return [*answers, answer_next(facts, answers)]


def answer_trained(card: Mapping[str, Any]) -> Answer:
    """Say what was trained."""
    recipe = card.get("recipe", {})
    length = (f"trained for {card['steps']:,} steps of {recipe.get('batch_size', '?')} examples" if card["steps"]
              else "untrained")
    beta = f", beta {card['beta']:g}" if isinstance(card.get("beta"), int | float) else ""
    short = (f"{card['model']} with {card['latents']} latent{'s' * (card['latents'] != 1)} "
             f"({recipe.get('network', 'a network of its own')}) on {card['data']['name']}, {length}{beta}, seed "
             f"{recipe.get('seed', '?')}.")
    return Answer("Trained", "What was trained?", "unknown" if not card["steps"] else "yes", short)


def answer_converged(convergence: Convergence) -> Answer:
    """Say whether the training had converged."""
    verdict = {"converged": "yes", "falling": "partly", "rising": "no", "unknown": "unknown"}[convergence.state]
    return Answer("Converged", "Did it converge?", verdict, convergence.words)


def answer_latents(facts: Facts) -> Answer:
    """Say how many latents are in use."""
    verdict = facts.scored.verdict
    question = "How many latents does it use?"
    if verdict is None:
        return Answer("Latents", question, "unknown", "The posterior is not finite, so this cannot be told.")
    used = {"dead": "no", "nearly dead": "partly"}.get(verdict.state, "yes")
    counts = {kind: facts.kinds.count(kind) for kind in activity.CLASSES}
    more = ("" if verdict.kl is None else "Looked at example by example, " + ", ".join(
        f"{count} {'is' if count == 1 else 'are'} {kind}" for kind, count in counts.items() if count) + ".")
    d, together = len(verdict.informative), not verdict.count and verdict.state == "alive"
    return Answer("Latents", question, used, verdicts.describe(verdict), more,
                  f"all {d} together" if together else f"{verdict.count} of {d}")


def answer_disentangled(facts: Facts) -> Answer:
    """Say whether latents and factors match, against chance and against what is usual."""
    question, scored = "Is it disentangled?", facts.scored
    measured = [name for name in HEADLINES if name in scored.results]
    names = [name for name in measured if (_take_bounded(scored, name)[1] or 0) < HIGH_CHANCE]
    if scored.factors is None:
        return Answer("Disentangled", question, "unknown", "The data have no factors to tell by.")
    if measured and not names:
        return Answer("Disentangled", question, "unknown", f"Chance alone reaches {HIGH_CHANCE:g} or more by "
                      f"{join_names(measured)}, so that this cannot be told.")
    if not names:
        return Answer("Disentangled", question, "unknown", f"None of {', '.join(HEADLINES)} was measured.")
    if why := scored.explain_no_meaning(names[0]):
        collapsed = scored.verdict is not None and scored.verdict.kl is not None
        return Answer("Disentangled", question, "no" if collapsed else "unknown", f"The scores have no meaning: {why}.")
    if scored.verdict is not None and scored.verdict.is_alone and len(scored.factors) > 1:
        return Answer("Disentangled", question, "unknown", "One latent alone carries information, and has no other to "
                      "be disentangled from.")
    said = []
    for name in names[:3]:
        found, by_chance, _ = _take_bounded(scored, name)
        said.append(f"{HEADLINES[name]} {found:.2f}" + (f" (chance {by_chance:.2f})" if by_chance is not None else ""))
    first, by_chance, low = _take_bounded(scored, names[0])
    chance = by_chance or 0.0
    share = (first - chance) / max(1 - chance, 1e-9)
    discrete = any(kind != "continuous" for kind in scored.posterior.kinds or ())
    limit = ", which SAP cannot reach for discrete factors" if "sap" in names[:3] and discrete else ""
    verdict, words = _judge_share(share, low > chance, names[0] == "sap" and discrete)
    short = f"{words[0].upper()}{words[1:]}: {', '.join(said)}; 1 is perfect{limit}."
    return Answer("Disentangled", question, verdict, short, _judge_usual_score(facts))


def _judge_share(share: float, beats_chance: bool, falls_short: bool) -> tuple[str, str]:
    """Return a name of VERDICTS, and words, for a share of the way from chance to 1.

    `beats_chance` says whether the score's interval lies above chance, and `falls_short` whether perfect codes may have
    a lower score than 1.
    """
    if falls_short and share < MOST:
        return "unknown", "this cannot be told by SAP alone"
    if not beats_chance:
        return ("no", "no better than chance") if share < SOME else ("unknown", "perhaps, but it may be chance")
    return ("no", "hardly") if share < SOME else ("partly", "partly") if share < MOST else ("yes", "mostly")


def _judge_usual_score(facts: Facts) -> str:
    result = facts.scored.results.get("disentanglement_score")
    if facts.card is None or result is None:
        return ""
    usual = find_usual(facts, "disentanglement_score")
    return compare_with_usual(_take_bounded(facts.scored, "disentanglement_score")[0], usual)


def _take_bounded(scored: evaluation.Evaluation, name: str) -> tuple[float, float | None, float]:
    """Return a score, its chance level and the lower end of its interval, or its own where it has none.

    If the score has a part within 0 and 1, these are of that part: the disentanglement score may exceed 1.
    """
    result, bounded = scored.results[name], evaluation.BOUNDED
    if bounded not in result.parts:
        return result.score, scored.chance_level.get(name), scored.interval.get(name, (result.score,))[0]
    score, chance = float(result.parts[bounded]), result.parts.get(f"{bounded}_chance_level")
    return score, None if chance is None else float(chance), float(result.parts.get(f"{bounded}_interval", [score])[0])


def answer_orthogonal(facts: Facts) -> Answer:
    """Say whether the decoder's columns are orthogonal, against turned latents and against what is usual."""
    question, columns = "Is the decoder orthogonal?", facts.columns
    if columns is None:
        return Answer("Orthogonal", question, "unknown", _explain_no_columns(facts))
    if reason := facts.scored.explain_no_meaning("column_cosine"):
        return Answer("Orthogonal", question, "unknown", f"The angles of the columns have no meaning: {reason}.")
    chance, measured = float(np.mean(columns.chance)), columns.measured
    beats = float(np.mean(columns.chance <= measured))
    verdict, words = (("yes", "Yes") if measured < 0.05 else ("partly", "More than by chance") if beats <= 0.05 else
                      ("no", "No more than by chance"))
    short = (f"{words}: |cosine| of two columns {format_number(measured, 2)}, and {format_number(chance, 2)} if the "
             "latents are turned at random; 0 is orthogonal.")
    dto = facts.scored.results.get("dto")
    better = round(beats * len(columns.chance))
    more = (f"Of {len(columns.chance)} random rotations of the latents, {better or 'none'} "
            f"{'has' if better == 1 else 'have'} columns as orthogonal as these.")
    if dto is not None and facts.card is not None:
        usual = find_usual(facts, "dto")
        more += f" The distance to orthogonality (DtO) is {dto.score:.3g}. {compare_with_usual(dto.score, usual)}"
    return Answer("Orthogonal", question, verdict, short, more)


def _explain_no_columns(facts: Facts) -> str:
    verdict = facts.scored.verdict
    if verdict is None:
        return "The posterior is not finite, so this cannot be told."
    if not verdict.count and verdict.state == "alive":
        return "No latent carries information alone, only all together, so single columns say nothing."
    if verdict.count < 2:
        return "Fewer than two latents carry information."
    if facts.scored.gram is None:
        return "It was not measured (--geometry)."
    return ("The decoder moves x along fewer than two of the latents that carry information, or its Jacobian is not "
            "finite: there are no two columns to compare.")


def answer_theory(facts: Facts) -> Answer:
    """Say whether the model is what closed forms predict."""
    question, results = "Does theory agree?", facts.scored.results
    gaps = {name: results[name].score for name in GAPS
            if name in results and not facts.scored.explain_no_meaning(name)}
    optimum, gap = results.get("linear_optimum"), results.get("deterministic_elbo_gap")
    said = [f"{GAPS[name]} {format_share(score)}" for name, score in gaps.items()]
    if gap is not None:
        said.append(f"the ELBO to second order is off by {abs(gap.score):.2g} nats")
    if optimum is not None:
        said.append(f"the objective is {optimum.parts['excess']:.2g} nats above the linear optimum")
    if not said:
        return Answer("Theory", question, "unknown", "No comparison with theory was made (--theory), or none applies.")
    first = gaps.get("posterior_covariance_gap", gaps.get("hessian_diagonality"))
    verdict = ("unknown" if first is None else "yes" if first <= AGREES else "partly" if first < DIFFERS else "no")
    words = {"yes": "Yes", "partly": "Roughly", "no": "No", "unknown": "In part"}[verdict]
    return Answer("Theory", question, verdict, f"{words}: {', '.join(said[:3])}.",
                  " ".join(f"{part[0].upper()}{part[1:]}." for part in said[3:]))


def answer_next(facts: Facts, answers: Sequence[Answer]) -> Answer:
    """Say what to try next."""
    steps = list_next_steps(facts, {answer.word: answer.verdict for answer in answers})
    return Answer("Next", "What to try next?", "unknown", " ".join(steps[:2]), " ".join(steps[2:]))


def list_next_steps(facts: Facts, found: Mapping[str, str]) -> list[str]:
    """List what to try next, the most urgent first: sentences made from the verdicts {word of an Answer: verdict}."""
    card, verdict, steps = facts.card, facts.scored.verdict, []
    if card is not None and verdict is not None and verdict.state != "alive":
        steps.append(verdicts.advise(card))
    elif card is not None and not card["steps"]:
        steps.append("Train it.")
    if facts.convergence is not None and facts.convergence.state in ("falling", "rising"):
        steps.append("Train longer (--steps)." if facts.convergence.state == "falling" else
                     "Take a smaller --learning_rate: the loss rises.")
    passive = facts.kinds.count("passive")
    all_scored = len(facts.scored.latents) == facts.scored.codes.shape[1]
    if (passive and found["Latents"] == "yes" and all_scored and verdict is not None and verdict.kl is not None
            and verdict.count > 1):
        steps.append(f"Score without the {passive} passive latent{'s' * (passive > 1)} (--latents=active).")
    if facts.quick:
        steps.append("Score without --quick, for more reliable intervals.")
    if card is not None and found["Latents"] == "yes":
        is_plain = card.get("recipe", {}).get("beta", 1) is None and card.get("beta", 1) == 1
        if found.get("Disentangled") in ("no", "partly") and is_plain:
            steps.append("Try --model=beta_vae with a --beta above 1.")
        steps.append("Train more seeds (--replicas=5) and compare them (--compare): one model says little of a recipe.")
    return steps or ["Look at the numbers of each score, with --verbose."]
