"""Score an exported model: `vae-tf evaluate` takes the newest in exported/. Or anybody's codes: --codes=my.npz."""

import dataclasses
import json
import time
from collections.abc import Mapping
from typing import Any

from absl.flags import FlagValues

from vae_tf import cli, comparison, data, evaluation, export, files, metrics, models, report, workers
from vae_tf.data import held_out
from vae_tf.errors import InputError
from vae_tf.programs.codes import check_results, name_factors, score_codes, show_first_look, show_scores
from vae_tf.programs.introduction import find_models

PICTURES = {"polarised.png": "histograms", "overview.png": "picture"}
RESULTS = ("metrics.json", *PICTURES, "report.html")        # the files beside a model


def main(flags: FlagValues) -> None:
    """Score what flags ask for, and print what it comes to."""
    asked = cli.read_scoring_request(flags)
    score(asked if asked.codes else find_models(asked))


def score(asked: cli.ScoringRequest) -> None:
    """Score codes, models that are compared, or a model."""
    if asked.codes:
        score_codes(asked)
    elif asked.compare:
        compare(asked)
    else:
        score_model(asked)


def score_model(asked: cli.ScoringRequest) -> None:
    """Score an exported model, as a server would load it: the SavedModel and its card."""
    model = load_model("--export", asked.export, asked.trust_export)
    with files.keep_in_use(model.path):     # which train.py --keep_versions does not delete
        score_loaded(model, asked)


def score_loaded(model: export.Exported, asked: cli.ScoringRequest) -> None:
    """Score a model: print the summary, and write numbers, pictures and a page beside it."""
    card, options = model.card, asked.options

    # Data: the test part of what it was trained on, unless flags say otherwise.
    dataset, settings, part = choose_test_part(card, asked.data)
    evaluation.check_factors(options.factors, dataset.factor_names)
    if asked.animate and not dataset.is_image:
        raise InputError(f"--animate: expected a model of images; {model.path} is of vectors of {dataset.shape[0]} "
                         "numbers")
    check_results(model.path, *(model.path / name for name in (*RESULTS, *report.ANIMATION_FILES * asked.animate)))
    print(f"Scored on {min(options.examples, len(dataset)):,} {part}{name_factors(options.factors)}", flush=True)

    # Metrics: codes once, then each score. What can be drawn without them is drawn while processes compute them.
    started = time.perf_counter()
    own_data = settings["trained_on"] is not None and settings["dataset"] == card["data"]["name"]
    pictures: dict[str, bytes] = {}
    figures: list[report.Figure] = []
    failed: list[Exception] = []

    def gather_facts(of: evaluation.Evaluation) -> report.Facts:
        return report.gather_facts(model, of, options.names or (), options.quick, options.seed, own_data)

    def draw(begun: evaluation.Evaluation) -> None:
        try:
            pictures.update(draw_pictures(begun, model, dataset, options.passive_kl))
            figures.extend(report.draw_figures(gather_facts(begun), model, dataset, options.passive_kl))
        except Exception as error:      # it must not cost the scores, and is raised once these are written
            failed.append(error)

    scored = evaluation.evaluate(model, dataset, progress=report.Progress(), keep=model.path / evaluation.FILE,
                                 look=show_first_look, meanwhile=draw, **vars(options))
    workers.end(options.jobs)

    # Answers: what people ask of a model, in words made from the scores, its history and its decoder.
    facts = gather_facts(scored)
    show_scores(facts, asked.verbose or bool(asked.named))
    for remark in models.find_declared(card).list_remarks(card):
        print(f"  {remark}")

    # Report: numbers, pictures and the page beside the model.
    replaced = write_numbers(scored, model, settings, options)
    evaluation.forget(model.path / evaluation.FILE)
    print(f"Scored in {time.perf_counter() - started:.0f} s.\n  numbers    {model.path}/metrics.json"
          + f", {replaced}" * bool(replaced))
    for error in failed:
        raise error
    for name, picture in pictures.items():
        files.write_bytes(model.path / name, picture)
        print(f"  {PICTURES[name]:10} {model.path}/{name}")
    if asked.animate:
        report.write_animations(model.path, model, dataset, scored)
        print(f"  animation  {model.path}/traversals.gif and traversals.webp")
    report.write_page(model.path / "report.html", facts, model, dataset, part, options.passive_kl, figures)
    print(f"  report     {model.path}/report.html, for a browser; all scores on a terminal: --verbose")
    print("To serve it, with TensorFlow Serving, TensorFlow Lite, ONNX Runtime or OpenVINO: docs/serving.md")


