"""Exact decoding for models that are not ours: NumPy in, entities with probabilities out, no torch.

    decoder = TokenDecoder(model.config.id2label)           # of any token classifier
    decoder(logits, word_ids=word_ids).best()
    SpanDecoder(score="probability")(spans).best()          # of GLiNER, spaCy's spancat, whatever scores spans

A call returns `Segmentations`: for each sentence one normalised distribution over all that the output could be.
`summed` and `averaged` make one of those of several models.

Axes: B sentences, L tokens, T tags, Y labels, M segments.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from spansieve.crf.flat_segments import FlatSegments, sorted_by_end
from spansieve.decoding.constraints import ConstraintError, Constraints, checked_constraints
from spansieve.decoding.listed_spans import ListedSpans, above_cutoff, read_spans
from spansieve.decoding.prediction import DecodedSegment, KBest, check_choice
from spansieve.decoding.tag_codec import TagScheme
from spansieve.decoding.token_scores import (
    GraphScores,
    Join,
    Learned,
    TokenScores,
    check_possible,
    join_subwords,
    padded_scores,
)
from spansieve.segments import LabelSet, NamedSegment

__all__ = ["DecodedSegment", "Segmentations", "SpanDecoder", "TokenDecoder", "averaged", "join_subwords", "summed"]

Objective = Literal["probability", "f1"]
Score = Literal["probability", "log-odds"]
MAX_WIDTH = 64  # of an entity of a token classifier, in tokens
NEGLIGIBLE = 1e-9  # segments that are less probable are left out


@dataclass(frozen=True, eq=False, kw_only=True)
class Segmentations(ABC):
    """A distribution over sets of segments, disjoint or nested, for each sentence by itself."""

    labels: LabelSet
    num_sentences: int
    constraints: Sequence[Constraints | None] = ()  # one per sentence, or none at all
    is_nested: bool = False

    def given(self, constraints: Constraints | Sequence[Constraints | None]) -> Segmentations:
        """Restrict to what agrees with constraints, one for all sentences or one for each: probabilities are then
        conditional on them. Positions are those of the segments."""
        if self.constraints:
            raise ConstraintError("constraints must be given all at once, got them a second time")
        if isinstance(constraints, Constraints):
            constraints = [constraints] * self.num_sentences
        return replace(self, constraints=checked_constraints(constraints, self.num_sentences))

    def best(
        self, objective: Objective = "probability", cutoff: float | None = None, with_probabilities: bool = True
    ) -> list[list[DecodedSegment]]:
        """Return the best set of each sentence: the most probable one or, with objective "f1", that of the largest
        expected F1, which has the largest sum of probability - cutoff. The cutoff is `f1_cutoff()` unless given."""
        values = None
        if objective == "probability":
            segments = self._mode
            if with_probabilities or any(one and one.thresholds for one in self.constraints):
                values = self._probabilities(segments)
        else:
            check_choice("objective", objective, Objective)
            segments, values = self._above(self.f1_cutoff() if cutoff is None else cutoff)
        if values is not None and any(self.constraints):
            segments, values = self._under_constraints(segments, values)
        return self._named(segments, values if with_probabilities else None)

    def _under_constraints(self, segments: FlatSegments, values: np.ndarray) -> tuple[FlatSegments, np.ndarray]:
        """Make required segments certain, whatever rounding made of them, and drop what is below its threshold."""
        is_kept = np.ones(len(values), bool)
        for k, (b, start, end, label) in enumerate(zip(*(x.tolist() for x in (segments.sentence, *segments[1:])))):
            if one := self.constraints[b]:
                name = self.labels.name(label)
                values[k] = 1.0 if (start, end, name) in one.required else values[k]
                is_kept[k] = values[k] >= one.thresholds.get(name, 0.0)
        return segments.where(is_kept), values[is_kept]

    def marginals(self, min_probability: float = 0.01) -> list[list[DecodedSegment]]:
        """Return every segment that is at least so probable, whether it is in the best set or not."""
        segments, values = self._marginals
        is_kept = values >= min_probability
        segments, values = segments.where(is_kept), values[is_kept]
        order = segments.outermost_order
        return self._named(segments.ordered(order), values[order])

    def top_k(self, k: int) -> list[list[KBest]]:
        """Return the k best sets of each sentence with the probability of exactly each; fewer where there are fewer."""
        raise ValueError("top_k must be asked of token classifiers, alone or in a sum, got spans alone or an average")

    def f1_cutoff(self) -> float:
        """Return half of the largest expected F1 of all sentences together, 2·E[true positives] / (predicted +
        E[gold]): what is more probable than this raises it. Found by Dinkelbach's iteration."""
        _, values = self._marginals
        expected = float(values.sum())
        cutoff = float(values.max(initial=0.0)) / (1 + expected)  # that of the most probable segment alone
        while True:
            _, chosen = self._above(cutoff)
            better = float(chosen.sum()) / (len(chosen) + expected) if len(chosen) else 0.0
            if better <= cutoff * (1 + 1e-12):
                return cutoff
            cutoff = better

    @property
    @abstractmethod
    def _mode(self) -> FlatSegments: ...

    @property
    @abstractmethod
    def _marginals(self) -> tuple[FlatSegments, np.ndarray]:
        """Segments sorted by (sentence, end, start, label), and the probability of each, (M,)."""

    def _probabilities(self, segments: FlatSegments) -> np.ndarray:
        among, values = self._marginals
        return np.append(values, 0.0)[segments.index_in(among)]

    def _above(self, cutoff: float) -> tuple[FlatSegments, np.ndarray]:
        """Find the set with the largest sum of probability - cutoff."""
        if any(one and one.banned for one in self.constraints):
            raise ConstraintError("banned pairs must be decoded by probability, got objective 'f1' or an average")
        return above_cutoff(*self._marginals, cutoff, self.labels, self.is_nested)

    def _named(self, segments: FlatSegments, values: np.ndarray | None) -> list[list[DecodedSegment]]:
        offsets, start, end, label = (column.tolist() for column in segments)
        names = ["", *self.labels]
        probabilities = [None] * len(start) if values is None else values.tolist()
        rows = zip(start, end, [names[y] for y in label], probabilities)
        flat = list(map(tuple.__new__, repeat(DecodedSegment), rows))  # a named tuple's own constructor is Python code
        return [flat[a:z] for a, z in zip(offsets, offsets[1:])]


