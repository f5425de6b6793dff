"""`spansieve rank` and `spansieve suggest`: which texts to annotate next, and a model's entities to start from."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from spansieve.cli.inputs import records_of_files
from spansieve.cli.options import Device, ForTool, MinProbability, Model, OutputFile, TextColumn, TextFiles, Whole
from spansieve.cli.outputs import model_version, write_suggestions


def rank(
    model: Model,
    files: TextFiles = None,
    by: Annotated[
        Literal["entropy", "least-confidence", "margin", "filter"],
        typer.Option(help="the measure of uncertainty; filter is the finest, for models that filter"),
    ] = "entropy",
    per_token: Annotated[
        bool, typer.Option("--per-token", help="divide by length, so that long texts do not come first")
    ] = False,
    diverse: Annotated[bool, typer.Option("--diverse", help="near-duplicates of a text come late")] = False,
    limit: Annotated[int | None, typer.Option(help="how many texts to write; all if not given", min=1)] = None,
    whole: Whole = False,
    text_column: TextColumn = None,
    output: OutputFile = None,
    as_: ForTool = "prodigy",
    device: Device = "cpu",
) -> None:
    """Order unlabelled texts by how unsure a model is of them, for annotation.

    Least sure first, with the model's entities to start from, and the score.

    Example: spansieve rank runs/demo/model unlabelled.txt --by margin --per-token --limit 100 -o annotate.jsonl
    """
    records = list(records_of_files(files or (), whole, text_column))
    from spansieve.integrations.hub import load
    from spansieve.prediction.preannotation import Suggestion, parts_of
    from spansieve.prediction.uncertainty import rank as ranked

    predictor = load(model, device)
    version = model_version(model, predictor.tagger)
    texts = ranked(predictor, [record["text"] for record in records], by, per_token, limit, diverse)
    suggestions = (Suggestion(records[text.place], *parts_of(text.sentences), text.score, version) for text in texts)
    write_suggestions(suggestions, as_, output)


def suggest(
    model: Model,
    files: TextFiles = None,
    as_: ForTool = "prodigy",
    threshold: MinProbability = 0.0,
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
