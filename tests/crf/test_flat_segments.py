"""Segments between Python and flat arrays."""

from __future__ import annotations

import numpy as np

from spansieve import Segment
from spansieve.crf import flat_segments
from spansieve.crf.flat_segments import FlatSegments, segments_by_index


def test_by_index_is_by_sentence(monkeypatch):
    """Also where more segments occur than are cached."""
    monkeypatch.setattr(flat_segments._Interned, "MAX_SIZE", 10)
    place = np.random.default_rng(0).integers(0, 7 * 3 * 4, 200)
    span, label = np.divmod(place, 4)
    start, width = np.divmod(span, 3)
    offsets = np.array([0, 0, 50, 200])
    expected = FlatSegments(offsets, start, start + width + 1, label).by_sentence()
    for _ in range(2):
        found = segments_by_index(offsets, place, 3, 4)
        assert found == expected
        assert all(type(segment) is Segment for segments in found for segment in segments)
