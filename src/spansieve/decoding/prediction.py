"""The prediction for a sentence, and what explains it, whatever runs the model: no torch here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from spansieve.segments import NamedSegment

if TYPE_CHECKING:
    import numpy as np

# The probability of an entity under a model that filters: its marginal given what the filter kept, or that times the
# filter's own probability of the span's label. Under other models both are the marginal.
Probability = Literal["given-candidates", "with-filter"]


class Prediction(NamedTuple):
    """The segments that a model predicts for a sentence."""

    segments: list[NamedSegment]
    probabilities: list[float] | None  # of each segment, where they were wanted

    @property
    def coverage(self) -> np.ndarray | None:
        """P(the token is part of an entity of this label), (L, labels), where it was wanted."""
        return None

    @property
    def expected(self) -> np.ndarray | None:
        """How many entities of each label there are by the model, (labels,), where coverage was wanted."""
        return None


class CoveredPrediction(Prediction):
    """A prediction with its coverage. As a tuple it is a prediction like any other."""

    _covered: tuple[np.ndarray, np.ndarray]

    @classmethod
    def of(cls, prediction: Prediction, coverage: np.ndarray, expected: np.ndarray) -> CoveredPrediction:
        made = cls(*prediction)
        made._covered = coverage, expected
        return made

    @property
    def coverage(self) -> np.ndarray:
        return self._covered[0]

    @property
    def expected(self) -> np.ndarray:
        return self._covered[1]


class KBest(NamedTuple):
    """One of the k best sets of segments of a sentence, with the probability of exactly this set."""

    segments: list[NamedSegment]
    probability: float


class DecodedSegment(NamedTuple):
    """A segment of the output: positions as the model has them, end exclusive, and its exact marginal."""

    start: int
    end: int
    label: str
    probability: float | None = None  # that exactly this segment with this label is in the output; None: not wanted


class Candidate(NamedTuple):
    """A node of the filtered graph."""

    segment: NamedSegment
    local_score: float  # by which the filter kept it: how far its label stands above null
    local_probability: float  # that the span has this label, by the filter alone
    global_score: float  # what it adds to a path's score
    probability: float  # that it is on the path
    is_chosen: bool  # it is on the best one


class Edge(NamedTuple):
    """An edge from one candidate to another that may follow it, by their indices; None is the start or the end."""

    source: int | None
    target: int | None
    transition: float  # what the edge adds to a path's score


@dataclass(frozen=True)
class Graph:
    """The filtered graph of a sentence. A nested model chooses a set of candidates and no path: it has no edges."""

    candidates: list[Candidate]  # by (end, start)
    num_edges: int  # start and end included
    edges: list[Edge] | None  # None where there are more than MAX_EDGES


class Wanted(NamedTuple):
    """What is to be computed of a sentence beside its prediction."""

    top_k: int = 1
    graph: bool = False
    filter_entropy: bool = False


@dataclass(frozen=True)
class Explanation:
    """What a model predicts for a sentence, how sure it is, and its graph."""

    prediction: Prediction
    k_best: tuple[KBest, ...] = ()  # best first
    entropy: float = 0.0  # in nats, of the distribution over all sets of entities
    graph: Graph | None = None  # None where it was not wanted, or the model has none
    filter_entropy: float = 0.0  # in nats, of the filter's labels, summed over the spans; where it was wanted


def check_choice(name: str, value: str, choices: Any) -> None:
    """Check that a value is one of those that a `Literal` has."""
    if value not in get_args(choices):
        raise ValueError(f"{name} must be one of {', '.join(get_args(choices))}, got {value!r}")
