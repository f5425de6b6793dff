"""`spansieve rank`: which texts to annotate next."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from spansieve.cli.suggest import Tool, version, write_suggestions
from spansieve.cli.texts import records_of


class By(str, Enum):
    entropy = "entropy"
    least_confidence = "least-confidence"
    margin = "margin"
    filter = "filter"


def rank(
    model: Annotated[str, typer.Argument(help="a model's folder, or its name on the Hub", show_default=False)],
    files: Annotated[
        list[Path] | None,
        typer.Argument(help="texts: each line one; of .jsonl files the key text; standard input without any"),
    ] = None,
    by: Annotated[By, typer.Option(help="what unsure means; for models that filter, filter tells more")] = By.entropy,
    per_token: Annotated[
        bool, typer.Option("--per-token", help="so that long texts are not unsure for being long")
    ] = False,
    most: Annotated[int | None, typer.Option(help="so many texts; all if not given", min=1)] = None,
    whole: Annotated[bool, typer.Option("--whole", help="take each file as one text and not line by line")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="where to write; standard output if not")
    ] = None,
    as_: Annotated[Tool, typer.Option("--as", help="for which annotation tool")] = Tool.prodigy,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
) -> None:
    """Order unlabelled texts by how unsure a model is of them, for annotation.

    Least sure first, with what the model finds in them to start from, and the score.

    Example: spansieve rank runs/demo/model unlabelled.txt --by margin --per-token --most 100 -o annotate.jsonl
    """
    records = list(records_of(None, files, whole))
    from spansieve.integrations.hub import load
    from spansieve.prediction.preannotation import Suggestion, parts_of
    from spansieve.prediction.uncertainty import rank as ranked

    predictor = load(model, device)
    found = ranked(predictor, [record["text"] for record in records], by.value, per_token, most)
    named = version(model, predictor.tagger)
    suggestions = (Suggestion(records[one.place], *parts_of(one.sentences), one.score, named) for one in found)
    write_suggestions(suggestions, as_, output)
