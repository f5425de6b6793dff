"""Arguments and options that several commands share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import typer

from spansieve.config import from_dict, parsed_setting
from spansieve.decoding.prediction import Probability

Model = Annotated[str, typer.Argument(help="a model's folder, or its name on the Hub", show_default=False)]
ModelOrExport = Annotated[
    str, typer.Argument(help="a model's folder, or an export's, or a model's name on the Hub", show_default=False)
]
LabelledData = Annotated[
    Path, typer.Argument(help="labelled text, in any format that `data` reads", show_default=False)
]
DataFormat = Annotated[str | None, typer.Option(help="the format of the data, where it is not detected")]
_TEXT_FILES = "files of text, each line one, .jsonl, .csv or .tsv files with a text in each row, or folders of them"
TextFiles = Annotated[
    list[str] | None, typer.Argument(help=f"{_TEXT_FILES}; standard input if none is given", show_default=False)
]
Files = Annotated[list[str] | None, typer.Option("--file", "-f", metavar="PATH...", help=_TEXT_FILES)]
Whole = Annotated[bool, typer.Option("--whole", help="take each file as one text and not line by line")]
OutputFile = Annotated[
    Path | None, typer.Option("--output", "-o", help="a file to write; standard output if not given")
]
TextColumn = Annotated[
    str | None,
    typer.Option(help="what CSV, TSV and JSON lines call the text, where that is not text", show_default=False),
]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="a JSON file to write the figures to")]
Device = Annotated[str, typer.Option(help="cpu or cuda")]
Tool = Literal["prodigy", "label-studio", "doccano", "jsonl"]
ForTool = Annotated[Tool, typer.Option("--as", help="the annotation tool to write for")]
Sentences = Annotated[
    bool, typer.Option(help="cut texts into sentences, or find one segmentation for each text as a whole")
]
Guarantee = Annotated[
    str | None,
    typer.Option(
        metavar="PROMISE", help="a promise that `calibrate` made, such as miss=0.01: what it covers or accepts is found"
    ),
]
LoadSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="objective=f1 or f1=CUTOFF: the entities with the largest expected F1, not the most probable ones, where "
        "CUTOFF is half of that F1; probability=with-filter: of models that filter, times the filter's own",
    ),
]
MinProbability = Annotated[float, typer.Option("--threshold", help="leave out what is less probable", min=0, max=1)]


@dataclass(frozen=True)
class Loading:
    """What `--set` sets of a model that is loaded: settings of `spansieve.load`."""

    objective: str = "probability"
    probability: Probability = "given-candidates"


Kind = TypeVar("Kind")


def parsed(kind: type[Kind], settings: Sequence[str] | None) -> Kind:
    """Parse the values of an option such as `--set NAME=VALUE` into the dataclass of what can be set."""
    return from_dict(kind, dict(map(parsed_setting, settings or ())))
