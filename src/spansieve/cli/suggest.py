"""`spansieve suggest`: a model's entities as pre-annotations."""

from __future__ import annotations

from spansieve.cli.inputs import records_of_files
from spansieve.cli.options import Device, ForTool, MinProbability, Model, OutputFile, TextFiles, Whole
from spansieve.cli.outputs import model_version, write_suggestions


def suggest(
    model: Model,
    files: TextFiles = None,
    as_: ForTool = "prodigy",
    threshold: MinProbability = 0.0,
    whole: Whole = False,
    output: OutputFile = None,
    device: Device = "cpu",
) -> None:
    """Write a model's entities as pre-annotations that a tool imports, in the order of the texts.

    What the tool exports is read by `data`, `convert` and `train`.

    Example: spansieve suggest runs/demo/model unlabelled.txt --as label-studio -o tasks.json
    """
    records = records_of_files(files or (), whole)
    from spansieve.integrations.hub import load
    from spansieve.prediction.preannotation import suggest as suggested

    predictor = load(model, device)
    write_suggestions(suggested(predictor, records, model_version(model, predictor.tagger), threshold), as_, output)
