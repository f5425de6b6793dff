"""`spansieve predict`: text in, entities out."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from enum import Enum
from itertools import chain, tee
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from spansieve.cli.constraint_options import Ban, Fixed, Forbid, Require, Threshold, constraints_of, read_wishes
from spansieve.cli.predict_bulk import Cluster, bulk_option, predict_bulk
from spansieve.cli.probability import Kind, Probability
from spansieve.cli.texts import json_line, json_lines, texts_of

if TYPE_CHECKING:
    from spansieve.decoding.constraints import Constraints
    from spansieve.prediction.text_predictor import TextPredictor
    from spansieve.segments import Entity

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")


class Output(str, Enum):
    jsonl = "jsonl"
    conll = "conll"
    text = "text"


def predict(
    model: Annotated[
        str, typer.Argument(help="a model's folder, or an export's, or a model's name on the Hub", show_default=False)
    ],
    texts: Annotated[
        list[str] | None, typer.Argument(help="texts; without any, and without --file, standard input is read")
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="a file of text, each line one; - is standard input")
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="take each file as one text and not line by line")] = False,
    sentences: Annotated[
        bool, typer.Option(help="cut texts into sentences, or find one segmentation for each text as a whole")
    ] = True,
    threshold: Threshold = None,
    fixed: Fixed = None,
    require: Require = None,
    forbid: Forbid = None,
    ban: Ban = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="where to write; standard output if not")] = None,
    as_: Annotated[
        Output | None,
        typer.Option("--as", help="JSON lines, CoNLL columns, or highlighted text, which a terminal gets by default"),
    ] = None,
    probability: Probability = Kind.given_candidates,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
    input_: Annotated[str | None, bulk_option("--input", "rows as JSON lines or Parquet: a file, folder, URI")] = None,
    engine: Annotated[str, bulk_option("--engine", "local: this process; ray: a cluster")] = "local",
    address: Annotated[str | None, bulk_option("--address", "of a Ray cluster; one is started here if not")] = None,
    replicas: Annotated[int | None, bulk_option("--replicas", "copies of the model there; as many as fit")] = None,
    workers: Annotated[int, bulk_option("--workers", "processes that prepare text for each copy")] = 0,
    precision: Annotated[str, bulk_option("--precision", "of the encoder: fp32 or bf16")] = "fp32",
    text_column: Annotated[str, bulk_option("--text-column", "what is read")] = "text",
    entities_column: Annotated[str, bulk_option("--entities-column", "what is added")] = "entities",
    error_column: Annotated[str, bulk_option("--error-column", "why a row could not be read")] = "error",
    block_size: Annotated[int, bulk_option("--block-size", "MB of input that become one part")] = 32,
) -> None:
    """Find the entities of texts.

    Example: spansieve predict runs/demo/model "Alain Farley works at McGill University."
    """
    wishes = read_wishes(require, forbid, ban, threshold)
    if input_ is not None:
        if fixed or not wishes.are_one_threshold:
            raise typer.BadParameter("--input takes a --threshold for all labels, and no other constraints")
        if texts or file or whole or as_ is not None:
            raise typer.BadParameter("--input takes rows, so there can be no texts, no --file, no --whole and no --as")
        predict_bulk(
            model,
            input_,
            output,
            Cluster(engine, address, replicas),
            columns={"text": text_column, "entities": entities_column, "error": error_column},
            device=device,
            precision=precision,
            workers=workers,
            block_size=block_size << 20,
            sentences=sentences,
            threshold=wishes.threshold,
        )
        return
    if engine != "local":
        raise typer.BadParameter("--engine needs rows to work on, from --input")
    records = _records(texts, file, whole, fixed)
    predictor = _loaded(model, device, probability)
    chosen = as_ or (Output.text if output is None and sys.stdout.isatty() else Output.jsonl)
    constraints = None
    if wishes or fixed:
        records, again = tee(records)  # read side by side, so that a chunk of them is held and no more
        constraints = constraints_of(again, predictor, wishes, sentences)
    sources = (record["text"] for record in records)
    with nullcontext(sys.stdout) if output is None else Path(output).open("w", encoding="utf-8") as target:
        _write(predictor, sources, chosen, target, sentences, constraints)


def _records(
    texts: list[str] | None, files: list[Path] | None, whole: bool, fixed: list[Path] | None
) -> Iterator[dict[str, Any]]:
    """The records of the texts, and then those with what is known of each."""
    records = ({"text": text} for text in texts_of(texts, files, whole))
    return chain(records if texts or files else (), *map(json_lines, fixed)) if fixed else records


def _loaded(model: str, device: str, probability: Kind) -> TextPredictor:
    """Load a model, or an export of one, which comes without torch."""
    from spansieve.prediction.onnx.folder import is_export

    if not is_export(model):
        from spansieve.integrations.hub import load

        return load(model, device, probability=probability.value)
    if device != "cpu":
        raise typer.BadParameter(f"an exported model runs on the CPU, got --device {device}: name the model itself")
    from spansieve.prediction.onnx import load as load_export

    return load_export(model, probability=probability.value)


def _write(
    predictor: TextPredictor,
    texts: Iterable[str],
    chosen: Output,
    target: IO[str],
    sentences: bool,
    constraints: Iterable[Constraints] | None,
) -> None:
    if chosen is Output.conll:
        _write_conll(predictor, texts, target, sentences, constraints)
        return
    console = Console(file=target, soft_wrap=True, highlight=False)
    for text, entities in predictor.stream(texts, sentences=sentences, constraints=constraints):
        if chosen is Output.jsonl:
            target.write(json_line({"text": text, "entities": [entity._asdict() for entity in entities]}))
            target.flush()
        else:
            console.print(highlighted(text, entities, predictor.labels))


def _write_conll(
    predictor: TextPredictor,
    texts: Iterable[str],
    target: IO[str],
    sentences: bool,
    constraints: Iterable[Constraints] | None,
) -> None:
    from spansieve.data.overlap_resolution import flat
    from spansieve.data.tag_schemes import tags_of_segments

    lost = 0
    for found in predictor.examples(texts, sentences, constraints):
        example, dropped = flat(found)
        lost += len(dropped)
        tags = tags_of_segments(example.segments, len(example), "BIO")
        target.write("".join(f"{token} {tag}\n" for token, tag in zip(example.tokens, tags)) + "\n")
    if lost:
        message = f"{lost:,} entities within others left out, since tags are flat; --as jsonl has them"
        Console(stderr=True).print(message, highlight=False)


def highlighted(text: str, entities: Iterable[Entity], labels: tuple[str, ...]) -> Text:
    """The text with each entity in its label's colour, and the label and probability behind it. An entity that contains
    others comes before them."""
    colour = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    shown, reached = Text(), 0
    around: list[Entity] = []

    def show_up_to(position: int) -> None:
        nonlocal reached
        shown.append(text[reached:position], style=f"bold {colour[around[-1].label]}" if around else "")
        reached = position

    def close_until(start: float) -> None:
        while around and around[-1].end <= start:
            show_up_to(around[-1].end)
            entity = around.pop()
            sure = "" if entity.probability is None else f" {entity.probability:.2f}"
            shown.append(f" [{entity.label}{sure}]", style=f"dim {colour[entity.label]}")

    for entity in entities:
        close_until(entity.start)
        show_up_to(entity.start)
        around.append(entity)
    close_until(math.inf)
    show_up_to(len(text))
    return shown
