"""`spansieve suggest`: what a model finds, for annotators to start from."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spansieve.cli.texts import json_line, records_of

if TYPE_CHECKING:
    from spansieve.prediction.preannotation import Suggestion


class Tool(str, Enum):
    prodigy = "prodigy"
    label_studio = "label-studio"
    doccano = "doccano"
    jsonl = "jsonl"


def suggest(
    model: Annotated[str, typer.Argument(help="a model's folder, or its name on the Hub", show_default=False)],
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="texts: each line one; of .jsonl files the key text; standard input without any"),
    ] = None,
    as_: Annotated[Tool, typer.Option("--as", help="for which annotation tool")] = Tool.prodigy,
    threshold: Annotated[float, typer.Option(help="leave out what is less probable", min=0, max=1)] = 0.0,
    whole: Annotated[bool, typer.Option("--whole", help="take each file as one text and not line by line")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="where to write; standard output if not")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
) -> None:
    """Write what a model finds as pre-annotations that a tool imports, in the order of the texts.

    What the tool exports is read by `data`, `convert` and `train`.

    Example: spansieve suggest runs/demo/model unlabelled.txt --as label-studio -o tasks.json
    """
    records = records_of(None, files, whole)
    from spansieve.integrations.hub import load
    from spansieve.prediction.preannotation import suggest as suggested

    predictor = load(model, device)
    write_suggestions(suggested(predictor, records, version(model, predictor.tagger), threshold), as_, output)


def version(model: str, tagger: Any) -> str:
    """The model's name, and a version that changes with its weights."""
    from spansieve.models.storage import name_of, version_of

    return f"{name_of(model)}-{version_of(tagger)}"


def write_suggestions(suggestions: Iterable[Suggestion], tool: Tool, output: Path | None) -> None:
    """Write suggestions as they come, to a file or to standard output."""
    from spansieve.prediction.preannotation import FORMS

    each = (json_line(FORMS[tool.value](suggestion)) for suggestion in suggestions)
    lines = _listed(each) if tool is Tool.label_studio else each
    if output is None:
        sys.stdout.writelines(lines)
    else:
        with output.open("w", encoding="utf-8") as target:
            target.writelines(lines)


def _listed(lines: Iterable[str]) -> Iterator[str]:
    """JSON lines as one JSON list, which is what Label Studio takes."""
    before = "["
    for line in lines:
        yield before + line.rstrip("\n")
        before = ",\n "
    yield "]\n" if before != "[" else "[]\n"
