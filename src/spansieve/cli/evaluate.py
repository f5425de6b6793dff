"""`spansieve evaluate`: how well a model does on labelled text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape


def evaluate(
    model: Annotated[Path, typer.Argument(help="a model's folder", show_default=False)],
    data: Annotated[Path, typer.Argument(help="labelled text, in any format that `data` reads", show_default=False)],
    format: Annotated[str | None, typer.Option(help="the format of the data, where it cannot be told")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help="where to write the figures")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    seed: Annotated[int, typer.Option(help="of the resampling for the intervals")] = 0,
) -> None:
    """Score a model on labelled text.

    Precision, recall and F1 by exact match, per label, by width and by length, with bootstrap intervals, and how far
    its probabilities can be trusted.

    Example: spansieve evaluate runs/demo/model test.conll --json scores.json
    """
    from spansieve.cli.reading import read_with_notes
    from spansieve.cli.tables import counts_table, percent, score_table
    from spansieve.prediction.assessing import assess
    from spansieve.prediction.predictor import load

    console = Console()
    predictor = load(model, device)
    assessment = assess(predictor, read_with_notes(data, format, console), seed)
    scores, calibration = assessment.scores, assessment.calibration
    console.print(score_table(scores, f"{data}: {scores.sentences:,} sentences", assessment.intervals))
    by_width = {str(width): counts for width, counts in scores.by_width.items()}
    console.print(counts_table(by_width, "by width of the segment", "tokens"))
    console.print(counts_table(dict(scores.by_length), "by length of the sentence", "tokens"))
    console.print(
        f"probabilities: calibration error {percent(calibration.expected_error)} %, "
        f"Brier score {calibration.brier:.4f} ({calibration.count:,} entities)",
        highlight=False,
    )
    if assessment.unknown_labels:
        names = escape(", ".join(assessment.unknown_labels))
        console.print(f"[yellow]labels that the model does not know, and that count as missed: {names}[/]")
    if json_file is not None:
        json_file.write_text(json.dumps(assessment.to_dict(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
