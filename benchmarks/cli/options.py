"""What the commands share: options, and how results are shown and written."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.result_page import ResultPage

RESULTS = Path("results")
Out = Annotated[Path, typer.Option(help="the folder for the page, the CSV and the plot")]
Set = Annotated[list[str] | None, typer.Option("--set", help="a setting for every head, such as training.epochs=5")]
Device = Annotated[str, typer.Option(help="cpu or cuda")]
Data = Annotated[Path, typer.Argument(help="labelled text", show_default=False)]
Model = Annotated[Path, typer.Argument(help="a model's folder", show_default=False)]

Head = TypeVar("Head", bound=str)


def chosen(heads: Sequence[str] | None, known: Iterable[Head]) -> list[Head]:
    """Those of the known heads that were asked for; all of them if none was."""
    names = list(known)
    unknown = set(heads or ()) - set(names)
    if unknown:
        raise ValueError(f"head must be one of {', '.join(names)}, got {unknown.pop()!r}")
    return [name for name in names if not heads or name in heads]


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{x:.3g}" if isinstance(x, float) and x < 1 else str(x) for x in row.values()))
    Console().print(table)


def write(page: ResultPage, out: Path) -> None:
    """Write the page with the command as it was typed, and print where it is."""
    from benchmarks.result_page import command_line

    path = page.write(out, command_line(sys.argv[1:]))
    Console().print(f"written to [bold]{escape(str(path))}[/]", soft_wrap=True, highlight=False)
