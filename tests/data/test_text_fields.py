"""Texts in a stream, and their replacement where all else stays byte for byte."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spansieve.data.example import DataError
from spansieve.data.text_fields import MAX_PIECE, read_fields

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def records(content: str | bytes, form, names=()):
    raw = content if isinstance(content, bytes) else content.encode()
    return list(read_fields(io.BytesIO(raw), form, names, "the input"))


def texts(content, form, names=()):
    return [field.text for record in records(content, form, names) for field in record.fields]


@given(TEXT, st.sampled_from(["lines", "paragraphs"]))
def test_joined_records_are_the_stream(text, form):
    assert "".join(record.raw for record in records(text, form)) == text


def test_lines_and_paragraphs():
    text = "Ada\r\nlives here\n \nin Rome"
    assert texts(text, "lines") == ["Ada", "lives here", "in Rome"]
    assert texts(text, "paragraphs") == ["Ada\r\nlives here\n ", "in Rome"]
    assert [record.line for record in records(text, "paragraphs")] == [1, 4]


@pytest.mark.parametrize("word", ["word ", "wörd", "👍"])
def test_a_line_too_long_for_one_text_comes_in_pieces(word):
    text = word * (3 * MAX_PIECE // len(word.encode())) + "\nend"
    found = records(text, "lines")
    assert "".join(record.raw for record in found) == text
    assert [record.continues for record in found] == [False, *[True] * (len(found) - 2), False]
    assert {record.line for record in found[:-1]} == {1}
    assert max(len(record.raw.encode()) for record in found) <= MAX_PIECE + 4


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@given(TEXT, st.dictionaries(TEXT, JSON, max_size=3), st.booleans(), st.sampled_from([None, 1]), st.data())
@example("\U0001f44d\u2028\\\"'\n", {}, True, None, None)
def test_a_span_of_a_json_field_is_replaced_and_nothing_else(text, others, is_ascii, indent, data):
    line = json.dumps({**others, "text": text}, ensure_ascii=is_ascii).replace(": ", ":  ") + "\n"
    (record,) = records(line, "jsonl", ["text"])
    before = json.loads(line)["text"]
    if not before:
        assert not record.fields
        return
    (field,) = record.fields
    assert field.text == before
    start = 0 if data is None else data.draw(st.integers(0, len(before) - 1))
    end = len(before) if data is None else data.draw(st.integers(start + 1, len(before)))
    raw = line[field.start : field.end]
    replaced = field.replaced(raw, [(start, end, '[A"Ö]')])
    value = json.loads(line[: field.start] + replaced + line[field.end :])
    assert value == {**json.loads(line), "text": before[:start] + '[A"Ö]' + before[end:]}
    assert field.replaced(raw, []) == raw


def test_a_json_field_that_occurs_twice_is_found_twice():
    assert texts('{"text": "Ada", "x": {"text": "no"}, "text": "Rome"}', "jsonl", ["text"]) == ["Ada", "Rome"]


@given(st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=4), st.sampled_from(["csv", "tsv"]), st.booleans())
def test_cells_are_those_that_csv_reads(rows, form, quote_all):
    rows = [tuple(cell.replace("\r", "").replace("\0", "") for cell in row) for row in rows]
    written = io.StringIO()
    quoting, separator = csv.QUOTE_ALL if quote_all else csv.QUOTE_MINIMAL, "," if form == "csv" else "\t"
    writer = csv.writer(written, delimiter=separator, quoting=quoting, lineterminator="\n")
    writer.writerows([("id", "body"), *rows])
    content = written.getvalue()
    found = records(content, form, ["body"])
    assert "".join(record.raw for record in found) == content
    assert [field.text for record in found for field in record.fields] == [b for _, b in rows if b.strip()]
    replaced = found[0].raw
    for record in found[1:]:
        reached = 0
        for field in record.fields:
            instead = field.replaced(record.raw[field.start : field.end], [(0, len(field.text), 'X,"\t')])
            replaced, reached = replaced + record.raw[reached : field.start] + instead, field.end
        replaced += record.raw[reached:]
    # A cell that was not quoted gets quotes for what is put into it.
    after = list(csv.reader(io.StringIO(replaced, newline=""), delimiter=separator))[1:]
    assert after == [[a, 'X,"\t' if b.strip() else b] for a, b in rows]


def test_quotes_within_a_cell_are_characters():
    content = 'size,body\n5"" wide,Ada "A" Byron\n6" x,Rome\n'
    assert texts(content, "csv", ["body"]) == ['Ada "A" Byron', "Rome"]


@pytest.mark.parametrize(
    ("content", "form", "message"),
    [
        (b"Ada\nM\xfcller\n", "lines", "the input line 2: must be UTF-8"),
        (b"[1]\n", "jsonl", "line 1: must be a JSON object"),
        (b'{"text": "Ada"}\n{"text": secret\n', "jsonl", "line 2: must be JSON"),
        (b'{"body": "secret"}\n', "jsonl", "line 1: must have a field text"),
        (b'{"text": ["secret"]}\n', "jsonl", "line 1: text must be a string"),
        (b"id,body\n1,secret\n", "csv", "line 1: must have a column text, got id, body"),
        (b'id,text\n1,"secret\n2,x\n', "csv", "line 2: a quoted cell must end"),
        (b"id,text\n1\n", "csv", "line 2: must have 2 cells"),
    ],
)
def test_errors_name_the_line_and_show_nothing_of_the_text(content, form, message):
    with pytest.raises(DataError, match=message) as caught:
        records(content, form, ["text"])
    assert "secret" not in str(caught.value)
    assert "M\xfc" not in str(caught.value)
