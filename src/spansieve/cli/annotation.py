"""`spansieve rank`, `suggest` and `audit`: which texts to annotate next, a model's entities to start from, and which
annotations are probably wrong."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from spansieve.cli.inputs import read_with_warnings, records_of_files
from spansieve.cli.options import (
    DataFormat,
    Device,
    ForTool,
    LabelledData,
    MinProbability,
    Model,
    OutputFile,
    TextColumn,
    TextFiles,
    Tool,
    Whole,
)
from spansieve.cli.outputs import Console, model_version, opened, write_suggestions
from spansieve.cli.terminal import TerminalObserver
from spansieve.cli.train import Encoder, Epochs, RunSettings, configuration, use_threads_that_pay
from spansieve.data.alignment import sentence_text
from spansieve.data.example import Example
from spansieve.data.tokenizer import Token
from spansieve.segments import Entity, NamedSegment

if TYPE_CHECKING:
    from spansieve.prediction.annotation_errors import Finding
    from spansieve.prediction.preannotation import Suggestion

NUM_SHOWN = 20  # findings of an audit


def rank(
    model: Model,
    files: TextFiles = None,
    by: Annotated[
        Literal["entropy", "least-confidence", "margin", "filter"],
        typer.Option(help="the measure of uncertainty; filter is the finest, for models that filter"),
    ] = "entropy",
    per_token: Annotated[
        bool, typer.Option("--per-token", help="divide by length, so that long texts do not come first")
    ] = False,
    diverse: Annotated[bool, typer.Option("--diverse", help="near-duplicates of a text come late")] = False,
    limit: Annotated[int | None, typer.Option(help="how many texts to write; all if not given", min=1)] = None,
    whole: Whole = False,
    text_column: TextColumn = None,
    output: OutputFile = None,
    as_: ForTool = "prodigy",
    device: Device = "cpu",
) -> None:
    """Order unlabelled texts by how unsure a model is of them, for annotation.

    Least sure first, with the model's entities to start from, and the score.

    Example: spansieve rank runs/demo/model unlabelled.txt --by margin --per-token --limit 100 -o annotate.jsonl
    """
    records = list(records_of_files(files or (), whole, text_column))
    from spansieve.integrations.hub import load
    from spansieve.prediction.preannotation import Suggestion, parts_of
    from spansieve.prediction.uncertainty import rank as ranked

    predictor = load(model, device)
    version = model_version(model, predictor.tagger)
    texts = ranked(predictor, [record["text"] for record in records], by, per_token, limit, diverse)
    suggestions = (Suggestion(records[text.place], *parts_of(text.sentences), text.score, version) for text in texts)
    write_suggestions(suggestions, as_, output)


def suggest(
    model: Model,
    files: TextFiles = None,
    as_: ForTool = "prodigy",
    threshold: MinProbability = 0.0,
    whole: Whole = False,
    text_column: TextColumn = None,
    output: OutputFile = None,
    device: Device = "cpu",
) -> None:
    """Write a model's entities as pre-annotations that a tool imports, in the order of the texts.

    What the tool exports is read by `data`, `convert` and `train`.

    Example: spansieve suggest runs/demo/model unlabelled.txt --as label-studio -o tasks.json
    """
    records = records_of_files(files or (), whole, text_column)
    from spansieve.integrations.hub import load
    from spansieve.prediction.preannotation import suggest as suggested

    predictor = load(model, device)
    write_suggestions(suggested(predictor, records, model_version(model, predictor.tagger), threshold), as_, output)


def audit(
    data: LabelledData,
    output: Annotated[Path, typer.Option("--output", "-o", help="the file to write")],
    as_: Annotated[
        Tool | None, typer.Option("--as", help="the annotation tool to write for; CSV if not given", show_default=False)
    ] = None,
    folds: Annotated[int, typer.Option(help="how many models are trained, each on the other parts", min=2)] = 5,
    limit: Annotated[int | None, typer.Option(help="how many findings to write; all likely ones if not given")] = None,
    format: DataFormat = None,
    config: Annotated[str | None, typer.Option(help="a file or the name of a configuration, as of `train`")] = None,
    encoder: Encoder = None,
    epochs: Epochs = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="any other setting, as of `train`")] = None,
    runs: Annotated[Path | None, typer.Option(help="where to keep the models, so that the audit can go on")] = None,
) -> None:
    """Rank annotated and missing entities by the odds that the annotation is wrong, by models that have not seen it.

    Written are those that are more likely wrong than right. What the tools import has the annotation as it stands, to
    be corrected, and the doubts beside it.

    Example: spansieve audit annotated.jsonl --output doubts.csv
    """
    if output.is_dir() or not output.parent.is_dir():  # which would be found out after the training
        raise typer.BadParameter(f"--output must be a file in a folder that exists, got {output}")
    chosen, own = configuration(config, {"model.encoder.name": encoder, "training.epochs": epochs}, settings)
    if own != RunSettings(own.cpu):
        raise ValueError("of the settings of a run, run.cpu alone can be set for the models of an audit")
    use_threads_that_pay(chosen)
    from spansieve.prediction.annotation_errors import audit as run

    console = Console()
    examples = read_with_warnings(data, format, console)
    with nullcontext(str(runs)) if runs else TemporaryDirectory() as folder, TerminalObserver(console) as observer:
        found = run(chosen, examples, folder, folds, use_cpu=own.cpu, observer=observer)
    likely = [finding for finding in found.findings if limit or finding.log_odds > 0][:limit]
    rows = [_row(finding, examples) for finding in likely]
    if as_ is None:
        with opened(output) as file:
            writer = csv.DictWriter(file, list(rows[0]) if rows else ["sentence"], lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    else:
        write_suggestions(_tasks(rows, examples), as_, output)
    table = Table("sentence", "entity", "doubt", "instead", "log-odds")
    for row in rows[:NUM_SHOWN]:
        cells = (str(row["sentence"]), f"{row['text']} {row['label']}", row["doubt"], row["instead"])
        table.add_row(*map(escape, cells), f"{row['log_odds']:.2f}")
    console.print(table)
    if found.num_not_judged:
        console.warn(f"{found.num_not_judged:,} annotated entities could not be judged by any model")
    console.print(f"{len(likely):,} findings are in [bold]{escape(str(output))}[/]")


def _row(finding: Finding, examples: Sequence[Example]) -> dict[str, Any]:
    """A finding as a row: sentences are counted from 1, and its place is in characters of the sentence."""
    example, segment = examples[finding.sentence], finding.segment
    text, offsets = sentence_text(example)
    is_missing = finding.doubt == "missing"
    changed = [segment] if is_missing else [s for s in finding.segmentation if s not in example.segments]
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
        "segmentation": _named(finding.segmentation, example),
        "reading_probability": round(finding.probability, 4),
        "sentence_text": text,
    }


def _named(segments: Sequence[NamedSegment], example: Example) -> str:
    return ", ".join(f"{example.words(segment)} {segment.label}" for segment in segments)


def _tasks(rows: Sequence[dict[str, Any]], examples: Sequence[Example]) -> Iterator[Suggestion]:
    """Make a task of each sentence, with its annotation: where that is accepted as it is, nothing changes."""
    from spansieve.prediction.preannotation import Suggestion

    by_sentence: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_sentence[row["sentence"]].append(row)
    for number, doubts in by_sentence.items():
        example = examples[number - 1]
        text, offsets = sentence_text(example)
        doubt = "; ".join(f"{d['text']} {d['label']}: {d['doubt']}, instead {d['instead']}" for d in doubts)
        record = {"text": text, "doc": example.document, "sentence": number, "doubt": doubt, "meta": {"doubt": doubt}}
        places = [(offsets[s.start][0], offsets[s.end - 1][1]) for s in example.segments]
        entities = [Entity(*place, s.label, example.words(s)) for place, s in zip(places, example.segments)]
        tokens = [Token(token, *place) for token, place in zip(example.tokens, offsets)]
        yield Suggestion(record, tokens, entities, doubts[0]["log_odds"], "audit")
