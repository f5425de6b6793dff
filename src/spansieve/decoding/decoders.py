"""From the scores of a batch to its segments and their probabilities: one decoder for each kind of model.

Axes: B sentences, L tokens, K widths, Y labels or tags, N candidates, M segments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import repeat
from math import inf
from typing import Literal, NamedTuple, get_args

import numpy as np

from spansieve.config import MAX_WIDTH, ConfigError
from spansieve.crf.flat_segments import FlatSegments
from spansieve.crf.kernels import FilterLimits, ScoreError, cpu
from spansieve.decoding.batch_scores import (
    BatchScores,
    CandidateScores,
    ChainScores,
    DenseScores,
    NestedScores,
    SegmentScores,
)
from spansieve.decoding.constraints import ConstraintError, Rules, Support
from spansieve.decoding.coverage import Decision
from spansieve.decoding.listed_spans import above_cutoff
from spansieve.decoding.prediction import CoveredPrediction, Prediction
from spansieve.decoding.tag_codec import PREFIXES, TagCodec
from spansieve.segments import LabelSet, NamedSegment, Segment

Kind = Literal["linear-chain", "semi-markov", "filtered", "nested"]
NO_TRANSITION = np.zeros((1, 1), np.float32)  # of nested candidates whose labels are free


@dataclass(frozen=True)
class DecoderSettings:
    """What a head declares of its decoder: which kind it is, and how that decodes. The transition comes beside it."""

    kind: Kind
    max_width: int  # of a segment; a linear chain has none
    scheme: Literal["BIO", "BIOES"] = "BIOES"  # of a linear chain's tags
    unit_null: bool = False  # null segments of a semi-Markov CRF have width 1
    skip: bool = False  # a path may leave candidates out
    labels_per_span: int = 1
    budget: int | None = None
    margin: float = 0.0  # by which the local score of null is lowered before the filter sees it

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ConfigError(f"decoder.kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        for name in ("max_width", "labels_per_span"):
            if getattr(self, name) < 1:
                raise ConfigError(f"decoder.{name} must be at least 1, got {getattr(self, name)}")
        if self.max_width > MAX_WIDTH:
            raise ConfigError(f"decoder.max_width must be at most {MAX_WIDTH:,}, got {self.max_width}")
        if self.budget is not None and self.budget < 0:
            raise ConfigError(f"decoder.budget must be at least 0, got {self.budget}")
        if not 0 <= self.margin < inf:
            raise ConfigError(f"decoder.margin must be a number of at least 0, got {self.margin}")

    @property
    def filters(self) -> bool:
        return self.kind in ("filtered", "nested")

    def support(self, labels: LabelSet) -> Support:
        max_width = None if self.kind == "linear-chain" else self.max_width
        return Support(labels, max_width, takes_nested=self.kind == "nested")

    def num_labels(self, labels: LabelSet) -> int:
        """Y: the labels with null, or of a linear chain the tags."""
        return 1 + len(labels.names) * (len(PREFIXES[self.scheme]) if self.kind == "linear-chain" else 1)


class Decoded(NamedTuple):
    """The segments of a batch, in order, and the probability of each where it was wanted."""

    segments: FlatSegments
    probabilities: np.ndarray | None  # (M,)
    coverage: np.ndarray | None = None  # (B, L, Y): P(the token is part of an entity of this label), where wanted
    expected: np.ndarray | None = None  # (B, Y), with it: how many entities of this label there are

    def predictions(self, names: Sequence[str], lengths: np.ndarray) -> list[Prediction]:
        """Return the prediction for each sentence of these lengths, (B,), with the names of labels by their ids."""
        offsets, start, end, label = self.segments
        labels = np.array(names, object).take(label).tolist()
        # A named tuple's own constructor is Python code, and takes three times as long.
        segments = list(map(tuple.__new__, repeat(NamedSegment), zip(start.tolist(), end.tolist(), labels)))
        values, bounds = None if self.probabilities is None else self.probabilities.tolist(), offsets.tolist()
        rows = zip(bounds, bounds[1:])
        predictions = [Prediction(segments[a:z], None if values is None else values[a:z]) for a, z in rows]
        if self.coverage is None or self.expected is None:
            return predictions
        covered = zip(predictions, lengths.tolist(), self.coverage[..., 1:], self.expected[:, 1:])
        return [CoveredPrediction.of(one, tokens[:n], counts) for one, n, tokens, counts in covered]


def decoder_shapes(settings: DecoderSettings, labels: LabelSet) -> dict[str, tuple[int, ...]]:
    """The shapes of the arrays that a decoder takes; a nested one may do without its transition."""
    size = settings.num_labels(labels)
    edges = {"start": (size,), "end": (size,)} if settings.kind == "linear-chain" else {}
    return {"transition": (size, size), **edges}


class Decoder:
    """Decode the scores of batches. The arrays are the `transition` and, of a linear chain, what may `start` and `end`
    it; they are checked, since the compiled kernels trust their shapes."""

    def __init__(
        self,
        settings: DecoderSettings,
        labels: LabelSet,
        arrays: Mapping[str, np.ndarray],
        threads: int = 1,
        with_filter: bool = False,
    ) -> None:
        """Make a decoder; `with_filter`: a candidate's probability is its marginal times the filter's of its label."""
        self.settings, self.labels, self.threads, self.with_filter = settings, labels, threads, with_filter
        self.widened_by: float | None = None  # see `covering`
        self.decision: Decision | None = None
        self._codec = TagCodec(labels, settings.scheme) if settings.kind == "linear-chain" else None
        num_labels = settings.num_labels(labels)
        # Of scores, beyond (B, L).
        self.shape: tuple[int, ...] = (num_labels,) if self._codec else (settings.max_width, num_labels)
        self.num_scores = 2 if settings.filters else 1
        self.limits = FilterLimits(settings.labels_per_span, settings.budget).within(num_labels)
        shapes = decoder_shapes(settings, labels)
        if settings.kind == "nested" and "transition" not in arrays:
            shapes = {}
        for name, shape in shapes.items():
            if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != np.float32:
                raise ValueError(f"{name} must be numbers of shape {shape}, for the labels of the model")
            if not arrays[name].max(initial=0) < inf:  # as it is of NaN
                raise ValueError(f"{name} must be numbers below +inf (-inf: impossible), got NaN or +inf")
        self.arrays = {name: np.ascontiguousarray(arrays[name]) for name in shapes}

    def covering(self, margin: float = 0.0) -> Decoder:
        """Return a decoder that computes the coverage of tokens, too. The margin of its filter is larger by so much;
        infinity keeps all spans with all labels. What does not filter is the same for any margin."""
        if not margin >= 0:  # as it is of NaN
            raise ValueError(f"margin must be at least 0, got {margin}")
        if margin and self.settings.kind == "filtered" and not self.settings.skip:
            way_out = "every path takes all that is kept; train with model.skip=true"
            raise ValueError(f"margin must be 0 under a model without skips, got {margin}: {way_out}")
        if margin == inf and self.settings.kind == "nested":
            raise ValueError("margin must be finite under a nested model, got inf: all spans are too many to nest")
        decoder = copy(self)
        decoder.widened_by = margin
        if margin == inf:
            decoder.limits = FilterLimits(self.shape[-1] - 1)
        return decoder

    def deciding(self, decision: Decision) -> Decoder:
        """Return a decoder that takes something else than the best segmentation, or has the coverage with it."""
        needs_coverage = decision.with_coverage or decision.cover is not None
        decoder = self.covering(decision.margin) if needs_coverage else copy(self)
        decoder.decision = decision
        return decoder

    def __call__(
        self,
        scores: Sequence[np.ndarray],
        lengths: np.ndarray,
        with_probabilities: bool,
        rules: Sequence[Rules] | None = None,
    ) -> Decoded:
        """Decode the scores of sentences of these lengths (B,), none of them empty: (B, L, Y) of a linear chain, (B, L,
        K, Y) otherwise; of a model that filters the local and the global ones. With rules, one per sentence, that all
        ban the same pairs."""
        batch, decision = self.batch(self._checked(scores, lengths), lengths), self.decision
        cutoff = None if decision is None else decision.f1_cutoff
        if rules is not None:
            batch = _given(batch, rules, cutoff)
        max_score, segments = batch.best()
        if not (max_score > -np.inf).all():
            if rules is None:
                raise ScoreError("a sentence has no possible segmentation: all have a score of -inf")
            way_out = "two required entities that come one after the other may be a banned pair"
            raise ConstraintError(f"no segmentation agrees with the constraints: {way_out}")
        coverage = expected = probabilities = None
        if self.widened_by is not None:
            coverage, expected = batch.coverage().clip(0.0, 1.0), batch.expected_counts()
        if cutoff is not None:
            likely = batch.likely_segments(cutoff)
            segments, probabilities = above_cutoff(*likely, cutoff, self.labels, isinstance(batch, NestedScores))
        elif with_probabilities or decision is not None or any(rule.thresholds for rule in rules or ()):
            probabilities = batch.probabilities(segments)
        if probabilities is not None:
            probabilities = probabilities.clip(0.0, 1.0)
            if rules is not None:
                segments, probabilities = _under_rules(segments, probabilities, rules)
            if decision is not None and not decision.with_coverage and cutoff is None:
                segments, probabilities = decision.of(segments, probabilities, coverage)
                coverage = expected = None
        return Decoded(segments, probabilities if with_probabilities else None, coverage, expected)

    def batch(self, scores: Sequence[np.ndarray], lengths: np.ndarray) -> BatchScores:
        """Take scores as `__call__` does, ready to decode."""
        if self.settings.kind != "filtered" and not scores[-1].max(initial=0) < np.inf:  # there the kernel checks
            raise ScoreError("scores must be numbers below +inf (-inf: impossible), got NaN or +inf")
        if self.settings.filters:
            return self._candidates(scores[0], scores[1], lengths)
        (dense,), transition = scores, self.arrays["transition"]
        if self._codec is not None:
            dense = dense.copy()
            dense[:, 0] += self.arrays["start"]
            dense[np.arange(len(dense)), lengths - 1] += self.arrays["end"]
            return ChainScores(dense, transition, lengths, self._codec, self.threads)
        if self.settings.unit_null:
            dense = dense.copy()
            dense[:, :, 1:, 0] = -np.inf
        return SegmentScores(dense, transition, lengths, self.threads)

    def _candidates(
        self, local_scores: np.ndarray, global_scores: np.ndarray, lengths: np.ndarray
    ) -> CandidateScores | NestedScores:
        """Filter, and find the best path in the same pass, unless candidates nest."""
        is_nested, skip, transition = self.settings.kind == "nested", self.settings.skip, self.arrays.get("transition")
        if self.widened_by:
            local_scores = local_scores.copy()
            local_scores[..., 0] -= np.float32(self.widened_by)
        inputs = (local_scores, global_scores, NO_TRANSITION if transition is None else transition, lengths)
        options = {"find_best": not is_nested, "limits": self.limits, "threads": self.threads}
        kept = cpu.segments_from_scores(*inputs, skip=skip, **options)
        dense = DenseScores(global_scores, local_scores if self.with_filter else None, self.settings.margin)
        scored = (FlatSegments(*kept.graph), kept.score, transition, lengths, dense, self.threads)
        if is_nested:
            return NestedScores(*scored)
        chosen = kept.chosen[0]
        best_path = kept.max_score, FlatSegments(kept.bounds[1], *kept.nodes[:3, chosen]), chosen
        return CandidateScores(*scored, skip, best_path)

    def _checked(self, scores: Sequence[np.ndarray], lengths: np.ndarray) -> list[np.ndarray]:
        """Check that the scores are of these sentences. Widths beyond the longest of them may have been left out."""
        longest, (*widths, num_labels) = int(lengths.max(initial=0)), self.shape
        num_tokens, *scored = scores[0].shape[1:-1] or (0,)
        shape = (len(lengths), num_tokens, *scored, num_labels)
        is_right = len(scores) == self.num_scores and len(scored) == len(widths) and longest <= num_tokens
        is_right = is_right and (scored == widths or longest <= min(scored, default=0))
        if not is_right or any(part.shape != shape or part.dtype != np.float32 for part in scores):
            shapes = ", ".join(f"{part.shape} {part.dtype}" for part in scores)
            wanted = f"{self.num_scores} float32 arrays of shape {(len(lengths), longest, *self.shape)}"
            raise ValueError(f"scores must be {wanted}, got {shapes}")
        return [np.ascontiguousarray(part) for part in scores]


def _given(batch: BatchScores, rules: Sequence[Rules], f1_cutoff: float | None) -> BatchScores:
    if f1_cutoff is not None and any(rule.banned for rule in rules):
        raise ConstraintError("banned pairs must be decoded by probability, got the objective f1")
    is_known = any(rule.is_knowledge for rule in rules)
    return batch.given([rule.known for rule in rules], rules[0].banned) if is_known else batch


def _under_rules(
    segments: FlatSegments, probabilities: np.ndarray, rules: Sequence[Rules]
) -> tuple[FlatSegments, np.ndarray]:
    """Make required segments certain, whatever rounding makes of them, and leave out what is below its threshold."""
    triples = zip(*(column.tolist() for column in segments[1:]))
    of_segment = [(rules[b], Segment(*triple)) for b, triple in zip(segments.sentence.tolist(), triples)]
    is_required = np.array([rule.requires(segment) for rule, segment in of_segment], bool)
    probabilities = np.where(is_required, 1.0, probabilities)
    pairs = zip(of_segment, probabilities.tolist())
    is_kept = np.array([not rule.is_below(segment, value) for (rule, segment), value in pairs], bool)
    return segments.where(is_kept), probabilities[is_kept]
