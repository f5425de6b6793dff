"""Tokens of which nothing is known: in examples, in files, and where they have no place."""

from __future__ import annotations

import json

import pytest

from spansieve.data.example import DataError, Example, ReaderWarnings, check_known
from spansieve.data.formats import FORMATS, read_examples, write_examples
from spansieve.data.overlap_resolution import flat

PART = Example.of("Ada went to New York today", [(0, 1, "PER")], unknown=[(3, 5)])


def test_ranges_are_sorted_and_joined():
    example = Example.of("a b c d e f", unknown=[(4, 6), (0, 1), (1, 3)])
    assert example.unknown == ((0, 3), (4, 6))
    assert example.num_unknown == 5
    assert example == Example.of("a b c d e f", unknown=[[4, 6], [0, 2], [1, 3]])
    assert Example.of("a").unknown == ()


@pytest.mark.parametrize("span", [(0, 0), (2, 1), (-1, 1), (0, 3)])
def test_ranges_lie_within_the_sentence(span):
    with pytest.raises(ValueError, match="an unknown range must lie between 0 and 2"):
        Example.of("a b", unknown=[span])


def test_they_stay_when_segments_go():
    crossing = Example.of("Bank of China", [(0, 3, "ORG"), (2, 3, "LOC")], unknown=[(0, 1)])
    assert flat(crossing)[0].unknown == ((0, 1),)


def test_json_lines_there_and_back(tmp_path):
    path = tmp_path / "part.jsonl"
    write_examples([PART, Example.of("Yes")], path)
    first, second = map(json.loads, path.read_text().splitlines())
    assert first["unknown"] == [[3, 5]]
    assert "unknown" not in second
    assert read_examples(path) == [PART, Example.of("Yes")]


def test_in_text_they_are_characters(tmp_path):
    """A token with an unknown character is unknown; a sentence without any is not."""
    text = "Ada went to New York. Bob did not."
    record = {"text": text, "entities": [[0, 3, "PER"]], "unknown": [[13, 17]]}
    (tmp_path / "part.jsonl").write_text(json.dumps(record))
    first, second = read_examples(tmp_path / "part.jsonl")
    assert [first.tokens[i] for start, end in first.unknown for i in range(start, end)] == ["New", "York"]
    assert second.unknown == ()


@pytest.mark.parametrize(
    ("unknown", "message"),
    [
        ([[0, 9]], "line 1: an unknown range must lie between 0 and 2"),
        ([[0]], r"line 1: unknown must be a list of \[start, end\], got \[0\]"),
        ([["a", 1]], "line 1: unknown must be a list of"),
        (3, "line 1: unknown must be a list, got 3"),
    ],
)
def test_nonsense_is_told(tmp_path, unknown, message):
    (tmp_path / "bad.jsonl").write_text(json.dumps({"tokens": ["a", "b"], "unknown": unknown}))
    with pytest.raises(DataError, match=message):
        read_examples(tmp_path / "bad.jsonl")


@pytest.mark.parametrize("name", ["conll", "prodigy", "doccano", "label-studio", "jsonl-text"])
def test_formats_without_a_place_for_it_say_so(tmp_path, name):
    warnings = ReaderWarnings()
    FORMATS[name].write(iter([PART, PART]), tmp_path / "out", warnings)
    assert warnings.counts["unknown tokens written as known, since the format cannot say it"] == 4
    assert (tmp_path / "out").stat().st_size
    quiet = ReaderWarnings()
    FORMATS["jsonl"].write([PART], tmp_path / "part.jsonl", quiet)
    assert not quiet


def test_scores_need_all_of_gold():
    check_known([Example.of("a")], "dev data")
    with pytest.raises(
        ValueError, match=r"dev data must be annotated in full .* unknown tokens \(3, 5\) in sentence 1"
    ):
        check_known([Example.of("a"), PART], "dev data")
