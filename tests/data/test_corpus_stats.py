"""The numbers of a report, on examples small enough to count by hand."""

from __future__ import annotations

import json

import pytest

from spansieve.data.corpus_stats import SharedSentences, report_of
from spansieve.data.example import Example

TRAIN = [
    Example.of("Bank of China", [(0, 3, "ORG"), (2, 3, "LOC")]),
    Example.of("a b c d", [(0, 2, "X"), (1, 3, "LOC")]),
    Example.of("Hello"),
    Example.of("Hello"),
    Example.of(""),
]
TEST = [Example.of("Hello"), Example.of("one two", [(0, 2, "NEW")]), Example.of("Bank of China")]


def test_what_is_counted():
    split = report_of({"train": TRAIN}).splits["train"]
    assert (split.sentences, split.tokens, split.entities) == (5, 9, 4)
    assert split.labels == {"LOC": 2, "ORG": 1, "X": 1}
    assert split.widths == {1: 1, 2: 2, 3: 1}
    assert split.lengths == {"least": 0, "median": 1, "90 %": 4, "99 %": 4, "most": 4}
    assert (split.empty_sentences, split.one_token_sentences, split.sentences_without_entities) == (1, 2, 3)
    assert (split.overlapping_pairs, split.nested_pairs, split.lost_when_flat) == (2, 1, 2)
    assert split.repeated_sentences == 1
    assert split.lost_to_max_width == {}


def test_splits_are_held_against_each_other():
    report = report_of({"train": TRAIN, "test": TEST}, max_width=2, warnings={"test": {"odd things": 3}})
    assert report.shared_sentences == [SharedSentences("train", "test", 2)]
    assert report.labels_not_in_first == {"test": ["NEW"]}
    assert report.splits["train"].lost_to_max_width == {"ORG": 1}
    assert report.splits["test"].warnings == {"odd things": 3}
    assert json.loads(json.dumps(report.to_dict()))["max_width"] == 2


def test_nothing_at_all():
    report = report_of({"empty": []})
    assert report.splits["empty"].sentences == 0
    assert report_of({}).splits == {}


def test_a_width_below_one_is_refused():
    with pytest.raises(ValueError, match="max_width must be at least 1, got 0"):
        report_of({}, max_width=0)
