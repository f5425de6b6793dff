"""`spansieve audit`: which annotations are probably wrong."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from spansieve.cli.options import DataFormat, LabelledData
from spansieve.cli.train import configuration

if TYPE_CHECKING:
    from spansieve.data.example import Example
    from spansieve.prediction.annotation_errors import Finding
    from spansieve.segments import NamedSegment

NUM_SHOWN = 20


class AuditForm(str, Enum):
    """What an audit is written as: a row for each finding, or a task of a tool for each sentence with any."""

    csv = "csv"
    jsonl = "jsonl"
    prodigy = "prodigy"
    label_studio = "label-studio"
    doccano = "doccano"


def audit(
    data: LabelledData,
    output: Annotated[Path, typer.Option("--output", "-o", help="the file to write")],
    as_: Annotated[
        AuditForm, typer.Option("--as", help="a table, or the annotation tool to write for")
    ] = AuditForm.csv,
    folds: Annotated[int, typer.Option(help="how many models are trained, each on the other parts", min=2)] = 5,
    limit: Annotated[int | None, typer.Option(help="how many findings to write; all likely ones if not given")] = None,
    format: DataFormat = None,
    preset: Annotated[str | None, typer.Option(help="a shipped configuration, as of `train`")] = None,
    encoder: Annotated[str | None, typer.Option(help="builtin, or a Hugging Face encoder's name or folder")] = None,
    epochs: Annotated[int | None, typer.Option(help="how often the data is gone through")] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="any other setting, as of `train`")] = None,
    runs: Annotated[Path | None, typer.Option(help="where to keep the models, so that the audit can go on")] = None,
    cpu: Annotated[bool, typer.Option("--cpu", help="leave GPUs alone")] = False,
) -> None:
    """Rank annotated and missing entities by the odds that the annotation is wrong, by models that have not seen it.

    Written are those that are more likely wrong than right. What the tools import has the annotation as it stands, to
    be corrected, and the doubts beside it.

    Example: spansieve audit annotated.jsonl --output doubts.csv
    """
    chosen = configuration(None, preset, {"model.encoder.name": encoder, "training.epochs": epochs}, settings or ())
    from spansieve.cli.inputs import read_with_warnings
    from spansieve.cli.progress import TerminalObserver
    from spansieve.prediction.annotation_errors import audit as run

    console = Console()
    examples = read_with_warnings(data, format, console)
    with nullcontext(str(runs)) if runs else TemporaryDirectory() as folder, TerminalObserver(console) as observer:
        found = run(chosen, examples, folder, folds, use_cpu=cpu, observer=observer)
    likely = [finding for finding in found.findings if limit or finding.log_odds > 0][:limit]
    output.write_text(_written(likely, examples, as_), encoding="utf-8")
    _show(console, likely, examples)
    if found.num_not_judged:
        console.print(f"[yellow]{found.num_not_judged:,} annotated entities could not be judged by any model[/]")
    console.print(f"{len(likely):,} findings are in [bold]{escape(str(output))}[/]", highlight=False, soft_wrap=True)


def _show(console: Console, findings: Sequence[Finding], examples: Sequence[Example]) -> None:
    table = Table("sentence", "entity", "doubt", "instead", "log-odds")
    for finding in findings[:NUM_SHOWN]:
        row = _row(finding, examples)
        cells = (str(row["sentence"]), f"{row['text']} {row['label']}", row["doubt"], row["instead"])
        table.add_row(*map(escape, cells), f"{finding.log_odds:.2f}")
    console.print(table)


def _row(finding: Finding, examples: Sequence[Example]) -> dict[str, Any]:
    """A finding as a row: sentences are counted from 1, and its place is in characters of the sentence."""
    from spansieve.data.alignment import sentence_text

    example, segment = examples[finding.sentence], finding.segment
    text, offsets = sentence_text(example)
    changed = [s for s in finding.reading if s not in example.segments] if finding.doubt != "missing" else [segment]
    return {
        "sentence": finding.sentence + 1,
        "document": example.document,
        "start": offsets[segment.start][0],
        "end": offsets[segment.end - 1][1],
        "label": segment.label,
        "text": example.words(segment),
        "doubt": finding.doubt,
        "log_odds": round(finding.log_odds, 4),
        "instead": _named(changed, example) or "nothing",
        "reading": _named(finding.reading, example),
        "reading_probability": round(finding.probability, 4),
        "sentence_text": text,
    }


def _named(segments: Sequence[NamedSegment], example: Example) -> str:
    return ", ".join(f"{example.words(segment)} {segment.label}" for segment in segments)


def _written(findings: Sequence[Finding], examples: Sequence[Example], form: AuditForm) -> str:
    from spansieve.cli.options import Tool
    from spansieve.cli.outputs import json_line, suggestion_lines

    rows = [_row(finding, examples) for finding in findings]
    if form is AuditForm.csv:
        file = io.StringIO()
        writer = csv.DictWriter(file, list(rows[0]) if rows else ["sentence"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        return file.getvalue()
    if form is AuditForm.jsonl:
        return "".join(map(json_line, rows))
    by_sentence: dict[int, list[dict[str, Any]]] = {}
    for finding, row in zip(findings, rows):
        by_sentence.setdefault(finding.sentence, []).append(row)
    tasks = (_task(examples[i], i, doubts) for i, doubts in by_sentence.items())
    return "".join(suggestion_lines(tasks, Tool(form.value)))


def _task(example: Example, number: int, doubts: Sequence[dict[str, Any]]) -> Any:
    """A sentence for a tool, with its annotation, so that nothing changes where it is accepted as it is."""
    from spansieve.data.alignment import sentence_text
    from spansieve.data.tokenizer import Token
    from spansieve.prediction.preannotation import Suggestion
    from spansieve.segments import Entity

    text, offsets = sentence_text(example)
    told = "; ".join(f"{d['text']} {d['label']}: {d['doubt']}, instead {d['instead']}" for d in doubts)
    record = {"text": text, "doc": example.document, "sentence": number + 1, "doubt": told, "meta": {"doubt": told}}
    entities = [Entity(offsets[s.start][0], offsets[s.end - 1][1], s.label, example.words(s)) for s in example.segments]
    tokens = [Token(token, *place) for token, place in zip(example.tokens, offsets)]
    return Suggestion(record, tokens, entities, doubts[0]["log_odds"], "audit")
