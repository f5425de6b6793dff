"""`spansieve evaluate`, `compare` and `calibrate`: how well a model does, and two of them, and what can be promised."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from rich.markup import escape

from spansieve.cli.inputs import load_predictor, read_with_warnings, records_of_files
from spansieve.cli.options import DataFormat, Device, JsonFile, LabelledData, LoadSettings, ModelOrExport
from spansieve.cli.outputs import Console, json_line, write_json
from spansieve.cli.terminal import (
    confusion_table,
    counts_table,
    errors_table,
    expected_table,
    percent,
    reliability_table,
    rounded_down,
    score_table,
    table_of,
    thresholds_table,
)

if TYPE_CHECKING:
    from spansieve.data.example import Example
    from spansieve.evaluation.error_types import SegmentError
    from spansieve.evaluation.significance import Comparison
    from spansieve.models.filtered import FilteredHead
    from spansieve.prediction.model_evaluation import Assessment
    from spansieve.prediction.predictor import GoldOutcomes
    from spansieve.prediction.promises import Promise
    from spansieve.prediction.text_predictor import TextPredictor

ERROR_FILES = (".jsonl", ".html")
MIN_LOSS = 0.01  # the share of gold from which on there is a next step

ErrorFiles = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="where to write the errors: .jsonl for one per line, .html for a page of the worst sentences",
    ),
]
Picture = Annotated[
    Path | None, typer.Option(metavar="PNG", help="where to draw how far the probabilities can be trusted")
]
WantedPrecision = Annotated[
    float | None, typer.Option(help="a precision that you need, such as 0.95: shows the thresholds for it")
]


def evaluate(
    model: ModelOrExport,
    data: LabelledData,
    format: DataFormat = None,
    json_file: JsonFile = None,
    errors: ErrorFiles = None,
    calibration: Picture = None,
    precision: WantedPrecision = None,
    settings: LoadSettings = None,
    device: Device = "cpu",
    seed: Annotated[int, typer.Option(help="of the resampling for the intervals")] = 0,
    unlabelled: Annotated[
        bool, typer.Option("--unlabelled", help="the data is plain text: show the scores that the model expects")
    ] = False,
) -> None:
    """Score a model on labelled text, or tell what it expects of itself on text without labels.

    Precision, recall and F1 by exact match, per label, by width and by length, with bootstrap intervals; where some are
    nested, outer and inner ones apart; what kinds of errors there are; where a model that filters loses gold; how far
    its probabilities can be trusted; and, beside the true ones, the scores that they let expect without any gold.

    Example: spansieve evaluate runs/demo/model test.conll --errors errors.html --precision 0.99
    """
    from spansieve.evaluation.plots import check_can_draw, draw_reliability
    from spansieve.prediction.model_evaluation import assess

    if precision is not None and not 0 < precision <= 1:
        raise typer.BadParameter(f"precision must lie in (0, 1], got {precision}")
    for path in errors or ():
        if path.suffix.lower() not in ERROR_FILES or not path.parent.is_dir():
            raise typer.BadParameter(f"--errors must be a .jsonl or .html file in a folder that exists, got {path}")
    if calibration is not None:
        check_can_draw()  # before minutes of work
    console = Console(soft_wrap=False)
    predictor = load_predictor(model, device, settings)
    if unlabelled:
        return _show_expected(console, predictor, data, json_file)
    examples = read_with_warnings(data, format, console)
    assessment = assess(predictor, examples, seed, precision)
    _show(console, assessment, data)
    if assessment.gold_outcomes is not None:
        console.print(_losses_line(assessment.gold_outcomes))
        for step in _next_steps(assessment.gold_outcomes, cast("Any", predictor).tagger.head, examples):
            console.warn(step)
    elif predictor.decoder_settings.filters:
        console.print("where gold is lost (width, filter, path) needs the model itself, got an export")
    if errors:
        _show_errors(console, errors, f"{model} on {data}", examples, assessment)
    if precision is not None:
        _show_thresholds(console, assessment, precision)
    if calibration is not None:
        console.print(reliability_table(assessment.calibration))
        draw_reliability(assessment.calibration, calibration, title=data.name)
        console.print(f"drawn to {escape(str(calibration))}", soft_wrap=True)
    if assessment.unknown_labels:
        names = ", ".join(assessment.unknown_labels)
        console.warn(f"labels that the model does not know, and that count as missed: {names}")
    write_json(assessment, json_file)


def _show(console: Console, assessment: Assessment, data: Path) -> None:
    scores, trust = assessment.scores, assessment.calibration
    console.print(score_table(scores, f"{data}: {scores.sentences:,} sentences", assessment.intervals))
    console.print(counts_table(scores.by_width, "by width of the segment", "tokens"))
    console.print(counts_table(scores.by_length, "by length of the sentence", "tokens"))
    if assessment.levels is not None:
        by_level = {name: level.micro for name, level in assessment.levels.items()}
        console.print(counts_table(by_level, "by level: within no other, and within another", "level"))
    counts = ", ".join(f"{count:,} {kind}" for kind, count in assessment.errors.by_kind.items())
    console.print(f"errors: {counts}; --errors errors.html shows them")
    expected = "expected by the model's own probabilities, without gold"
    console.print(expected_table(assessment.expected, expected, assessment.scores))
    shown = f"calibration error {percent(trust.expected_error)} %, Brier score {trust.brier:.4f}"
    console.print(f"probabilities: {shown} ({trust.count:,} entities)")


def _show_expected(console: Console, predictor: TextPredictor, data: Path, json_file: Path | None) -> None:
    """What a model expects of itself on plain text."""
    from spansieve.prediction.model_evaluation import expected_scores
    from spansieve.prediction.text_predictor import chunks_of, words_of

    texts = (record["text"] for record in records_of_files([str(data)], whole=False))
    batches = (words_of(predictor.pieces(chunk, sentences=True)) for chunk in chunks_of(texts))
    expected = expected_scores(predictor, batches)
    console.print(expected_table(expected, f"{data}: expected by the model's own probabilities, without gold"))
    write_json(expected, json_file)


def _losses_line(outcomes: GoldOutcomes) -> str:
    """A line on where gold is lost, in the order in which a segment could have been."""
    places = ("its labels", "max_width", "the filter", "the path")
    counts = (outcomes.unknown, outcomes.width, outcomes.filter, outcomes.path)
    shares = [f"{n:,} to {place} ({percent(n / max(1, outcomes.gold))} %)" for place, n in zip(places, counts)]
    return f"of {outcomes.gold:,} gold entities {outcomes.found:,} are found; lost are {', '.join(shares)}"


def _next_steps(outcomes: GoldOutcomes, head: FilteredHead, examples: Sequence[Example]) -> list[str]:
    """What to try where much is lost to width or filter."""
    steps, least = [], MIN_LOSS * outcomes.gold
    if outcomes.width > least:
        widest = max(segment.width for example in examples for segment in example.segments)
        steps.append(f"to lose less to max_width: train with --set model.max_width={widest}")
    if outcomes.filter > least:
        kept = head.limits.labels_per_span
        more = f"model.margin={head.margin + 2:g} --set model.labels_per_span={min(kept + 1, len(head.labels) - 1)}"
        softer = f"--set {more} --set model.skip=true (now {head.margin:g}, {kept} and {head.skip})"
        if head.filter_labels:
            softer = f"--head {'nested' if head.kind == 'nested' else 'fsemicrf'}, whose filter can be soft"
        steps.append(f"to lose less to the filter: train with more data, or with {softer}")
    return steps


def _show_thresholds(console: Console, assessment: Assessment, precision: float) -> None:
    """What to give to `predict --threshold` for a precision: one probability for all labels, or one for each."""
    found = assessment.threshold
    if found is None:
        console.print("nothing is predicted here, so there is no threshold")
        return
    reached = f"precision {percent(found.precision)} %, recall {percent(found.recall)} %, {found.count:,} entities"
    limit = f"keep what has a probability of at least {rounded_down(found.probability)}: {reached}"
    if found.precision >= precision:
        console.print(f"for a precision of {percent(precision)} % on this data, {limit}")
    else:
        out = f"a precision of {percent(precision)} % is out of reach on this data; the highest is"
        console.print(f"{out} {percent(found.precision)} %: {limit}")
    console.print(thresholds_table(assessment.label_thresholds, precision))
    each = {label: rounded_down(threshold.probability) for label, threshold in assessment.label_thresholds.items()}
    options = " ".join(f"--threshold {shlex.quote(f'{label}={limit}')}" for label, limit in each.items())
    console.print(f"for `spansieve predict`: {escape(options)}", soft_wrap=True)


def _show_errors(
    console: Console, paths: Sequence[Path], title: str, examples: Sequence[Example], assessment: Assessment
) -> None:
    from spansieve.evaluation.error_page import error_page

    console.print(errors_table(assessment.errors))
    console.print(confusion_table(assessment.errors))
    predicted = [dict(zip(found.segments, found.probabilities or ())) for found in assessment.predictions]
    for path in paths:
        if path.suffix.lower() == ".html":
            page = error_page(title, examples, predicted, assessment.errors)
        else:
            page = "".join(_error_line(error, examples[error.sentence]) for error in assessment.errors.errors)
        # Half a surrogate pair, which UTF-8 does not have, is written as its number.
        path.write_bytes(page.encode("utf-8", "xmlcharrefreplace"))
        console.print(f"errors written to {escape(str(path))}", soft_wrap=True)


def _error_line(error: SegmentError, example: Example) -> str:
    sides = {
        side: segment and {**segment._asdict(), "text": example.words(segment)}
        for side, segment in (("gold", error.gold), ("predicted", error.predicted))
    }
    return json_line({**error._asdict(), **sides, "document": example.document, "tokens": example.tokens})


# ---- Two models ------------------------------------------------------------------------------------------------------


def compare(
    a: Annotated[Path, typer.Argument(help="a model's folder", show_default=False)],
    b: Annotated[Path, typer.Argument(help="another model's folder", show_default=False)],
    data: LabelledData,
    format: DataFormat = None,
    show: Annotated[int, typer.Option(help="how many of the sentences where they differ to list")] = 20,
    json_file: JsonFile = None,
    device: Device = "cpu",
    seed: Annotated[int, typer.Option(help="of the tests")] = 0,
) -> None:
    """Compare two models on the same labelled text.

    By paired tests (approximate randomisation and bootstrap over sentences), with the sentences where they differ.

    Example: spansieve compare runs/crf/model runs/fsemicrf/model test.conll
    """
    from spansieve.evaluation.significance import compare as compared
    from spansieve.integrations.hub import load

    console = Console(soft_wrap=False)
    examples = read_with_warnings(data, format, console)
    gold, tokens = [example.segments for example in examples], [example.tokens for example in examples]
    by_a, by_b = ([prediction.segments for prediction in load(path, device).predict_tokens(tokens)] for path in (a, b))
    comparison = compared(gold, by_a, by_b, lengths=list(map(len, examples)), seed=seed)

    for name, path in (("A", a), ("B", b)):
        console.print(f"[bold]{name}[/] {escape(str(path))}", soft_wrap=True)
    _show_comparison(console, comparison, data)
    _show_differences(console, comparison, examples, show)
    write_json(comparison, json_file)


def _show_comparison(console: Console, comparison: Comparison, data: Path) -> None:
    from spansieve.evaluation.significance import comparison_rows

    named = (row.values() for row in comparison_rows(comparison))
    rows = [(str(name), *(percent(float(figure)) for figure in figures)) for name, *figures in named]
    console.print(table_of(f"F1 on {data}", ("label", "A", "B", "B - A"), rows))
    low, high = percent(comparison.difference.low), percent(comparison.difference.high)
    console.print(
        f"\nB - A: {percent(comparison.difference.value)} F1, 95 % interval {low} … {high}\n"
        f"p = {comparison.randomisation_p_value:.4f} (randomisation), {comparison.bootstrap_p_value:.4f} (bootstrap)",
    )


def _show_differences(console: Console, comparison: Comparison, examples: Sequence[Example], show: int) -> None:
    console.print(f"\n{len(comparison.differences):,} of {len(examples):,} sentences differ")
    for difference in comparison.differences[:show]:
        example = examples[difference.index]
        console.print(f"\n[dim]{difference.index}[/] {escape(' '.join(example.tokens))}")
        for name, segments in (("gold", difference.gold), ("A", difference.a), ("B", difference.b)):
            listed = ", ".join(f"{escape(example.words(s))} [cyan]{escape(s.label)}[/]" for s in segments)
            console.print(f"  {name:>4}  {listed or '[dim]nothing[/]'}")
    if len(comparison.differences) > show:
        console.print(f"\n… and {len(comparison.differences) - show:,} more: --show, or --json for all")


# ---- What can be promised --------------------------------------------------------------------------------------------


def calibrate(
    model: ModelOrExport,
    data: LabelledData,
    miss: Annotated[
        float | None,
        typer.Option(help="the share of entity tokens that may be left uncovered, such as 0.01", show_default=False),
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="the share of accepted entities that must be right", show_default=False)
    ] = None,
    sets: Annotated[
        float | None, typer.Option(help="how often a set of segmentations must hold the true one", show_default=False)
    ] = None,
    confidence: Annotated[float, typer.Option(help="of the first two, over the draw of the data")] = 0.95,
    margin: Annotated[
        float, typer.Option(min=0, help="how much more a filter keeps than in prediction; inf: all spans")
    ] = 0.0,
    format: DataFormat = None,
    json_file: JsonFile = None,
    settings: LoadSettings = None,
    device: Device = "cpu",
) -> None:
    """Make promises for new text, on labelled text that the model was not trained on, and write them beside the model.

    They hold for text that is drawn as the data was; what cannot be promised is refused, with what could be. Choose the
    levels before you look at the data. `predict`, `predict-files` and `serve` take them by --guarantee.

    Example: spansieve calibrate runs/demo/model held-out.conll --miss 0.01 --confidence 0.95
    """
    from spansieve.prediction.guarantees import calibrate as make
    from spansieve.prediction.promises import GUARANTEE, write_promises

    if miss is precision is sets is None:
        raise typer.BadParameter("at least one of --miss, --precision and --sets must be given")
    if not Path(model).is_dir():
        raise FileNotFoundError(f"no folder {model}: a guarantee is written beside the model, which must be here")
    console = Console()
    predictor = load_predictor(model, device, settings)
    examples = read_with_warnings(data, format, console)
    levels = {"miss": miss, "precision": precision, "sets": sets}
    promises = make(predictor, examples, **levels, confidence=confidence, margin=margin)
    write_json(promises, json_file)
    write_promises(Path(model), promises)
    for promise in promises:
        console.print(escape(promise.describe()))
        for line in _cost_lines(promise):
            console.print(escape(line))
    unknown = {s.label for example in examples for s in example.segments} - set(predictor.labels)
    if unknown:
        console.warn(f"labels that the model does not know, and that do not count: {', '.join(sorted(unknown))}")
    console.print(f"written to {escape(str(Path(model) / GUARANTEE))}")


def _cost_lines(promise: Promise) -> list[str]:
    """What a promise costs, on the data it was made on."""
    if promise.kind == "set":
        return [f"  the sets have {promise.cost:.1f} segmentations on average"]
    given = f"  by {promise.counted:,} of its"
    cap = f"a {promise.unit} with more than {promise.cap} counts as one with {promise.cap}"
    if promise.kind == "precision":
        return [f"{given} predicted entities; {cap}", f"  {percent(promise.cost)} % of the right ones are lost"]
    lines = [f"{given} gold tokens; {cap}", f"  {percent(promise.cost)} % of all other tokens are covered, too"]
    if promise.label_thresholds:
        lines.append(f"  the same of each alone: {', '.join(promise.label_thresholds)}")
    lines += [f"  of {label} alone at most {level:.2g}" for label, level in promise.label_levels.items() if level < 1]
    none = [label for label, level in promise.label_levels.items() if level >= 1]
    return lines + ([f"  nothing can be promised of {', '.join(none)} alone"] if none else [])
