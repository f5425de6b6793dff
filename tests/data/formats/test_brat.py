"""brat standoff."""

from __future__ import annotations

import pytest

from spansieve.data.example import DataError, Example, ReaderWarnings
from spansieve.data.formats import read_examples
from spansieve.data.formats.brat import read_brat, write_brat

TEXT = "Ada 👍 Lovelace met Bob.\nHe left the New York office.\n"


def write_pair(folder, name, text, *lines):
    (folder / f"{name}.txt").write_bytes(text.encode())
    (folder / f"{name}.ann").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder / f"{name}.ann"


def found(examples):
    return [(example.words(segment), segment.label) for example in examples for segment in example.segments]


def test_entities_are_read_and_nothing_else(tmp_path):
    lines = [
        "T1\tPER 0 14\tAda 👍 Lovelace",
        "R1\tmeets Arg1:T1 Arg2:T2",
        "T2\tPER 19 22\tBob",
        "#1\tNote T1\tx",
        "A1 X T1",
    ]
    path = write_pair(tmp_path, "one", TEXT, *lines)
    warnings = ReaderWarnings()
    examples = read_brat(path, warnings=warnings)
    assert found(examples) == [("Ada 👍 Lovelace", "PER"), ("Bob", "PER")]
    assert len(examples) == 2
    assert examples[0].document == "one"
    assert not warnings
    assert read_brat(path.with_suffix(".txt")) == examples
    assert len(read_brat(path, split_sentences=False)) == 1


def test_crlf_counts_as_it_is_written(tmp_path):
    path = write_pair(tmp_path, "one", "Ada\r\nmet Bob", "T1\tPER 9 12\tBob")
    assert found(read_brat(path)) == [("Bob", "PER")]


def test_a_discontinuous_entity_is_read_from_end_to_end(tmp_path):
    text = "left and right arm"
    path = write_pair(tmp_path, "one", text, "T1\tPART 15 18;0 4\tarm left", "T2\tPART 9 14;15 18\tright arm")
    warnings = ReaderWarnings()
    assert found(read_brat(path, warnings=warnings)) == [(text, "PART"), ("right arm", "PART")]
    assert str(warnings).startswith("1 × discontinuous entities read from their first part to their last (")


def test_a_folder_is_read_whole_and_texts_without_annotations_are_noted(tmp_path):
    write_pair(tmp_path, "b", "Bob left", "T1\tPER 0 3\tBob")
    write_pair(tmp_path, "a", "Ada left")
    (tmp_path / "c.txt").write_text("Nobody has looked here")
    (tmp_path / "annotation.conf").write_text("[entities]\nPER\n")
    warnings = ReaderWarnings()
    examples = read_examples(tmp_path, warnings=warnings)
    assert [(example.document, len(example.segments)) for example in examples] == [("a", 0), ("b", 1)]
    assert warnings.counts["texts without an .ann file left out"] == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("T1\tPER 0 99\tAda", r"line 1: an entity must lie within the 3 characters of its text, got 0 to 99"),
        ("T1 PER 0 3 Ada", r"line 1: must be like 'T1<tab>PER 0 5<tab>words', got 'T1 PER"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, line, message):
    with pytest.raises(DataError, match=message):
        read_brat(write_pair(tmp_path, "one", "Ada", line))


def test_words_that_differ_are_noted_and_a_missing_text_is_told(tmp_path):
    path = write_pair(tmp_path, "one", "Ada", "T1\tPER 0 3\tBob")
    warnings = ReaderWarnings()
    assert found(read_brat(path, warnings=warnings)) == [("Ada", "PER")]
    assert len(warnings.counts) == 1
    path.with_suffix(".txt").unlink()
    with pytest.raises(DataError, match=r"side by side, got no .*one\.txt"):
        read_brat(path)


def test_written_and_read_again(tmp_path):
    (tmp_path / "in").mkdir()
    first = read_brat(
        write_pair(tmp_path / "in", "one", TEXT, "T1\tPER 0 14\tAda 👍 Lovelace", "T2\tLOC 38 46\tNew York")
    )
    write_brat(first, tmp_path / "out")
    assert read_brat(tmp_path / "out") == first
    bare = [Example.of("Ada left", [(0, 1, "A B")]), Example.of("Yes")]
    write_brat(bare, tmp_path / "bare")
    again = read_brat(tmp_path / "bare")
    assert [example.tokens for example in again] == [("Ada", "left"), ("Yes",)]
    assert again[0].segments == ((0, 1, "A_B"),)
