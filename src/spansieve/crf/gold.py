"""Gold ready for the loss: what a training loop can prepare once per batch, or in a data loader's worker.

Distributions take plain lists of segments or tags as well, and then do this themselves in each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from spansieve.crf.flat_segments import FlatSegments, dense_index, flat_segments, integers, offsets_of
from spansieve.crf.validation import arrays_to_device

Triples = Sequence[Sequence[tuple[int, int, int]]]  # (start, end, label), or Segments: those of each sentence


@dataclass(frozen=True, eq=False)
class Parts:
    """Structures taken apart: which scores and which transitions they add up, all sentences in one list."""

    part: Tensor  # positions in the flattened scores
    sentence: Tensor  # the sentence of each
    pair: Tensor  # positions in the flattened transition
    pair_sentence: Tensor
    offsets: Tensor  # (2, B + 1): where each sentence begins among the parts, and among the pairs

    @classmethod
    def of(
        cls,
        part: np.ndarray,
        sentence: np.ndarray,
        label: np.ndarray,
        num_sentences: int,
        num_labels: int,
        device: torch.device | str = "cpu",
    ) -> Parts:
        """Join parts, in order within each sentence, with the transitions between neighbours."""
        arrays = _part_arrays(part, sentence, label, num_sentences, num_labels)
        return cls(*arrays_to_device(arrays, torch.device(device)))


def _part_arrays(
    part: np.ndarray, sentence: np.ndarray, label: np.ndarray, num_sentences: int, num_labels: int
) -> tuple[np.ndarray, ...]:
    is_pair = sentence[1:] == sentence[:-1]
    pair = (label[:-1] * num_labels + label[1:])[is_pair]
    pair_sentence = sentence[1:][is_pair]
    offsets = np.stack((offsets_of(sentence, num_sentences), offsets_of(pair_sentence, num_sentences)))
    return part, sentence, pair, pair_sentence, offsets


@dataclass(frozen=True, eq=False)
class Gold:
    """One gold structure per sentence, for scores of a known shape, on a device."""

    shape: tuple[int, ...]  # of the scores: (B, L, K, Y), or (B, L, Y) for tags
    parts: Parts
    segments: FlatSegments | None = None  # on the host; None for tags
    covered: Tensor | None = None  # (B, L + 1): how many of the tokens before i lie in gold

    @classmethod
    def from_segments(
        cls,
        segments: Triples,
        shape: Sequence[int],
        lengths: Sequence[int] | np.ndarray | None = None,
        device: torch.device | str = "cpu",
    ) -> Gold:
        """Prepare gold for a semi-Markov model, with null segments, or a filtered one, without; `shape`: (B, L, K, Y).

        `lengths` are what the segments are checked against; without them L is.
        """
        num_sentences, num_tokens, max_width, num_labels = shape
        if len(segments) != num_sentences:
            raise ValueError(
                f"gold must be one sequence of segments per sentence, {num_sentences}, got {len(segments)}"
            )
        flat = flat_segments(segments).in_order()
        limits = np.full(num_sentences, num_tokens) if lengths is None else np.asarray(lengths)
        flat.check(limits, max_width, num_labels, lowest_label=0)
        arrays = _part_arrays(dense_index(flat, shape), flat.sentence, flat.label, num_sentences, num_labels)
        *parts, covered = arrays_to_device((*arrays, flat.covered_tokens(num_tokens)), torch.device(device))
        return cls(tuple(shape), Parts(*parts), flat, covered)

    @classmethod
    def from_tags(cls, tags: Sequence[Sequence[int]], shape: Sequence[int], device: torch.device | str = "cpu") -> Gold:
        """Prepare gold for a linear chain; `shape` is (B, L, Y)."""
        num_sentences, num_tokens, num_tags = shape
        if len(tags) != num_sentences:
            raise ValueError(f"gold must be one sequence of tags per sentence, {num_sentences}, got {len(tags)}")
        counts = np.array([len(row) for row in tags], np.int64)
        tag = integers(tags, "a tag must be an integer")
        sentence = np.repeat(np.arange(num_sentences), counts)
        token = np.arange(len(tag)) - np.repeat(counts.cumsum() - counts, counts)
        for name, value, bound in (("tag", tag, num_tags), ("token", token, num_tokens)):
            if (wrong := np.flatnonzero((value < 0) | (value >= bound))).size:
                at = wrong[0]
                which = f"tag {tag[at]} at token {token[at]} of sentence {sentence[at]}"
                raise ValueError(f"{which}: the {name} must lie between 0 and {bound - 1}")
        index = (sentence * num_tokens + token) * num_tags + tag
        return cls(tuple(shape), Parts.of(index, sentence, tag, num_sentences, num_tags, device))

    def __len__(self) -> int:
        return self.shape[0]

    def to(self, device: torch.device | str) -> Gold:
        parts = Parts(*(getattr(self.parts, field.name).to(device) for field in fields(Parts)))
        return replace(self, parts=parts, covered=None if self.covered is None else self.covered.to(device))


def entity_gold(gold: Triples | Gold, scores: Tensor, lengths: Tensor) -> Gold:
    """Gold ready for a model of entities, whose dense scores these are: checked, and with no null segments."""
    limits = lengths.numpy() if lengths.is_cpu else None  # elsewhere to look would synchronise the host
    is_checked = not isinstance(gold, Gold)
    ready = gold if isinstance(gold, Gold) else Gold.from_segments(gold, scores.shape, limits, scores.device)
    if ready.segments is None or ready.shape != tuple(scores.shape):
        raise ValueError(f"gold must be made of segments for scores of shape {tuple(scores.shape)}, got {ready.shape}")
    if not is_checked or not ready.segments.label.all():
        num_sentences, num_tokens, max_width, num_labels = scores.shape
        limits = np.full(num_sentences, num_tokens) if limits is None else limits
        ready.segments.check(limits, max_width, num_labels)
    return ready
