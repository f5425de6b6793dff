"""`spansieve predict`: text in, entities out."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from spansieve.prediction.predictor import Predictor
    from spansieve.segments import Entity

COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")


class Output(str, Enum):
    jsonl = "jsonl"
    conll = "conll"
    text = "text"


def predict(
    model: Annotated[Path, typer.Argument(help="a model's folder", show_default=False)],
    texts: Annotated[
        list[str] | None, typer.Argument(help="texts; without any, and without --file, standard input is read")
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", "-f", help="a file of text, each line one; - is standard input")
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="take each file as one text and not line by line")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="where to write; standard output if not")
    ] = None,
    as_: Annotated[
        Output | None,
        typer.Option("--as", help="JSON lines, CoNLL columns, or highlighted text, which a terminal gets by default"),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
) -> None:
    """Find the entities of texts.

    Example: spansieve predict runs/demo/model "Alain Farley works at McGill University."
    """
    sources = _sources(texts, file, whole)
    from spansieve.prediction.predictor import load

    predictor = load(model, device)
    chosen = as_ or (Output.text if output is None and sys.stdout.isatty() else Output.jsonl)
    if output is None:
        _write(predictor, sources, chosen, sys.stdout)
    else:
        with output.open("w", encoding="utf-8") as target:
            _write(predictor, sources, chosen, target)


def _sources(texts: list[str] | None, files: list[Path] | None, whole: bool) -> Iterator[str]:
    for path in files or ():
        if path != Path("-") and not path.is_file():
            raise FileNotFoundError(f"no file {path}")
    if not texts and not files:
        files = [Path("-")]

    def read() -> Iterator[str]:
        yield from texts or ()
        for path in files or ():
            with _opened(path) as stream:
                try:
                    if whole:
                        yield stream.read()
                    else:
                        yield from (line.rstrip("\r\n") for line in stream)
                except UnicodeDecodeError as error:
                    name = "standard input" if path == Path("-") else path
                    raise ValueError(f"{name} must be UTF-8 text: {error}") from error

    return read()


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """Line ends as they are, so that offsets are those of the file."""
    if path != Path("-"):
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
        return
    stream = io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8-sig", newline="")
    try:
        yield stream
    finally:
        stream.detach()  # it is not ours to close


def _write(predictor: Predictor, texts: Iterable[str], chosen: Output, target: IO[str]) -> None:
    if chosen is Output.conll:
        _write_conll(predictor, texts, target)
        return
    console = Console(file=target, soft_wrap=True, highlight=False)
    for text, entities in predictor.stream(texts):
        if chosen is Output.jsonl:
            found = {"text": text, "entities": [entity._asdict() for entity in entities]}
            target.write(json.dumps(found, ensure_ascii=False) + "\n")
            target.flush()
        else:
            console.print(highlighted(text, entities, predictor.labels))


def _write_conll(predictor: Predictor, texts: Iterable[str], target: IO[str]) -> None:
    from spansieve.data.flattening import flat
    from spansieve.data.tagging import tags_of_segments

    lost = 0
    for found in predictor.examples(texts):
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