# ---- Token classifiers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class _TokenSegmentations(Segmentations):
    """The sum of classifiers and, where there are models of spans, of these."""

    scores: GraphScores

    @cached_property
    def _mode(self) -> FlatSegments:
        chain = self.scores.chain(self.constraints)
        if chain is not None:
            max_score, segments = chain.best()
            check_possible(max_score, range(self.num_sentences), self.constraints)
            is_narrow = chain.scores.shape[1] <= chain.max_width  # as most sentences are
            if is_narrow or (segments.end - segments.start).max(initial=0) <= chain.max_width:
                return segments
        columns = []
        for index, graph in self.scores.graphs(self.constraints):
            max_score, segments = graph.best()
            check_possible(max_score, index, self.constraints)
            columns.append((np.array(index)[segments.sentence], *segments[1:]))
        segments, _ = sorted_by_end(columns, self.num_sentences)
        return segments.outermost_first()

    @cached_property
    def _marginals(self) -> tuple[FlatSegments, np.ndarray]:
        columns, values = [], [np.zeros(0)]
        for index, graph in self.scores.graphs(self.constraints):
            log_partition, marginals = graph.marginals()
            check_possible(log_partition, index, self.constraints)
            row, start, width, label = at = np.nonzero(marginals > NEGLIGIBLE)
            columns.append((np.array(index)[row], start, start + width + 1, label))
            values.append(marginals[at].clip(max=1.0))
        segments, order = sorted_by_end(columns, self.num_sentences)
        return segments, np.concatenate(values)[order]

    def top_k(self, k: int) -> list[list[KBest]]:
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        best = [[KBest([], 1.0)] for _ in range(self.num_sentences)]
        for index, graph in self.scores.graphs(self.constraints):
            for row, b in enumerate(index):
                found = graph.k_best(row, k)
                check_possible(np.array([log_p for log_p, _ in found[:1]] or [-np.inf]), [b], self.constraints)
                named = [[NamedSegment(*s[:2], self.labels.name(s.label)) for s in path] for _, path in found]
                best[b] = [KBest(path, min(1.0, math.exp(log_p))) for path, (log_p, _) in zip(named, found)]
        return best


