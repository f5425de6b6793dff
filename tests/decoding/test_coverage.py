"""Which tokens may be part of an entity, and the spans that cover them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spansieve.decoding.coverage import Coverage
from spansieve.segments import NamedSegment

WORDS = ["Ada", "Lovelace", "Paris", "is", "in", "New", "York"]


def coverage_of(rows: list[tuple[float, float]], best: list[tuple[int, int, str]] = (), first: tuple[int, ...] = (0,)):
    words = [WORDS[i % len(WORDS)] for i in range(len(rows))]
    starts = np.cumsum([0, *(len(word) + 1 for word in words)]).tolist()
    tokens = [(a, a + len(word)) for a, word in zip(starts, words)]
    is_first = np.isin(np.arange(len(rows)), first)
    probability = np.array(rows, float).reshape(-1, 2)
    segments = tuple(NamedSegment(*one) for one in best)
    return Coverage(" ".join(words), tokens, ("LOC", "PER"), probability, segments, is_first)


def shown(spans) -> list[tuple[str, str]]:
    return [(span.text, span.label) for span in spans]


def test_runs_of_one_label_are_spans():
    coverage = coverage_of([(0.1, 0.8), (0.2, 0.7), (0.9, 0.1), (0.0, 0.0), (0.0, 0.05), (0.2, 0.1), (0.1, 0.0)])
    assert shown(coverage.spans(0.3)) == [("Ada Lovelace", "PER"), ("Paris", "LOC"), ("New", "LOC")]
    assert shown(coverage.spans(0.05)) == [
        ("Ada Lovelace", "PER"),
        ("Paris", "LOC"),
        ("in", "PER"),
        ("New York", "LOC"),
    ]
    (first, *_) = coverage.spans(0.3)
    assert (first.start, first.end, first.probability) == (0, 12, pytest.approx(0.9))


def test_of_some_labels_each_has_its_own_threshold():
    coverage = coverage_of([(0.1, 0.8), (0.2, 0.7), (0.9, 0.1), (0.0, 0.0)], [(0, 2, "PER"), (2, 3, "LOC")])
    assert shown(coverage.spans({"PER": 0.05})) == [("Ada Lovelace", "PER"), ("Paris", "PER")]
    assert shown(coverage.spans({"LOC": 0.15})) == [("Lovelace", "LOC"), ("Paris", "LOC")]
    assert shown(coverage.spans({"LOC": 0.95, "PER": 0.75})) == [("Ada Lovelace", "PER"), ("Paris", "LOC")]


def test_what_is_predicted_is_always_covered_and_stays_apart():
    coverage = coverage_of([(0.4, 0.1), (0.4, 0.1), (0.0, 0.3), (0.0, 0.0)], [(0, 1, "LOC"), (1, 2, "LOC")])
    assert shown(coverage.spans(0.9)) == [("Ada", "LOC"), ("Lovelace", "LOC")]
    assert [span.probability for span in coverage.spans(0.9)] == [0.5, 0.5]
    assert coverage.scores().tolist() == [1, 1, 0.3, 0]
    assert coverage.scores("PER").tolist() == [0.1, 0.1, 0.3, 0]
    assert coverage.scores("LOC").tolist() == [1, 1, 0, 0]


def test_a_span_ends_with_its_sentence():
    coverage = coverage_of([(0.9, 0), (0.9, 0), (0.9, 0)], first=(0, 2))
    assert shown(coverage.spans(0.5)) == [("Ada Lovelace", "LOC"), ("Paris", "LOC")]


def test_nothing_to_cover():
    assert coverage_of([]).spans(0.5) == []
    assert coverage_of([(0.0, 0.0)]).spans(1e-9) == []


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.5, float("nan"), {"LOC": 0.0}])
def test_thresholds_that_cannot_be(threshold):
    with pytest.raises(ValueError, match=r"threshold must lie in \(0, 1\]"):
        coverage_of([(0.5, 0.5)]).spans(threshold)


def test_labels_that_are_not_there():
    with pytest.raises(ValueError, match="unknown label 'GPE'; known are LOC, PER"):
        coverage_of([(0.5, 0.5)]).spans({"GPE": 0.5})


probabilities = st.tuples(st.floats(0, 0.5), st.floats(0, 0.5))


@given(st.lists(probabilities, max_size=12), st.floats(0.01, 1), st.data())
@settings(max_examples=60, deadline=None)
def test_exactly_the_tokens_at_or_above_the_threshold_are_covered(rows, threshold, data):
    first = (0, *data.draw(st.sets(st.integers(0, 11))))
    coverage = coverage_of(rows, first=first)
    spans = coverage.spans(threshold)
    covered = [any(s.start <= a and z <= s.end for s in spans) for a, z in coverage.tokens]
    assert covered == [sum(row) >= threshold for row in rows]
    assert all(coverage.text[s.start : s.end] == s.text for s in spans)
    assert [s.start for s in spans] == sorted(s.start for s in spans)
    assert all(a.end <= b.start for a, b in zip(spans, spans[1:]))
