"""Scores to segments and their probabilities, by the compiled kernels.

Axes: B sentences, L tokens, K widths, Y labels or tags, N candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from spansieve.config import Head
from spansieve.crf.flat_segments import FlatSegments, offsets_of, segments_by_index
from spansieve.crf.kernels import cpu
from spansieve.models.constraints import Rules
from spansieve.models.limits import filter_limits
from spansieve.models.segment_tags import Chain, SegmentTags
from spansieve.prediction.onnx.constrained import ChainModel, FilteredModel, Model, SemiMarkovModel, decided
from spansieve.prediction.onnx.constrained_nested import NestedModel
from spansieve.prediction.onnx.folder import ExportError, Manifest
from spansieve.segments import Segment

Arrays = Sequence[np.ndarray]


class Decoded(NamedTuple):
    segments: Sequence[Sequence[Segment]]  # of each sentence
    probabilities: list[list[float]] | None


class Decoder(Protocol):
    def __call__(
        self, scores: Arrays, lengths: np.ndarray, with_probabilities: bool, rules: Sequence[Rules] | None = None, /
    ) -> Decoded:
        """Decode scores, given lengths (B,); with rules, one per sentence, that all ban the same pairs."""


class Setting(NamedTuple):
    """The model that a decoder is made for."""

    manifest: Manifest
    arrays: dict[str, np.ndarray]  # the transition, and of a chain what may start and end it
    threads: int = 1
    with_filter: bool = False  # a filtered entity's probability is its marginal times what the filter gives its label

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the scores beyond (B, L): K and Y."""
        return self.manifest.max_width, len(self.manifest.labels)


def decoder_of(setting: Setting) -> Decoder:
    manifest, arrays = setting.manifest, setting.arrays
    head, num_labels = manifest.model.head, len(manifest.labels)
    if head not in DECODERS:
        raise ExportError(f"an export's head must be one of {', '.join(DECODERS)}, got {head!r}")
    if head == "crf":
        num_labels = len(SegmentTags(manifest.labels, manifest.model.scheme))
    shapes: dict[str, tuple[int, ...]] = {"transition": (num_labels, num_labels)}
    shapes |= {"start": (num_labels,), "end": (num_labels,)} if head == "crf" else {}
    for name, shape in shapes.items():  # the kernels trust the shapes
        if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != np.float32:
            raise ExportError(f"the export's {name} must be numbers of shape {shape}, for its labels")
    return DECODERS[head](setting)


class FilteredDecoder:
    """The best path through the candidates of each sentence."""

    def __init__(self, setting: Setting) -> None:
        self._transition, self._threads = setting.arrays["transition"], setting.threads
        model = setting.manifest.model
        self._skip = model.skip and model.head != "filter-only"
        self._limits, self._shape = filter_limits(model), setting.shape
        self._by_filter = _filter_of(setting)

    def __call__(
        self, scores: Arrays, lengths: np.ndarray, with_probabilities: bool, rules: Sequence[Rules] | None = None, /
    ) -> Decoded:
        local_scores, global_scores = _checked(scores, 2, self._shape)
        model, options = (self._transition, lengths), (self._skip, True, self._threads)
        kept = cpu.segments_from_scores(local_scores, global_scores, *model, None, *options, self._limits)
        if rules is not None:
            weight = self._by_filter and partial(self._by_filter, local_scores)
            nodes, skip = FlatSegments(*kept.graph), np.full(len(kept.score), self._skip)
            return _under(rules, FilteredModel(nodes, skip, global_scores, *model, weight), with_probabilities)
        _check_possible(kept.max_score)
        bounds, (chosen, place) = kept.bounds[1], kept.chosen
        segments = segments_by_index(bounds, place, *self._shape)
        if not with_probabilities:
            return Decoded(segments, None)
        shares = cpu.filtered_sums(*kept.graph, kept.score, *model, *options).marginals[chosen].clip(0.0, 1.0)
        if self._by_filter:
            shares = shares.astype(np.float64) * self._by_filter(local_scores, kept.index[chosen])
        return Decoded(segments, _by_sentence(shares, bounds))


class NestedDecoder:
    """The best laminar set of the candidates of each sentence, a container before what it contains."""

    def __init__(self, setting: Setting) -> None:
        model = setting.manifest.model
        self._transition = None if model.head == "nested-filter-only" else setting.arrays["transition"]
        self._limits, self._threads = filter_limits(model), setting.threads
        self._shape, self._by_filter = setting.shape, _filter_of(setting)

    def __call__(
        self, scores: Arrays, lengths: np.ndarray, with_probabilities: bool, rules: Sequence[Rules] | None = None, /
    ) -> Decoded:
        local_scores, global_scores = _checked(scores, 2, self._shape)
        _check_numbers(global_scores)
        kept = cpu.filter_spans(local_scores, lengths, threads=self._threads, limits=self._limits)
        nodes, weight = FlatSegments(*kept.graph), self._by_filter and partial(self._by_filter, local_scores)
        is_required = np.zeros(len(nodes.start), bool)
        model = NestedModel(nodes, is_required, global_scores, self._transition, lengths, weight, self._threads)
        if rules is not None:
            return _under(rules, model, with_probabilities)
        segments = model.best()
        return Decoded(segments, model.shares(segments) if with_probabilities else None)


