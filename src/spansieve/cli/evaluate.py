"""`spansieve evaluate`: how well a model does on labelled text."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from spansieve.cli.options import DataFormat, Device, JsonFile, LabelledData, ModelOrExport, Probability
from spansieve.cli.outputs import write_json

if TYPE_CHECKING:
    from spansieve.evaluation.calibration import Threshold
    from spansieve.prediction.error_analysis import GoldOutcomes
    from spansieve.prediction.model_evaluation import Assessment


def evaluate(
    model: ModelOrExport,
    data: LabelledData,
    format: DataFormat = None,
    json_file: JsonFile = None,
    calibration: Annotated[
        Path | None, typer.Option(metavar="PNG", help="where to draw how far the probabilities can be trusted")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="a precision that you need, such as 0.95: shows from which probability on")
    ] = None,
    probability: Probability = "given-candidates",
    device: Device = "cpu",
    seed: Annotated[int, typer.Option(help="of the resampling for the intervals")] = 0,
) -> None:
    """Score a model on labelled text.

    Precision, recall and F1 by exact match, per label, by width and by length, with bootstrap intervals; where some are
    nested, outer and inner ones apart; where a model that filters loses gold; and how far its probabilities can be
    trusted.

    Example: spansieve evaluate runs/demo/model test.conll --calibration reliability.png --precision 0.99
    """
    from spansieve.cli.inputs import load_predictor, read_with_warnings
    from spansieve.cli.score_tables import reliability_table
    from spansieve.prediction.model_evaluation import assess

    if precision is not None and not 0 < precision <= 1:
        raise typer.BadParameter(f"precision must lie in (0, 1], got {precision}")
    console = Console()
    predictor = load_predictor(model, device, probability)
    assessment = assess(predictor, read_with_warnings(data, format, console), seed, precision)
    _show(console, assessment, data)
    if precision is not None:
        console.print(_threshold_line(precision, assessment.threshold), highlight=False)
    if predictor.decoder_settings.filters and not predictor.can_explain:
        console.print("where gold is lost (width, filter, path) needs the model itself, got an export", highlight=False)
    if calibration is not None:
        from spansieve.evaluation.plots import draw_reliability

        console.print(reliability_table(assessment.calibration))
        draw_reliability(assessment.calibration, calibration, title=data.name)
        console.print(f"drawn to {escape(str(calibration))}", highlight=False, soft_wrap=True)
    if assessment.unknown_labels:
        names = escape(", ".join(assessment.unknown_labels))
        console.print(f"[yellow]labels that the model does not know, and that count as missed: {names}[/]")
    write_json(assessment, json_file)


def _show(console: Console, assessment: Assessment, data: Path) -> None:
    from spansieve.cli.score_tables import counts_table, percent, score_table

    scores, trust = assessment.scores, assessment.calibration
    console.print(score_table(scores, f"{data}: {scores.sentences:,} sentences", assessment.intervals))
    by_width = {str(width): counts for width, counts in scores.by_width.items()}
    console.print(counts_table(by_width, "by width of the segment", "tokens"))
    console.print(counts_table(dict(scores.by_length), "by length of the sentence", "tokens"))
    if assessment.levels is not None:
        by_level = {name: level.micro for name, level in assessment.levels.items()}
        console.print(counts_table(by_level, "by level: within no other, and within another", "level"))
    if assessment.gold_outcomes is not None:
        console.print(_losses_line(assessment.gold_outcomes), highlight=False)
    console.print(
        f"probabilities: calibration error {percent(trust.expected_error)} %, "
        f"Brier score {trust.brier:.4f} ({trust.count:,} entities)",
        highlight=False,
    )


def _losses_line(outcomes: GoldOutcomes) -> str:
    """A line on where gold is lost, in the order in which a segment could have been."""
    from spansieve.cli.score_tables import percent

    places = {
        "its labels": outcomes.unknown,
        "max_width": outcomes.width,
        "the filter": outcomes.filter,
        "the path": outcomes.path,
    }
    shares = [f"{count:,} to {name} ({percent(count / max(1, outcomes.gold))} %)" for name, count in places.items()]
    return f"of {outcomes.gold:,} gold entities {outcomes.found:,} are found; lost are {', '.join(shares)}"


def _threshold_line(precision: float, threshold: Threshold | None) -> str:
    from spansieve.cli.score_tables import percent

    condition = f"for a precision of {percent(precision)} % on this data"
    if threshold is None:
        return f"{condition} no probability is high enough"
    limit = math.floor(1e6 * threshold.probability) / 1e6  # not above it, by rounding
    reached = f"precision {percent(threshold.precision)} %, recall {percent(threshold.recall)} %"
    return f"{condition}, keep what has a probability of at least {limit}: {reached}, {threshold.count:,} entities"
