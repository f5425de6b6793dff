"""Scores to segments and their probabilities, by the compiled kernels.

Axes: B sentences, L tokens, K widths, Y labels or tags, N candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from spansieve.config import Head
from spansieve.crf.kernels import cpu
from spansieve.crf.structures import offsets_of, segments_by_place
from spansieve.models.segment_tags import Chain, SegmentTags
from spansieve.prediction.onnx.folder import ExportError, Manifest
from spansieve.segments import Segment

Arrays = Sequence[np.ndarray]


class Decoded(NamedTuple):
    segments: Sequence[Sequence[Segment]]  # of each sentence
    probabilities: list[list[float]] | None


Decoder = Callable[[Arrays, np.ndarray, bool], Decoded]  # scores, lengths (B,), with probabilities


def decoder_of(manifest: Manifest, arrays: dict[str, np.ndarray], threads: int) -> Decoder:
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
    return DECODERS[head](manifest, arrays, threads)


class FilteredDecoder:
    """The best path through the candidates of each sentence."""

    def __init__(self, manifest: Manifest, arrays: dict[str, np.ndarray], threads: int) -> None:
        self._transition, self._threads = arrays["transition"], threads
        self._skip = manifest.model.skip and manifest.model.head != "filter-only"
        self._shape = manifest.max_width, len(manifest.labels)

    def __call__(self, scores: Arrays, lengths: np.ndarray, with_probabilities: bool) -> Decoded:
        local_scores, global_scores = _checked(scores, 2, self._shape)
        model, options = (self._transition, lengths), (self._skip, True, self._threads)
        kept = cpu.segments_from_scores(local_scores, global_scores, *model, None, *options)
        _check_possible(kept.max_score)
        bounds, (chosen, place) = kept.bounds[1], kept.chosen
        segments = segments_by_place(bounds, place, *self._shape)
        if not with_probabilities:
            return Decoded(segments, None)
        marginals = cpu.filtered_sums(*kept.graph, kept.score, *model, *options).marginals  # (N,)
        return Decoded(segments, _by_sentence(marginals[chosen], bounds))


class SemiMarkovDecoder:
    """The best segmentation of each sentence, its null segments left out."""

    def __init__(self, manifest: Manifest, arrays: dict[str, np.ndarray], threads: int) -> None:
        self._transition, self._threads = arrays["transition"], threads
        self._unit_null = manifest.model.head == "semicrf-unit-null"
        self._shape = manifest.max_width, len(manifest.labels)

    def __call__(self, scores: Arrays, lengths: np.ndarray, with_probabilities: bool) -> Decoded:
        (dense,) = _checked(scores, 1, self._shape)
        _check_numbers(dense)
        if self._unit_null:
            dense[:, :, 1:, 0] = -np.inf
        max_score, widths, labels = cpu.semi_markov_best(dense, self._transition, lengths, self._threads)
        _check_possible(max_score)
        sentence, start = at = labels.nonzero()
        width, label = widths[at] - 1, labels[at]
        bounds, (max_width, num_labels) = offsets_of(sentence, len(lengths)), self._shape
        segments = segments_by_place(bounds, (start * max_width + width) * num_labels + label, max_width, num_labels)
        if not with_probabilities:
            return Decoded(segments, None)
        marginals = cpu.semi_markov_sums(dense, self._transition, lengths, True, self._threads).marginals
        return Decoded(segments, _by_sentence(marginals[sentence, start, width, label], bounds))


class LinearChainDecoder:
    """The best well-formed sequence of tags of each sentence, and the segments that it spells."""

    def __init__(self, manifest: Manifest, arrays: dict[str, np.ndarray], threads: int) -> None:
        self._tags = SegmentTags(manifest.labels, manifest.model.scheme)
        self._transition, self._start, self._end = arrays["transition"], arrays["start"], arrays["end"]
        self._threads = threads

    def __call__(self, scores: Arrays, lengths: np.ndarray, with_probabilities: bool) -> Decoded:
        (dense,) = _checked(scores, 1, (len(self._tags),))
        _check_numbers(dense)
        dense[:, 0] += self._start
        dense[np.arange(len(dense)), lengths - 1] += self._end
        max_score, tags = cpu.linear_chain_best(dense, self._transition, lengths, self._threads)
        _check_possible(max_score)
        rows = zip(tags.tolist(), lengths.tolist())
        segments = [self._tags.segments(row[:length]) for row, length in rows]
        if not with_probabilities or not any(segments):
            return Decoded(segments, [[] for _ in segments] if with_probabilities else None)
        return Decoded(segments, self._tags.probabilities(Chain.of(dense, self._transition, lengths), segments))


DECODERS: dict[Head, Callable[[Manifest, dict[str, np.ndarray], int], Decoder]] = {
    "fsemicrf": FilteredDecoder,
    "crf": LinearChainDecoder,
    "semicrf": SemiMarkovDecoder,
    "semicrf-unit-null": SemiMarkovDecoder,
    "filter-only": FilteredDecoder,
    "global-selection": FilteredDecoder,
}


def _checked(scores: Arrays, count: int, shape: tuple[int, ...]) -> Arrays:
    """The kernels trust the shapes."""
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


def _by_sentence(marginals: np.ndarray, bounds: np.ndarray) -> list[list[float]]:
    values, ends = marginals.clip(0.0, 1.0).tolist(), bounds.tolist()
    return [values[a:z] for a, z in zip(ends, ends[1:])]
