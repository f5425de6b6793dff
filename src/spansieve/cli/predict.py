"""`spansieve predict`: text in, entities out."""

from __future__ import annotations

import csv
import functools
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from enum import Enum
from itertools import chain, groupby, tee
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from spansieve.cli.constraint_options import Ban, ConstraintOptions, Fixed, Forbid, Require, Threshold
from spansieve.cli.inputs import Record, json_lines, records_of_arguments, text_files
from spansieve.cli.options import Device, OutputFile, Probability, ProbabilityKind, TextColumn, Whole
from spansieve.cli.outputs import highlighted, json_line

if TYPE_CHECKING:
    from spansieve.decoding.constraints import Constraints
    from spansieve.prediction.text_predictor import TextPredictor
    from spansieve.segments import Entity


class OutputForm(str, Enum):
    """The forms in which entities are written."""

    jsonl = "jsonl"
    csv = "csv"
    tsv = "tsv"
    conll = "conll"
    text = "text"


SUFFIXES = {".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".csv": "csv", ".tsv": "tsv", ".conll": "conll"}
SUFFIXES |= {".txt": "text"}


def predict(
    model: Annotated[
        str, typer.Argument(help="a model's folder, or an export's, or a model's name on the Hub", show_default=False)
    ],
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="texts, or files where --file is given; standard input if there is neither"),
    ] = None,
    file: Annotated[
        list[str] | None,
        typer.Option(
            "--file",
            "-f",
            metavar="PATH...",
            help="files of text, each line one, .jsonl, .csv or .tsv files with a text in each row, or folders of them",
        ),
    ] = None,
    whole: Whole = False,
    text_column: TextColumn = None,
    sentences: Annotated[
        bool, typer.Option(help="cut texts into sentences, or find one segmentation for each text as a whole")
    ] = True,
    threshold: Threshold = None,
    fixed: Fixed = None,
    require: Require = None,
    forbid: Forbid = None,
    ban: Ban = None,
    output: OutputFile = None,
    as_: Annotated[
        OutputForm | None,
        typer.Option("--as", help="the form of the output, by its suffix where not given; csv has a row per entity"),
    ] = None,
    probability: Probability = ProbabilityKind.given_candidates,
    device: Device = "cpu",
) -> None:
    """Find the entities of texts.

    Example: spansieve predict runs/demo/model "Alain Farley works at McGill University."

    Example: spansieve predict runs/demo/model --file letters/*.txt
    """
    form = as_ or _form(output)
    options = ConstraintOptions.parsed(require, forbid, ban, threshold)
    fixed_records: Iterator[Record] = chain.from_iterable(map(json_lines, text_files(fixed or ())))
    is_only_fixed = fixed and not (texts or file)
    records = iter(()) if is_only_fixed else records_of_arguments(texts or (), file or (), whole, text_column)
    predictor = _loaded(model, device, probability)
    constraints = None
    if options or fixed:
        # Both copies are read side by side, so that a chunk of the records is held and no more.
        records, of_texts = tee(records)
        fixed_records, of_fixed = tee(fixed_records)
        constraints = chain(
            options.constraints(of_texts, predictor, sentences),
            options.constraints(of_fixed, predictor, sentences, are_fixed=True),
        )
    with nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8", newline="") as target:
        write = {"jsonl": _write_lines, "conll": _write_conll, "text": _write_text}.get(
            form.value, functools.partial(_write_table, separator="\t" if form is OutputForm.tsv else ",")
        )
        write(target, predictor, chain(records, fixed_records), sentences, constraints)


def _form(output: Path | None) -> OutputForm:
    """The form that an output gets by its name; a terminal gets highlighted text."""
    if output is None or not output.suffix:
        return OutputForm.text if output is None and sys.stdout.isatty() else OutputForm.jsonl
    if output.suffix.lower() not in SUFFIXES:
        raise ValueError(f"--output must end in {', '.join(SUFFIXES)}, or --as be given, got {output}")
    return OutputForm(SUFFIXES[output.suffix.lower()])


