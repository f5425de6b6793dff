"""`spansieve compare`: two models on the same labelled text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

from spansieve.cli.options import DataFormat, Device, JsonFile, LabelledData
from spansieve.cli.outputs import write_json

if TYPE_CHECKING:
    from spansieve.data.example import Example
    from spansieve.evaluation.significance import Comparison


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
    from spansieve.cli.inputs import read_with_warnings
    from spansieve.evaluation.significance import compare as compared
    from spansieve.prediction.predictor import load

    console = Console()
    examples = read_with_warnings(data, format, console)
    gold, tokens = [example.segments for example in examples], [example.tokens for example in examples]
    by_a, by_b = ([prediction.segments for prediction in load(path, device).predict_tokens(tokens)] for path in (a, b))
    comparison = compared(gold, by_a, by_b, lengths=list(map(len, examples)), seed=seed)

    for name, path in (("A", a), ("B", b)):
        console.print(f"[bold]{name}[/] {escape(str(path))}", highlight=False, soft_wrap=True)
    _show_scores(console, comparison, data)
    _show_differences(console, comparison, examples, show)
    write_json(comparison, json_file)


def _show_scores(console: Console, comparison: Comparison, data: Path) -> None:
    from spansieve.cli.terminal import percent, score_columns
    from spansieve.evaluation.significance import comparison_rows

    table = score_columns(f"F1 on {data}", "label", "A", "B", "B - A")
    for row in comparison_rows(comparison):
        name, *figures = row.values()
        table.add_row(escape(str(name)), *(percent(float(figure)) for figure in figures))
    console.print(table)
    low, high = percent(comparison.difference.low), percent(comparison.difference.high)
    console.print(
        f"\nB - A: {percent(comparison.difference.value)} F1, 95 % interval {low} … {high}\n"
        f"p = {comparison.randomisation_p_value:.4f} (randomisation), {comparison.bootstrap_p_value:.4f} (bootstrap)",
        highlight=False,
    )


def _show_differences(console: Console, comparison: Comparison, examples: Sequence[Example], show: int) -> None:
    console.print(f"\n{len(comparison.differences):,} of {len(examples):,} sentences differ")
    for difference in comparison.differences[:show]:
        example = examples[difference.index]
        console.print(f"\n[dim]{difference.index}[/] {escape(' '.join(example.tokens))}", highlight=False)
        for name, segments in (("gold", difference.gold), ("A", difference.a), ("B", difference.b)):
            listed = ", ".join(f"{escape(example.words(s))} [cyan]{escape(s.label)}[/]" for s in segments)
            console.print(f"  {name:>4}  {listed or '[dim]nothing[/]'}", highlight=False)
    if len(comparison.differences) > show:
        console.print(f"\n… and {len(comparison.differences) - show:,} more: --show, or --json for all")
