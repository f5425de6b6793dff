"""Gold that is known in part, as the heads take it.

A structure agrees with what is known when it has every known segment, and any other only where nothing is known. The
loss is -log P(all that agrees): what is not known is summed out, over the same graph.

Axes: B sentences, L tokens, K widths.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spansieve.crf.evidence import Known, Span
from spansieve.crf.flat_segments import FlatSegments, covered_tokens
from spansieve.segments import Segment

Ranges = Sequence[tuple[int, int]]  # of tokens, end exclusive, from left to right


def known_of(segments: Sequence[Segment], unknown: Ranges, length: int) -> Known:
    """What is known of a sentence: its segments, and that there are no others outside the unknown ranges.

    >>> known_of([Segment(1, 2, 1)], [(1, 3)], 5).complete
    (Span(start=0, end=1), Span(start=3, end=5))
    """
    ends, starts = [0, *(end for _, end in unknown)], [*(start for start, _ in unknown), length]
    return Known(segments, complete=[Span(end, start) for end, start in zip(ends, starts) if end < start])


def unknown_tokens(unknown: Sequence[Ranges], num_tokens: int) -> np.ndarray:
    """Which tokens nothing is known of, (B, L)."""
    is_unknown = np.zeros((len(unknown), num_tokens), bool)
    for b, ranges in enumerate(unknown):
        for start, end in ranges:
            is_unknown[b, start:end] = True
    return is_unknown


def spans_within(is_inside: np.ndarray, max_width: int) -> np.ndarray:
    """Which spans have all of their tokens inside, (B, L, K), given which tokens are, (B, L)."""
    num_sentences, num_tokens = is_inside.shape
    count = np.zeros((num_sentences, num_tokens + 1), np.int64)
    np.cumsum(is_inside, axis=1, out=count[:, 1:])
    start, width = np.arange(num_tokens)[:, None], np.arange(1, max_width + 1)
    return count[:, np.minimum(start + width, num_tokens)] - count[:, start] == width


def spans_touching(segments: FlatSegments, num_tokens: int, max_width: int) -> np.ndarray:
    """Which spans share a token with a segment, (B, L, K)."""
    covered = covered_tokens(segments, num_tokens)
    start, width = np.arange(num_tokens)[:, None], np.arange(1, max_width + 1)
    return covered[:, np.minimum(start + width, num_tokens)] > covered[:, start]