def _loaded(model: str, device: str, probability: ProbabilityKind) -> TextPredictor:
    """Load a model, or an export of one, which comes without torch."""
    from spansieve.prediction.onnx.folder import is_export

    if not is_export(model):
        from spansieve.integrations.hub import load

        return load(model, device, probability=probability.value)
    if device != "cpu":
        raise typer.BadParameter(f"an exported model runs on the CPU, got --device {device}: name the model itself")
    from spansieve.prediction.onnx import load as load_export

    return load_export(model, probability=probability.value)


def _predicted(
    predictor: TextPredictor, records: Iterable[Record], sentences: bool, constraints: Iterable[Constraints] | None
) -> Iterator[tuple[Record, list[Entity]]]:
    records, of_texts = tee(records)
    texts = (record["text"] for record in of_texts)
    stream = predictor.stream(texts, sentences=sentences, constraints=constraints)
    return ((record, entities) for record, (_, entities) in zip(records, stream))


def _write_lines(target: IO[str], predictor: TextPredictor, *arguments: Any) -> None:
    from spansieve.data.formats.jsonl import without_annotation

    for record, entities in _predicted(predictor, *arguments):
        target.write(json_line({**without_annotation(record), "entities": [entity._asdict() for entity in entities]}))
        target.flush()


def _write_table(target: IO[str], predictor: TextPredictor, *arguments: Any, separator: str) -> None:
    """Write a row per entity, with the text and what came with it in each; for a text without entities, one row."""
    from spansieve.data.formats.jsonl import without_annotation
    from spansieve.data.formats.tables import ENTITY_COLUMNS, entity_rows

    writer = csv.writer(target, delimiter=separator, lineterminator="\n")
    names: list[str] | None = None
    left_out: set[str] = set()
    for number, (record, entities) in enumerate(_predicted(predictor, *arguments)):
        record = {"doc": number, **record}
        if names is None:
            names = [n for n in record if not isinstance(record[n], (list, dict)) and n not in ENTITY_COLUMNS]
            writer.writerow((*names, *ENTITY_COLUMNS))
        left_out |= without_annotation(record).keys() - set(names)
        writer.writerows((*(record.get(name) for name in names), *cells) for cells in entity_rows(entities))
    if left_out:
        message = f"not in the table, since it has the columns of the first text: {', '.join(sorted(left_out))}"
        Console(stderr=True).print(f"{message}; --as jsonl has them", highlight=False, markup=False, soft_wrap=True)


def _write_text(target: IO[str], predictor: TextPredictor, *arguments: Any) -> None:
    """Write highlighted text, that of a file below the file's name."""
    console = Console(file=target, soft_wrap=True, highlight=False)
    name = None
    for record, entities in _predicted(predictor, *arguments):
        if record.get("file") != name:
            name = record.get("file")
            console.print(f"{name}:", style="dim", markup=False)
        console.print(highlighted(record["text"], entities, predictor.labels))


def _write_conll(
    target: IO[str],
    predictor: TextPredictor,
    records: Iterable[Record],
    sentences: bool,
    constraints: Iterable[Constraints] | None,
) -> None:
    """Write tokens and tags, those of a file below a comment with the file's name, as CoNLL-U has it."""
    from spansieve.data.overlap_resolution import flat
    from spansieve.data.tag_schemes import tags_of_segments

    lost = 0
    for file, group in groupby(records, key=lambda record: record.get("file")):
        if file is not None:
            target.write(f"# newdoc id = {file}\n")
        for prediction in predictor.examples((record["text"] for record in group), sentences, constraints):
            example, dropped = flat(prediction)
            lost += len(dropped)
            tags = tags_of_segments(example.segments, len(example), "BIO")
            target.write("".join(f"{token} {tag}\n" for token, tag in zip(example.tokens, tags)) + "\n")
    if lost:
        message = f"{lost:,} entities within others left out, since tags are flat; --as jsonl has them"
        Console(stderr=True).print(message, highlight=False)