def draw_pictures(begun: evaluation.Evaluation, model: export.Exported, dataset: data.Dataset, passive_kl: float,
                  ) -> dict[str, bytes]:
    """Return the PNGs beside a model for which there is something to draw, by the name of the file."""
    drawn = {}
    if begun.polarised:
        title = f"{report.make_title(model.card)}: posterior and prior, {len(begun.posterior.mean):,} examples"
        drawn["polarised.png"] = report.draw_polarised(title, begun.posterior, passive_kl)
    if dataset.is_image:
        drawn["overview.png"] = report.draw_overview(model, dataset, begun)
    return drawn


def write_numbers(scored: evaluation.Evaluation, model: export.Exported, settings: Mapping[str, Any],
                  options: evaluation.Options) -> str:
    """Write metrics.json beside a model, and the scores that mean something into its card.

    Return what is said of an earlier metrics.json that had scores which this one lacks; "" if there is none.
    """
    around = min(options.around, len(scored.codes)) if options.list_metrics_of_model() else 0
    text = evaluation.as_json(scored, export=str(model.path), seed=options.seed, passive_kl=options.passive_kl,
                              samples_per_value=options.samples_per_value, quick=options.quick,
                              geometry_examples=around, **settings)
    # The card first: it must be there, and so no folder is made again that was deleted while it was scored.
    made = json.loads(text)["metrics"]
    export.update_card(model.path, metrics={name: score["score"] for name, score in made.items()
                                         if "no_meaning" not in score},
                    evaluated={**settings, "examples": len(scored.codes), "seed": options.seed,
                               "factors": scored.factors})
    path = model.path / "metrics.json"
    before = evaluation.list_scored(path)
    files.write_text(path, text)
    lacking = len(before - {*made})
    return f"in place of one with {lacking} score{'s' * (lacking > 1)} that this one lacks" if lacking else ""


def load_model(flag: str, folder: str, trust: bool) -> export.Exported:
    """Load the newest model in the folder that a flag names, and check that its card has all that scoring needs."""
    path, _ = cli.find_export(flag, folder, export.SCORED, pulls=True)
    try:
        return export.Exported(path, trust)
    except InputError as error:
        raise InputError(f"{flag}: {error}") from None


def choose_test_part(card: Mapping[str, Any], asked: cli.DataRequest) -> held_out.Scored:
    """Return the examples to score a model on, as flags ask or else as its card says."""
    recipe, *earlier = export.list_trainings(card)
    name = recipe["dataset"] if asked.dataset is None else asked.dataset
    seed = recipe["data_seed"] if asked.data_seed is None else asked.data_seed
    if not name:
        raise InputError("--dataset: the model's card does not say what it was trained on; name the data")
    if asked.dataset is None and name not in data.DATASETS:
        print(f"Data: {name}, which the model's card names; --dataset names others")
    try:
        whole = data.load(name, data_dir=asked.data_dir, seed=seed)
    except InputError as error:
        if asked.dataset is not None:
            raise
        extension = "" if data.is_path(name) else "if an extension has them, name it in VAE_TF_EXTENSIONS; "
        raise InputError(f"{error}; the model was trained on these data; {extension}"
                         "--dataset names the data to score it on") from None
    return held_out.take_test_part(whole, recipe, asked.split, asked.data_seed, earlier)


def compare(asked: cli.ScoringRequest) -> None:
    """Compare models in groups, of which those without scores are scored first, and write tables and a page."""
    report.check_columns(asked.group_by)
    loaded = {name: load_model("--compare", name, asked.trust_export) for name in cli.find_exports(asked.compare)}
    recipes = {name: read_recipe(model.card) for name, model in loaded.items()}
    parts = choose_test_parts(loaded, asked.data)
    check_results(asked.comparison_dir, *(asked.comparison_dir / name for name in report.COMPARISON_FILES),
                  name="comparison_dir")
    score_missing(loaded, parts, asked.options)
    rows = report.results_frame([model.path for model in loaded.values()])
    groups = report.group_models(dict(zip(loaded, rows, strict=True)), recipes, asked.group_by,
                                 {name: model.card["weights_sha256"] for name, model in loaded.items()
                                  if "weights_sha256" in model.card})
    dataset, _, part = next(iter(parts.values()))
    fitted = bool(asked.geometry) and all("local_decoders" in metrics.METRICS[name].needs for name in asked.geometry)
    measured = comparison.measure(loaded, dataset, examples=asked.options.around, seed=asked.options.seed,
                                  fitted=fitted, progress=report.Progress())
    remarks = say_other_examples({name: export.list_trainings(model.card) for name, model in loaded.items()})
    lines = [f"Decoder columns around {min(asked.options.around, len(dataset)):,} {part}; "
             f"OD-scores of {'fitted local decoders' if fitted else 'Jacobians'}, relative to the farthest model here",
             *comparison.report(groups.members, measured), *(f"  {line}" for line in (*remarks, *groups.list_limits()))]
    print("\n".join(lines))
    shown = report.list_scores(groups) if asked.verbose else report.list_first_scores(groups)
    if asked.named and not asked.verbose:
        shown = [name for name in report.list_scores(groups) if name in asked.named] or shown
    report.show(lambda width: report.make_compared_table(groups, shown, width))
    pictures = report.picture_groups(groups, loaded, measured, dataset, asked.options.seed)
    report.write_comparison(asked.comparison_dir, groups, measured, lines[0], pictures, remarks,
                             asked.data.dataset or "")
    print(f"  page       {asked.comparison_dir}/comparison.html, for a browser\n"
          f"  tables     {asked.comparison_dir}/comparison.csv, .md and .tex; models.csv has a row for each model "
          "except copies")


