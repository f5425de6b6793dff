"""Constraints of a request as the model takes them."""

from __future__ import annotations

from spansieve.crf.evidence import Span
from spansieve.decoding.constraints import ConstraintError, Constraints, forbidden
from spansieve.segments import NamedSegment
from spansieve.serving.errors import RefusedError, cannot_be
from spansieve.serving.schema import PredictRequest, TextConstraints


def read_constraints(wanted: PredictRequest) -> list[Constraints | None]:
    """Read the constraints of a request, one per text."""
    if wanted.constraints is None:
        return [None] * len(wanted.texts)
    if len(wanted.constraints) != len(wanted.texts):
        reason = f"constraints must be one per text, {len(wanted.texts)}, got {len(wanted.constraints)}"
        raise RefusedError(409, "conflict", reason)
    return [None if one is None else _read(i, one) for i, one in enumerate(wanted.constraints)]


def _read(index: int, sent: TextConstraints) -> Constraints:
    try:
        return Constraints(
            required=[NamedSegment(one.start, one.end, one.label) for one in sent.required],
            forbidden=[forbidden((one.start, one.end, one.label)) for one in sent.forbidden],
            complete=[Span(one.start, one.end) for one in sent.complete],
            banned=[(first, second) for first, second in sent.banned],
            thresholds=sent.thresholds,
        )
    except ConstraintError as error:
        raise cannot_be(index, error) from error
