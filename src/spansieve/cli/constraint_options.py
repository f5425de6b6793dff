"""Command-line options for constraints on the entities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from spansieve.cli.inputs import Record

if TYPE_CHECKING:
    from spansieve.decoding.constraints import Constraints
    from spansieve.prediction.text_predictor import TextPredictor

Values = Sequence[str] | None  # of an option that may be given several times
Fixed = Annotated[
    list[str] | None,
    typer.Option(
        "--fixed",
        metavar="FILE.jsonl",
        help="texts as JSON lines, each with its required entities, forbidden ones and complete spans",
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
        help="leave out what is less probable, of a label or of all; `evaluate --precision` suggests one",
    ),
]


class ConstraintOptions(NamedTuple):
    """The constraints of a command line, not yet checked against a model's labels."""

    required: dict[str, str | None]
    forbidden: dict[str, str | None]
    banned: list[tuple[str, str]]
    thresholds: dict[str, float]  # by label; that of all labels under ""

    def __bool__(self) -> bool:
        return any(self)

    @classmethod
    def parsed(cls, require: Values, forbid: Values, ban: Values, threshold: Values) -> ConstraintOptions:
        """Parse the values of `--require`, `--forbid`, `--ban` and `--threshold`."""
        required = dict(map(_phrase_and_label, require or ()))
        for phrase, label in required.items():
            if label is None:
                raise typer.BadParameter(f"--require must look like 'Acme Inc.=ORG', got {phrase!r}")
        forbidden = dict(map(_phrase_and_label, forbid or ()))
        return cls(required, forbidden, list(map(_label_pair, ban or ())), dict(map(_threshold, threshold or ())))

    def constraints(
        self, records: Iterable[Record], predictor: TextPredictor, sentences: bool, are_fixed: bool = False
    ) -> Iterator[Constraints]:
        """The constraints of each record: these, and those that a line of `--fixed` has itself."""
        from spansieve.data.tokenizer import sequences_of_text
        from spansieve.decoding.constraints import Constraints
        from spansieve.prediction.phrase_matcher import PhraseConstraints, Phrases

        thresholds = dict.fromkeys(predictor.labels, self.thresholds.get("", 0.0))
        thresholds |= {label: value for label, value in self.thresholds.items() if label}
        shared = PhraseConstraints(
            Phrases(self.required, predictor.tokenizer),
            Phrases(self.forbidden, predictor.tokenizer),
            self.banned,
            {label: value for label, value in thresholds.items() if value},
        )
        for record in records:
            own = _record_constraints(record) if are_fixed else Constraints()
            yield shared.of(sequences_of_text(record["text"], predictor.tokenizer, sentences), own)


def _phrase_and_label(text: str) -> tuple[str, str | None]:
    """Split a phrase from its label.

    >>> _phrase_and_label("E=mc²=PHYSICS"), _phrase_and_label("Acme Inc.")
    (('E=mc²', 'PHYSICS'), ('Acme Inc.', None))
    """
    phrase, sign, label = text.rpartition("=")
    return (phrase, label) if sign and phrase and label else (text, None)


def _label_pair(text: str) -> tuple[str, str]:
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


def _record_constraints(record: Record) -> Constraints:
    from spansieve.decoding.constraints import Constraints

    def spans(key: str) -> list[Any]:
        return [
            (span["start"], span["end"], span.get("label")) if isinstance(span, dict) else tuple(span)
            for span in record.get(key) or ()
        ]

    try:
        return Constraints(spans("entities"), spans("forbidden"), spans("complete"))
    except (TypeError, KeyError, IndexError, ValueError) as error:
        raise ValueError(
            f"entities, forbidden and complete must be lists of start, end and label, in characters: {error} in the "
            f"line of {record['text'][:40]!r}"
        ) from error