def read_recipe(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recipe in a model's card, with the model's own beta where its training named none."""
    recipe = dict(card["recipe"])
    if recipe.get("beta") is None and models.find_declared(card).default_beta is not None:
        recipe["beta"] = card["beta"]
    return recipe


def choose_test_parts(loaded: Mapping[str, export.Exported], asked: cli.DataRequest) -> dict[str, held_out.Scored]:
    """Return the examples to score each model on, {name: held_out.Scored}; models of the same data share them."""
    names = {name: model.card["data"]["name"] for name, model in loaded.items()}
    if len(set(names.values())) > 1 and asked.dataset is None:
        raise InputError("--compare: expected models of one dataset, or --dataset to compare them on; got "
                         + ", ".join(f"{name} of {data}" for name, data in names.items()))
    parts, chosen = {}, {}
    for name, model in loaded.items():
        key = json.dumps(export.list_trainings(model.card))
        if key not in parts:
            parts[key] = choose_test_part(model.card, asked)
        chosen[name] = parts[key]
    if asked.dataset is not None:       # a model of other data is scored on the test part of one of these data
        settings = next((part.settings for part in chosen.values() if part.settings["trained_on"] is not None), {})
        same = dataclasses.replace(asked, **{key: settings[key] for key in ("data_seed", "split") if settings})
        chosen = {name: part if part.settings["trained_on"] is not None else choose_test_part(loaded[name].card, same)
                  for name, part in chosen.items()}
    for name, model in loaded.items():
        try:
            evaluation.check_dataset(model, chosen[name].dataset)
        except InputError as error:
            raise InputError(f"--compare: {name}: {error}") from None
    return chosen


def score_missing(loaded: Mapping[str, export.Exported], parts: Mapping[str, held_out.Scored],
                  options: evaluation.Options) -> None:
    """Score the models whose metrics.json is not what --export would write, and write it."""
    missing = {name: why for name, model in loaded.items() if (why := evaluation.explain_missing(
        model.path / "metrics.json", options, *parts[name][:2], model.card["latents"]))}
    for name in missing:
        check_results(loaded[name].path, loaded[name].path / "metrics.json")
    for done, (name, why) in enumerate(missing.items(), 1):
        model, (dataset, settings, _) = loaded[name], parts[name]
        print(f"Scoring {done} of {len(missing)}: {model.path}, because {why}", flush=True)
        with files.keep_in_use(model.path):
            try:
                scored = evaluation.evaluate(model, dataset, progress=report.Progress(),
                                             keep=model.path / evaluation.FILE, **vars(options))
            except InputError as error:
                raise InputError(f"--compare: {name}: {error}") from None
            replaced = write_numbers(scored, model, settings, options)
            evaluation.forget(model.path / evaluation.FILE)
        if replaced:
            print(f"{model.path}/metrics.json is {replaced}")
        if (model.path / "report.html").exists():
            print(f"{model.path}/report.html, and the pictures beside it, show the scores of an earlier evaluation")


def say_other_examples(trainings: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    """Return a line that names the models of which nobody knows that they were trained on the examples of the first."""
    trained_on: dict[str, set[Any]] = {name: set() for name in trainings}
    for name, listed in trainings.items():
        for each in listed:
            fingerprint, split = each["data_fingerprint"], each["split"]
            # The seed decides random parts alone, where the card has the fingerprint, which tells the data themselves.
            is_known = fingerprint and split and not split.startswith("random")
            trained_on[name].add((fingerprint or each["dataset"], split, None if is_known else each["data_seed"]))
    chosen = next(iter(trainings))
    other = [name for name in trainings if trained_on[name] != trained_on[chosen]]
    return [f"What is said of training here is about {chosen}; these models were, or may have been, trained on other "
            f"examples: {', '.join(other)}."] if other else []