class TokenDecoder:
    """Decode the logits of a token classifier, whatever computed them.

    `labels` are the names of its columns, such as a Hugging Face model's `config.id2label`. `scheme` is read off them,
    but for IOB1, which looks like BIO, and for "plain" labels without prefixes. What was learned of tags that follow
    one another is `transition[previous, next]`, of the first and of the last one `start` and `end`. No entity is wider
    than `max_width` tokens.

    >>> decoder = TokenDecoder(["O", "B-PER", "I-PER"])
    >>> decoder(np.array([[0.0, 5.0, 0.0], [0.0, 0.0, 3.0]])).best()[0][0][:3]
    (0, 2, 'PER')
    """

    def __init__(
        self,
        labels: Mapping[int, str] | Sequence[str],
        scheme: str = "auto",
        transition: ArrayLike | None = None,
        start: ArrayLike | None = None,
        end: ArrayLike | None = None,
        max_width: int = MAX_WIDTH,
    ) -> None:
        if max_width < 1:
            raise ValueError(f"max_width must be at least 1, got {max_width}")
        self.scheme, self.max_width = TagScheme(labels, scheme), max_width
        self.learned = Learned.checked(len(self.scheme), transition=transition, start=start, end=end)

    def __call__(
        self,
        logits: ArrayLike,
        lengths: Sequence[int] | np.ndarray | None = None,
        word_ids: Sequence[Any] | None = None,
        join: Join = "first",
    ) -> Segmentations:
        """Take the logits of a batch: (B, L, T), of which the first `lengths` tokens of each sentence count, or one
        (L, T) per sentence, or a single (L, T). With `word_ids`, one list per sentence, rows of subwords are joined by
        `join_subwords`, and positions are those of words."""
        scores, counts = padded_scores(logits, lengths, word_ids, join, self.scheme)
        tokens = TokenScores(self.scheme, scores, counts, self.learned, self.max_width)
        graphs = GraphScores(self.scheme.labels, [(tokens, 1.0)])
        return _TokenSegmentations(labels=self.scheme.labels, num_sentences=len(scores), scores=graphs)


# ---- Scored spans ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class _SpanSegmentations(Segmentations):
    """Spans that are there or not by their own log-odds, given that no two clash."""

    segments: FlatSegments  # sorted by (sentence, end, start, label)
    scores: np.ndarray  # (M,): log-odds

    @cached_property
    def _mode(self) -> FlatSegments:
        return self._listed.best()

    @cached_property
    def _marginals(self) -> tuple[FlatSegments, np.ndarray]:
        return self._listed.marginals()

    @cached_property
    def _listed(self) -> ListedSpans:
        return ListedSpans.of(self.segments, self.scores, self.labels, self.is_nested, self.constraints)


class SpanDecoder:
    """Decode spans that any model has scored, each by itself: GLiNER, spaCy's spancat, SpanMarker.

    `score` is what their scores are. The distribution is that of spans which are there independently, with these
    probabilities or log-odds, given that no two overlap or, with `nested`, cross or have one span. `labels` are those
    of the model, where it has more than it lists.

    >>> spans = [(0, 4, "PER", 0.9), (2, 6, "ORG", 0.6)]
    >>> SpanDecoder("probability")([spans]).best()[0][0][:3]
    (0, 4, 'PER')
    """

    def __init__(self, score: Score, nested: bool = False, labels: Iterable[str] = ()) -> None:
        check_choice("score", score, Score)
        self.score, self.nested, self.labels = score, nested, tuple(labels)

    def __call__(self, spans: Sequence[Iterable[Any]]) -> Segmentations:
        """Take (start, end, label, score), or a mapping with these keys, for each span: one list of them per text.
        Positions are tokens or characters."""
        labels, segments, scores = read_spans(spans, self.labels, self.score == "probability")
        common: dict[str, Any] = {"labels": labels, "num_sentences": len(spans), "is_nested": self.nested}
        return _SpanSegmentations(**common, segments=segments, scores=scores)


# ---- Several models --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class _Average(Segmentations):
    """The mixture of several distributions, by its marginals."""

    models: Sequence[Segmentations]
    weights: np.ndarray

    def given(self, constraints: Constraints | Sequence[Constraints | None]) -> Segmentations:
        models = [model.given(constraints) for model in self.models]
        return replace(super().given(constraints), models=models)  # type: ignore[call-arg]

    @cached_property
    def _mode(self) -> FlatSegments:
        return self._above(0.5)[0]

    @cached_property
    def _marginals(self) -> tuple[FlatSegments, np.ndarray]:
        parts = [model._marginals for model in self.models]
        segments, values, weights = _added(parts, self.models, self.weights, self.labels)
        return segments, values / weights[segments.label]


def averaged(
    models: Sequence[Segmentations], weights: Sequence[float] | None = None, separate_labels: bool = False
) -> Segmentations:
    """Average the marginals of several models of the same texts: those of their mixture.

    A label is averaged over the models that have it; models that have none in common with others are refused unless
    `separate_labels`. `best()` is the set with the fewest errors to be expected: the largest sum of probability - 1/2.
    """
    labels, factors = _checked_models(models, weights, separate_labels)
    common: dict[str, Any] = {"labels": labels, "num_sentences": models[0].num_sentences}
    return _Average(**common, is_nested=any(m.is_nested for m in models), models=models, weights=factors)


