"""Arguments and options that several commands share."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[str, typer.Argument(help="a model's folder, or its name on the Hub", show_default=False)]
LabelledData = Annotated[
    Path, typer.Argument(help="labelled text, in any format that `data` reads", show_default=False)
]
DataFormat = Annotated[str | None, typer.Option(help="the format of the data, where it is not detected")]
TextFiles = Annotated[
    list[str] | None,
    typer.Argument(
        help="files of text, each line one, .jsonl, .csv or .tsv files with a text in each row, or folders of them; "
        "standard input if none is given",
        show_default=False,
    ),
]
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


class Tool(str, Enum):
    """The annotation tools that suggestions are written for."""

    prodigy = "prodigy"
    label_studio = "label-studio"
    doccano = "doccano"
    jsonl = "jsonl"


ForTool = Annotated[Tool, typer.Option("--as", help="the annotation tool to write for")]


class ProbabilityKind(str, Enum):
    """The probabilities that a model that filters can give its entities."""

    given_candidates = "given-candidates"
    with_filter = "with-filter"


Probability = Annotated[
    ProbabilityKind,
    typer.Option(help="for models that filter: the marginal given the candidates, or that times the filter's own"),
]
