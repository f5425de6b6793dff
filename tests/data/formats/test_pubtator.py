"""PubTator."""

from __future__ import annotations

import pytest

from spansieve.data.example import DataError, ReaderWarnings
from spansieve.data.formats import format_of, read_examples

FILE = """17|t|Gout in mice
17|a|We fed mice. Gout followed.
17\t0\t4\tGout\tDisease\tD006073
17\t26\t30\tGout\tDisease\tD006073
17\tCID\tD1\tD2

18|t|Nothing
18|a|
"""


def write(tmp_path, text):
    path = tmp_path / "corpus.txt"
    path.write_text(text)
    return path


def test_title_and_abstract_are_one_text_but_no_sentence_spans_them(tmp_path):
    path = write(tmp_path, FILE)
    assert format_of(path) == "pubtator"
    warnings = ReaderWarnings()
    examples = read_examples(path, warnings=warnings)
    assert [(" ".join(e.tokens), e.document) for e in examples] == [
        ("Gout in mice", "17"), ("We fed mice .", "17"), ("Gout followed .", "17"), ("Nothing", "18")
    ]  # fmt: skip
    assert [e.words(s) for e in examples for s in e.segments] == ["Gout", "Gout"]
    assert not warnings


def test_words_that_differ_are_noted(tmp_path):
    warnings = ReaderWarnings()
    read_examples(write(tmp_path, "1|t|Gout\n1\t0\t4\tgout\tX\n"), warnings=warnings)
    assert warnings.counts == {"entities whose words are not those of the text, read by their characters": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1|t|Gout\n1\t0\t9\tGout\tX\n", r"line 2: an entity must lie within the 4 characters of its text, got 0 to 9"),
        ("1|t|Gout\n1\t0\t4\tGout\n", "line 2: must be id, start, end, words and label"),
        ("1|t|Gout\n\n1\t0\t4\tGout\tX\n", r"line 3: a document must begin with 'id\|t\|title'"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_examples(write(tmp_path, text), "pubtator")
