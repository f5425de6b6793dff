"""`spansieve predict`: text in, entities out."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import chain, groupby, tee
from typing import IO, TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from spansieve.cli.constraint_options import Ban, ConstraintOptions, Fixed, Forbid, Require, Threshold
from spansieve.cli.inputs import Record, json_lines, load_predictor, records_of_arguments, text_files
from spansieve.cli.options import Device, ModelOrExport, OutputFile, Probability, Sentences, Whole
from spansieve.cli.outputs import highlighted, json_line, opened

if TYPE_CHECKING:
    from spansieve.decoding.constraints import Constraints
    from spansieve.prediction.text_predictor import TextPredictor
    from spansieve.segments import Entity


def predict(
    model: ModelOrExport,
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
            help="files of text, each line one, .jsonl files with a text in each line, or folders of them",
        ),
    ] = None,
    whole: Whole = False,
    sentences: Sentences = True,
    threshold: Threshold = None,
    fixed: Fixed = None,
    require: Require = None,
    forbid: Forbid = None,
    ban: Ban = None,
    output: OutputFile = None,
    as_: Annotated[
        Literal["jsonl", "conll", "text"] | None,
        typer.Option("--as", help="JSON lines, CoNLL columns, or highlighted text, which a terminal gets by default"),
    ] = None,
    probability: Probability = "given-candidates",
    device: Device = "cpu",
) -> None:
    """Find the entities of texts.

    Example: spansieve predict runs/demo/model "Alain Farley works at McGill University."

    Example: spansieve predict runs/demo/model --file letters/*.txt
    """
    options = ConstraintOptions.parsed(require, forbid, ban, threshold)
    fixed_records: Iterator[Record] = chain.from_iterable(map(json_lines, text_files(fixed or ())))
    is_only_fixed = fixed and not (texts or file)
    records = iter(()) if is_only_fixed else records_of_arguments(texts or (), file or (), whole)
    predictor = load_predictor(model, device, probability)
    constraints = None
    if options or fixed:
        # Both copies are read side by side, so that a chunk of the records is held and no more.
        records, of_texts = tee(records)
        fixed_records, of_fixed = tee(fixed_records)
        constraints = chain(
            options.constraints(of_texts, predictor, sentences),
            options.constraints(of_fixed, predictor, sentences, are_fixed=True),
        )
    form = as_ or ("text" if output is None and sys.stdout.isatty() else "jsonl")
    records = chain(records, fixed_records)
    with opened(output) as target:
        if form == "conll":
            _write_conll(target, predictor, records, sentences, constraints)
            return
        records, of_texts = tee(records)
        stream = predictor.stream((record["text"] for record in of_texts), sentences=sentences, constraints=constraints)
        predicted = ((record, entities) for record, (_, entities) in zip(records, stream))
        if form == "text":
            _write_text(target, predicted, predictor.labels)
            return
        for record, entities in predicted:
            target.write(json_line({**record, "entities": [entity._asdict() for entity in entities]}))
            target.flush()


def _write_text(target: IO[str], predicted: Iterable[tuple[Record, list[Entity]]], labels: tuple[str, ...]) -> None:
    """Write highlighted text, that of a file below the file's name."""
    console = Console(file=target, soft_wrap=True, highlight=False)
    name = None
    for record, entities in predicted:
        if record.get("file") != name:
            name = record.get("file")
            console.print(f"{name}:", style="dim", markup=False)
        console.print(highlighted(record["text"], entities, labels))


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
