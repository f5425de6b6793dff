"""Constraints as people write them. mypy accepts the lines that have no `type: ignore`, and complains of others."""

from __future__ import annotations

from spansieve.decoding.constraints import Constraints
from spansieve.segments import Entity, NamedSegment

PLAIN = Constraints(
    required=[(0, 3, "PER")],
    forbidden=[(9, 12), (9, 17, "ORG"), (20, 22, None)],
    complete=[(0, 5)],
    banned=[("PER", "LOC")],
    thresholds={"LOC": 0.9},
)
PREDICTED = [Entity(0, 3, "PER", "Ada", 0.9)]
AGAIN = Constraints(required=PREDICTED, forbidden=PREDICTED, complete=tuple(PLAIN.complete))
JOINED = Constraints([*PLAIN.required, (4, 5, "LOC")], PLAIN.forbidden, banned=PLAIN.banned)
FIRST: NamedSegment = PLAIN.required[0]


def wrong() -> None:
    Constraints(required=[(0, 3)])  # type: ignore[list-item]
    Constraints(required=[(0, "PER", 3)])  # type: ignore[list-item]
    Constraints(complete=[(0, 3, "PER")])  # type: ignore[list-item]
    Constraints(banned=["PER"])  # type: ignore[list-item]
    Constraints(thresholds=0.9)  # type: ignore[arg-type]
