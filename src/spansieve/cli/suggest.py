"""`spansieve suggest`: a model's entities as pre-annotations."""

from __future__ import annotations

from typing import Annotated

import typer

from spansieve.cli.inputs import records_of_files
from spansieve.cli.options import Device, ForTool, Model, OutputFile, TextColumn, TextFiles, Tool, Whole
from spansieve.cli.outputs import model_version, write_suggestions


def suggest(
    model: Model,
    files: TextFiles = None,
    as_: ForTool = Tool.prodigy,
    threshold: Annotated[float, typer.Option(help="leave out what is less probable", min=0, max=1)] = 0.0,
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