class SemiMarkovDecoder:
    """The best segmentation of each sentence, its null segments left out."""

    def __init__(self, setting: Setting) -> None:
        self._transition, self._threads = setting.arrays["transition"], setting.threads
        self._unit_null = setting.manifest.model.head == "semicrf-unit-null"
        self._shape = setting.shape

    def __call__(
        self, scores: Arrays, lengths: np.ndarray, with_probabilities: bool, rules: Sequence[Rules] | None = None, /
    ) -> Decoded:
        (dense,) = _checked(scores, 1, self._shape)
        _check_numbers(dense)
        if self._unit_null:
            dense[:, :, 1:, 0] = -np.inf
        if rules is not None:
            return _under(rules, SemiMarkovModel(dense, self._transition, lengths), with_probabilities)
        max_score, widths, labels = cpu.semi_markov_best(dense, self._transition, lengths, self._threads)
        _check_possible(max_score)
        sentence, start = at = labels.nonzero()
        width, label = widths[at] - 1, labels[at]
        bounds, (max_width, num_labels) = offsets_of(sentence, len(lengths)), self._shape
        segments = segments_by_index(bounds, (start * max_width + width) * num_labels + label, max_width, num_labels)
        if not with_probabilities:
            return Decoded(segments, None)
        marginals = cpu.semi_markov_sums(dense, self._transition, lengths, True, self._threads).marginals
        return Decoded(segments, _by_sentence(marginals[sentence, start, width, label], bounds))


class LinearChainDecoder:
    """The best well-formed sequence of tags of each sentence, and the segments that it spells."""

    def __init__(self, setting: Setting) -> None:
        self._tags = SegmentTags(setting.manifest.labels, setting.manifest.model.scheme)
        self._transition, self._start, self._end = (setting.arrays[name] for name in ("transition", "start", "end"))
        self._threads = setting.threads

    def __call__(
        self, scores: Arrays, lengths: np.ndarray, with_probabilities: bool, rules: Sequence[Rules] | None = None, /
    ) -> Decoded:
        (dense,) = _checked(scores, 1, (len(self._tags),))
        _check_numbers(dense)
        dense[:, 0] += self._start
        dense[np.arange(len(dense)), lengths - 1] += self._end
        if rules is not None:
            return _under(rules, ChainModel(dense, self._transition, lengths, self._tags), with_probabilities)
        max_score, tags = cpu.linear_chain_best(dense, self._transition, lengths, self._threads)
        _check_possible(max_score)
        rows = zip(tags.tolist(), lengths.tolist())
        segments = [self._tags.segments(row[:length]) for row, length in rows]
        if not with_probabilities or not any(segments):
            return Decoded(segments, [[] for _ in segments] if with_probabilities else None)
        return Decoded(segments, self._tags.probabilities(Chain.of(dense, self._transition, lengths), segments))


DECODERS: dict[Head, Callable[[Setting], Decoder]] = {
    "fsemicrf": FilteredDecoder,
    "crf": LinearChainDecoder,
    "semicrf": SemiMarkovDecoder,
    "semicrf-unit-null": SemiMarkovDecoder,
    "filter-only": FilteredDecoder,
    "global-selection": FilteredDecoder,
    "nested": NestedDecoder,
    "nested-filter-only": NestedDecoder,
}
NESTED: set[Head] = {"nested", "nested-filter-only"}  # entities may lie within others


def _under(rules: Sequence[Rules], model: Model, with_probabilities: bool) -> Decoded:
    return Decoded(*decided(model, rules, with_probabilities))


def _checked(scores: Arrays, count: int, shape: tuple[int, ...]) -> Arrays:
    """Check the shapes, which the kernels trust."""
    if len(scores) != count or any(one.shape[2:] != shape or one.dtype != np.float32 for one in scores):
        found = ", ".join(str(one.shape) for one in scores)
        raise ExportError(f"the export's scorers must give {count} arrays that end in {shape}, got {found}")
    return scores


def _check_numbers(scores: np.ndarray) -> None:
    if not scores.max(initial=0) < np.inf:
        raise ValueError("scores must be numbers below +inf (-inf: impossible), got NaN or +inf")


def _check_possible(max_score: np.ndarray) -> None:
    if not (max_score > -np.inf).all():
        raise ValueError("a sentence has no possible structure: all have a score of -inf")


def _filter_of(setting: Setting) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """P(the span has this label) by the local scores alone, of some flat indices in (B, L, K, Y), where that is wanted.
    They come as the filter takes them, and are used as they were learned: without the margin."""
    if not setting.with_filter:
        return None
    model = setting.manifest.model
    margin = model.margin if model.head in ("fsemicrf", "nested") else 0.0

    def by_filter(local_scores: np.ndarray, index: np.ndarray) -> np.ndarray:
        span, label = np.divmod(index, local_scores.shape[-1])
        scores = local_scores.reshape(-1, local_scores.shape[-1])[span].astype(np.float64)
        scores[:, 0] += margin
        own = scores[np.arange(len(label)), label]
        return np.exp(own - np.logaddexp.reduce(scores, axis=-1))

    return by_filter


def _by_sentence(marginals: np.ndarray, bounds: np.ndarray) -> list[list[float]]:
    values, ends = marginals.clip(0.0, 1.0).tolist(), bounds.tolist()
    return [values[a:z] for a, z in zip(ends, ends[1:])]
