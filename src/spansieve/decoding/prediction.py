"""The prediction for a sentence, whatever runs the model: no torch here."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

from spansieve.segments import NamedSegment

# The probability of an entity under a model that filters: its marginal given what the filter kept, or that times the
# filter's own probability of the span's label. Under other models both are the marginal.
Probability = Literal["given-candidates", "with-filter"]


class Prediction(NamedTuple):
    """The segments that a model predicts for a sentence."""

    segments: list[NamedSegment]
    probabilities: list[float] | None  # of each segment, where they were wanted


class KBest(NamedTuple):
    """One of the k best sets of segments of a sentence, with the probability of exactly this set."""

    segments: list[NamedSegment]
    probability: float


def check_probability(kind: str) -> None:
    if kind not in get_args(Probability):
        raise ValueError(f"probability must be one of {', '.join(get_args(Probability))}, got {kind!r}")
