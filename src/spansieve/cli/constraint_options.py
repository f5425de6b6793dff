"""Command-line options for constraints on the entities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

if TYPE_CHECKING:
    from spansieve.decoding.constraints import Constraints
    from spansieve.prediction.text_predictor import TextPredictor

Fixed = Annotated[
    list[Path] | None,
    typer.Option(
        "--fixed",
        metavar="FILE.jsonl",
        help="texts as JSON lines with what is known of each: entities that are there, forbidden ones, complete spans",
    ),
]
Require = Annotated[
    list[str] | None,
    typer.Option("--require", metavar="PHRASE=LABEL", help="an entity wherever it stands, such as 'Acme Inc.=ORG'"),
]
Forbid = Annotated[
    list[str] | None,
    typer.Option("--forbid", metavar="PHRASE[=LABEL]", help="no entity wherever it stands, or none with this label"),
]
Ban = Annotated[
    list[str] | None, typer.Option("--ban", metavar="A>B", help="labels that must not follow one another: PER>LOC")
]
Threshold = Annotated[
    list[str] | None,
    typer.Option(
        "--threshold",
        metavar="[LABEL=]P",
        help="leave out what is less probable, of a label or of all; `evaluate --precision` finds one",
    ),
]


class Wishes(NamedTuple):
    """The constraints of a command line, not yet checked against a model's labels."""

    required: dict[str, str | None]
    forbidden: dict[str, str | None]
    banned: list[tuple[str, str]]
    thresholds: dict[str, float]  # that of all labels under ""

    def __bool__(self) -> bool:
        return any(self)

    @property
    def are_one_threshold(self) -> bool:
        """Whether there is one threshold or none, and no other constraint."""
        return not (self.required or self.forbidden or self.banned or set(self.thresholds) - {""})

    @property
    def threshold(self) -> float:
        """The threshold of all labels."""
        return self.thresholds.get("", 0.0)


def read_wishes(
    require: Sequence[str] | None, forbid: Sequence[str] | None, ban: Sequence[str] | None, threshold
) -> Wishes:
    required = dict(map(_labelled, require or ()))
    for phrase, label in required.items():
        if label is None:
            raise typer.BadParameter(f"--require must look like 'Acme Inc.=ORG', got {phrase!r}")
    return Wishes(
        required,
        dict(map(_labelled, forbid or ())),
        [_pair(text) for text in ban or ()],
        dict(_threshold(text) for text in threshold or ()),
    )


def _labelled(text: str) -> tuple[str, str | None]:
    """Split a phrase from its label.

    >>> _labelled("E=mc²=PHYSICS"), _labelled("Acme Inc.")
    (('E=mc²', 'PHYSICS'), ('Acme Inc.', None))
    """
    phrase, sign, label = text.rpartition("=")
    return (phrase, label) if sign and phrase and label else (text, None)


def _pair(text: str) -> tuple[str, str]:
    first, sign, second = (part.strip() for part in text.partition(">"))
    if not (sign and first and second):
        raise typer.BadParameter(f"--ban must look like PER>LOC, got {text!r}")
    return first, second


def _threshold(text: str) -> tuple[str, float]:
    label, _, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise typer.BadParameter(f"--threshold must be a number from 0 to 1, or LABEL=0.8, got {text!r}")
    return label.strip(), value


def constraints_of(
    records: Iterable[dict[str, Any]], predictor: TextPredictor, wishes: Wishes, sentences: bool
) -> Iterator[Constraints]:
    """The constraints of each record: its own, and those for all."""
    from spansieve.data.tokenizer import sequences_of_text
    from spansieve.prediction.phrase_matcher import PhraseConstraints, Phrases

    thresholds = dict.fromkeys(predictor.labels, wishes.threshold)
    thresholds |= {label: value for label, value in wishes.thresholds.items() if label}
    for_all = PhraseConstraints(
        Phrases(wishes.required, predictor.tokenizer),
        Phrases(wishes.forbidden, predictor.tokenizer),
        wishes.banned,
        {label: value for label, value in thresholds.items() if value},
    )
    for record in records:
        yield for_all.of(sequences_of_text(record["text"], predictor.tokenizer, sentences), _own(record))


def _own(record: dict[str, Any]) -> Constraints:
    from spansieve.crf.evidence import Span
    from spansieve.decoding.constraints import Constraints, forbidden
    from spansieve.segments import NamedSegment

    try:
        return Constraints(
            required=[NamedSegment(*_place(one)) for one in record.get("entities") or ()],
            forbidden=[forbidden(_place(one)) for one in record.get("forbidden") or ()],
            complete=[Span(*_place(one)[:2]) for one in record.get("complete") or ()],
        )
    except (TypeError, KeyError, IndexError, ValueError) as error:
        raise ValueError(
            f"entities, forbidden and complete must be lists of start, end and label, in characters: {error} in the "
            f"line of {record['text'][:40]!r}"
        ) from error


def _place(one: Any) -> tuple[Any, ...]:
    """Start, end and label from an object or a list."""
    if isinstance(one, dict):
        return (one["start"], one["end"], one.get("label"))
    return tuple(one)
