"""`spansieve rank`: which texts to annotate next."""

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any

import typer

from spansieve.cli.texts import json_line, records_of

if TYPE_CHECKING:
    from spansieve.prediction.ranking import Ranked


class By(str, Enum):
    entropy = "entropy"
    least_confidence = "least-confidence"
    margin = "margin"
    filter = "filter"


class Output(str, Enum):
    prodigy = "prodigy"
    doccano = "doccano"
    jsonl = "jsonl"


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
    as_: Annotated[Output, typer.Option("--as", help="JSON lines for which annotation tool")] = Output.prodigy,
    device: Annotated[str, typer.Option(help="cpu or cuda")] = "cpu",
) -> None:
    """Order unlabelled texts by how unsure a model is of them, for annotation.

    Least sure first, with what the model finds in them to start from, and the score.

    Example: spansieve rank runs/demo/model unlabelled.txt --by margin --per-token --most 100 -o annotate.jsonl
    """
    records = list(records_of(None, files, whole))
    from spansieve.integrations.hub import load
    from spansieve.prediction.ranking import rank as ranked

    found = ranked(load(model, device), [record["text"] for record in records], by.value, per_token, most)
    lines = (json_line(FORMS[as_](one, records[one.place])) for one in found)
    if output is None:
        _write(lines, sys.stdout)
    else:
        with output.open("w", encoding="utf-8") as target:
            _write(lines, target)


def _write(lines: Any, target: IO[str]) -> None:
    for line in lines:
        target.write(line)


def _prodigy(ranked: Ranked, record: dict[str, Any]) -> dict[str, Any]:
    tokens = [token for sentence in ranked.sentences for token in sentence.tokens]
    following = [*(token.start for token in tokens[1:]), len(ranked.text)]
    first, last = ({getattr(token, name): i for i, token in enumerate(tokens)} for name in ("start", "end"))
    meta = record.get("meta")
    return {
        **record,
        "tokens": [
            {"text": token.text, "start": token.start, "end": token.end, "id": i, "ws": after > token.end}
            for i, (token, after) in enumerate(zip(tokens, following))
        ],
        "spans": [
            {
                "start": entity.start,
                "end": entity.end,
                "token_start": first[entity.start],
                "token_end": last[entity.end],  # inclusive, in this format
                "label": entity.label,
                "probability": entity.probability,
            }
            for entity in ranked.entities
        ],
        "meta": {**(meta if isinstance(meta, dict) else {}), "score": ranked.score},
    }


def _doccano(ranked: Ranked, record: dict[str, Any]) -> dict[str, Any]:
    labels = [[entity.start, entity.end, entity.label] for entity in ranked.entities]
    return {**record, "label": labels, "score": ranked.score}


def _jsonl(ranked: Ranked, record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "entities": [entity._asdict() for entity in ranked.entities], "score": ranked.score}


FORMS = {Output.prodigy: _prodigy, Output.doccano: _doccano, Output.jsonl: _jsonl}