def summed(
    models: Sequence[Segmentations],
    weights: Sequence[float] | None = None,
    separate_labels: bool = False,
    unlisted: float = 0.01,
) -> Segmentations:
    """Add up the scores of several models of the same texts: their product, normalised again.

    To a model that does not have its label a segment is null; models that have none in common with others are refused
    unless `separate_labels`. A span that a model of spans does not list has the probability `unlisted` for it.
    """
    labels, factors = _checked_models(models, weights, separate_labels)
    pairs = list(zip(models, factors.tolist()))
    chains = [(model.scores.chain(()), w) for model, w in pairs if isinstance(model, _TokenSegmentations)]
    tokens = [(chain, w) for chain, w in chains if chain is not None]  # which a sum has none of
    spans = [(model, w) for model, w in pairs if isinstance(model, _SpanSegmentations)]
    if len(tokens) + len(spans) < len(models) or any(model.constraints for model in models):
        raise ValueError("models must be as decoders return them, got a sum, an average or one with constraints")
    if not 0 < unlisted < 1:
        raise ValueError(f"unlisted must be a probability between 0 and 1, got {unlisted}")
    common: dict[str, Any] = {"labels": labels, "num_sentences": models[0].num_sentences}
    if not spans:
        return _TokenSegmentations(**common, scores=GraphScores(labels, tokens))
    floor = math.log(unlisted) - math.log1p(-unlisted)
    above = [(model.segments, model.scores - floor) for model, _ in spans]
    segments, values, total = _added(above, [m for m, _ in spans], np.array([w for _, w in spans]), labels)
    values, is_nested = values + floor * total[segments.label], any(model.is_nested for model, _ in spans)
    if not tokens:
        return _SpanSegmentations(**common, is_nested=is_nested, segments=segments, scores=values)
    if is_nested or (segments.end > tokens[0][0].lengths[segments.sentence]).any():
        raise ValueError("spans in a sum with tokens must be disjoint ones, of tokens within their sentences")
    return _TokenSegmentations(**common, scores=GraphScores(labels, tokens, segments, values, floor * total))


def _checked_models(
    models: Sequence[Segmentations], weights: Sequence[float] | None, separate_labels: bool
) -> tuple[LabelSet, np.ndarray]:
    """Check that the models go together, and return the labels of all and the weight of each."""
    factors = np.ones(len(models)) if weights is None else np.array(weights, np.float64)
    if not len(models) or factors.shape != (len(models),) or not ((factors > 0) & (factors < np.inf)).all():
        raise ValueError(f"models must be at least one, each with a weight above 0, got {len(models)} and {weights}")
    lengths = [model.scores.lengths for model in models if isinstance(model, _TokenSegmentations)]
    for same, name in (([m.num_sentences for m in models], "sentences"), (lengths, "tokens")):
        if any(not np.array_equal(one, same[0]) for one in same):
            raise ValueError(f"models must be of the same {name}, got {', '.join(map(str, same)):.200}")
    names = [set(model.labels) for model in models]
    for k, own in enumerate(names):
        others = set().union(*names[:k], *names[k + 1 :])
        if not separate_labels and own and others and not own & others:
            came = f"{', '.join(sorted(own))} and {', '.join(sorted(others))}"
            raise ValueError(f"models must have labels in common, got {came:.200}; separate_labels=True takes these")
    return LabelSet(dict.fromkeys(name for model in models for name in model.labels)), factors


def _added(
    parts: Sequence[tuple[FlatSegments, np.ndarray]],
    models: Sequence[Segmentations],
    weights: np.ndarray,
    labels: LabelSet,
) -> tuple[FlatSegments, np.ndarray, np.ndarray]:
    """Add up the weighted values of the segments of several models; and the weights of those that have each label."""
    rows, values, total = [], [], np.zeros(len(labels))
    for (segments, own), model, weight in zip(parts, models, weights):
        label_of = np.array([0, *map(labels.id, model.labels)])
        rows.append(np.array([segments.sentence, *segments[1:3], label_of[segments.label]]))
        values.append(weight * own)
        total[label_of] += weight
    columns, which = np.unique(np.concatenate(rows, axis=1), axis=1, return_inverse=True)
    sums = np.bincount(which.reshape(-1), np.concatenate(values), columns.shape[1])
    segments, order = sorted_by_end([columns], models[0].num_sentences)
    return segments, sums[order], total
