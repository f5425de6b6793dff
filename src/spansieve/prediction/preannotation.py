"""What a model finds, as annotation tools take it to start from.

A suggestion is no annotation: where a tool keeps the two apart it is written as a prediction, with the model's version
and how sure the model is. What a text was annotated with before is left out, so that it is not read for the suggestion.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import tee
from typing import Any, NamedTuple

from spansieve.data.formats.jsonl import without_annotation
from spansieve.data.formats.prodigy import span_entry, token_entries
from spansieve.data.tokenizer import Token
from spansieve.prediction.predictor import Analysis, Predictor
from spansieve.prediction.text_predictor import chunks_of
from spansieve.segments import Entity


class Suggestion(NamedTuple):
    """A text with a model's pre-annotation."""

    record: dict[str, Any]  # its `text`, and whatever else came with it
    tokens: list[Token]
    entities: list[Entity]
    score: float  # how sure the model is of the whole; where texts are ranked, how unsure
    version: str  # of the model


def suggest(
    predictor: Predictor, records: Iterable[dict[str, Any]], version: str, threshold: float = 0.0
) -> Iterator[Suggestion]:
    """Pre-annotate the `text` of each record, less what is less probable than the threshold.

    The score is P(best segmentation): that the entities found are all there are and that each is right. Texts may have
    no end: a thousand or so are held at once.
    """
    records, ahead = tee(records)
    for chunk in chunks_of(record["text"] for record in ahead):
        for sentences, record in zip(predictor.analyse(chunk), records):
            tokens, entities = parts_of(sentences)
            likely = [entity for entity in entities if entity.probability is None or entity.probability >= threshold]
            yield Suggestion(record, tokens, likely, confidence(sentences), version)


def confidence(sentences: Sequence[Analysis]) -> float:
    """P(best segmentation) of a text, whose sentences are independent under the model."""
    return math.prod(sentence.alternatives[0].probability for sentence in sentences)


def parts_of(sentences: Sequence[Analysis]) -> tuple[list[Token], list[Entity]]:
    """The tokens and the entities of a whole text."""
    tokens = [token for sentence in sentences for token in sentence.tokens]
    return tokens, [entity for sentence in sentences for entity in sentence.entities]


# ---- What tools import -----------------------------------------------------------------------------------------------


def to_prodigy(suggestion: Suggestion) -> dict[str, Any]:
    """A task for recipes such as `ner.manual`, which show its spans; `meta` stands below the text."""
    record, tokens = without_annotation(suggestion.record), suggestion.tokens
    first, last = ({getattr(token, name): i for i, token in enumerate(tokens)} for name in ("start", "end"))
    meta = record.get("meta")
    return {
        **record,
        "tokens": token_entries(tokens, len(record["text"])),
        "spans": [
            {**span_entry(tokens, first[e.start], last[e.end], e.label), "probability": e.probability}
            for e in suggestion.entities
        ],
        "meta": {**(meta if isinstance(meta, dict) else {}), "score": suggestion.score, "model": suggestion.version},
    }


def to_label_studio(suggestion: Suggestion) -> dict[str, Any]:
    """A task with a prediction, for a labelling interface with `label` and `text` as its names."""
    regions = [
        {
            "id": f"suggestion-{i}",
            "from_name": "label",
            "to_name": "text",
            "type": "labels",
            "score": entity.probability,
            "value": {"start": entity.start, "end": entity.end, "text": entity.text, "labels": [entity.label]},
        }
        for i, entity in enumerate(suggestion.entities)
    ]
    prediction = {"model_version": suggestion.version, "score": suggestion.score, "result": regions}
    return {"data": without_annotation(suggestion.record), "predictions": [prediction]}


def to_doccano(suggestion: Suggestion) -> dict[str, Any]:
    """A line for a sequence labelling project; keys that are not doccano's become the text's metadata."""
    labels = [[entity.start, entity.end, entity.label] for entity in suggestion.entities]
    rest = without_annotation(suggestion.record)
    return {**rest, "label": labels, "score": suggestion.score, "model": suggestion.version}


def to_jsonl(suggestion: Suggestion) -> dict[str, Any]:
    """A line as `spansieve predict` writes it, with the score and the version."""
    entities = [entity._asdict() for entity in suggestion.entities]
    rest = without_annotation(suggestion.record)
    return {**rest, "entities": entities, "score": suggestion.score, "model": suggestion.version}


FORMS: dict[str, Callable[[Suggestion], dict[str, Any]]] = {
    "prodigy": to_prodigy,
    "label-studio": to_label_studio,
    "doccano": to_doccano,
    "jsonl": to_jsonl,
}
