"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from spansieve.decoding import prediction

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
Probability = Annotated[
    prediction.Probability,
    typer.Option(help="for models that filter: the marginal given the candidates, or that times the filter's own"),
]
Sentences = Annotated[
    bool, typer.Option(help="cut texts into sentences, or find one segmentation for each text as a whole")
]
Guarantee = Annotated[
    str | None,
    typer.Option(
        metavar="PROMISE", help="a promise that `calibrate` made, such as miss=0.01: what it covers or accepts is found"
    ),
]
Objective = Annotated[
    str,
    typer.Option(
        metavar="[f1[=CUTOFF]]",
        help="f1: the entities with the largest expected F1, not the most probable ones; CUTOFF: half of that F1",
    ),
]
MinProbability = Annotated[float, typer.Option("--threshold", help="leave out what is less probable", min=0, max=1)]
