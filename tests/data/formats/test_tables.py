"""CSV and TSV: tokens, entities and Label Studio's export, by header."""

from __future__ import annotations

import csv
import json

import pytest

from spansieve.data.example import DataError, Example, ReaderWarnings
from spansieve.data.formats import format_of, read_examples, write_examples
from spansieve.data.formats.tables import read_texts

ENTITIES = """text,start,end,label
"Ada said: ""no"".",0,3,PER
Nothing.,,,
"Rome,
and Paris",0,4,LOC
"Rome,
and Paris",10,15,LOC
"""
KAGGLE = 'Sentence #,Word,POS,Tag\nSentence: 1,Ada,NNP,B-per\n,Lovelace,NNP,I-per\nSentence: 2,"""",``,O\n,No,UH,O\n'


def table(tmp_path, content, name="a.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def found(examples):
    return [(example.words(segment), segment.label) for example in examples for segment in example.segments]


# ---- One row per token -----------------------------------------------------------------------------------------------


def test_tokens_whose_sentence_is_numbered_in_its_first_row(tmp_path):
    path = table(tmp_path, KAGGLE)
    assert format_of(path) == "csv"
    assert read_examples(path) == [Example.of("Ada Lovelace", [(0, 2, "per")]), Example.of(['"', "No"])]


@pytest.mark.parametrize(
    "content",
    [
        "sentence_id;token;ner_tag;doc\n1;Ada;B-PER;a\n1;came;O;a\n2;No;O;a\n2;Rome;B-LOC;b\n",
        "doc\tsentence\tword\tlabel\na\t1\tAda\tPER\na\t1\tcame\tO\na\t2\tNo\tO\nb\t2\tRome\tLOC\n",
        "doc,token,tag\na,Ada,B-PER\na,came,O\n,,\na,No,O\n,,\nb,Rome,B-LOC\n",
        "doc|token|tag\r\na|Ada|B-PER\r\na|came|O\r\n\r\na|No|O\r\n\r\nb|Rome|B-LOC\r\n",
    ],
)
def test_tokens_by_header_and_separator(tmp_path, content):
    expected = [
        Example.of("Ada came", [(0, 1, "PER")], document="a"),
        Example.of("No", document="a"),
        Example.of("Rome", [(0, 1, "LOC")], document="b"),
    ]
    for start in (b"", b"\xef\xbb\xbf"):
        assert read_examples(table(tmp_path, start + content.encode())) == expected
    path = table(tmp_path, content.replace(";", "\t").replace("|", "\t").replace(",", "\t"), "a.tsv")
    assert format_of(path) == "tsv"
    assert read_examples(path) == expected


def test_ill_formed_tags_are_told_with_their_row(tmp_path):
    warnings = ReaderWarnings()
    read_examples(table(tmp_path, "sentence,token,tag\n1,a,B-X\n1,b,I-Y\n"), warnings=warnings)
    assert "a.csv row 2" in str(warnings)


def test_quotes_that_are_tokens(tmp_path):
    path = table(tmp_path, 'sentence\ttoken\ttag\n1\t"\tO\n1\tsaid\tO\n1\t"\tO\n', "a.tsv")
    with pytest.raises(DataError, match=r"a.tsv row 2: .*quotes=false"):
        read_examples(path)
    (example,) = read_examples(path, quotes=False)
    assert example.tokens == ('"', "said", '"')


# ---- One row per entity ----------------------------------------------------------------------------------------------


def test_entities_in_characters(tmp_path):
    path = table(tmp_path, ENTITIES)
    examples = read_examples(path, split_sentences=False)
    assert [example.text for example in examples] == ['Ada said: "no".', "Nothing.", "Rome,\nand Paris"]
    assert found(examples) == [("Ada", "PER"), ("Rome", "LOC"), ("Paris", "LOC")]


def test_columns_and_separator_by_option(tmp_path):
    path = table(tmp_path, "body;from;to;kind;page\nAda came;0;3.0;PER;7\n", "a.txt")
    options = {"text_column": "body", "start_column": "from", "end_column": "to", "label_column": "kind"}
    (example,) = read_examples(path, "csv", separator="semicolon", document_column="page", **options)
    assert (found([example]), example.document) == ([("Ada", "PER")], "7")
    with pytest.raises(DataError, match="must have the column words, got body, from, to, kind, page"):
        read_examples(path, "csv", text_column="words")
    with pytest.raises(
        ValueError, match="separator must be a character or one of comma, semicolon, tab, bar, got 'xy'"
    ):
        read_examples(path, "csv", separator="xy")


def test_a_text_that_is_there_twice_is_two_where_documents_say_so(tmp_path):
    rows = "Ada,0,3,PER\nAda,0,3,PER\n"
    assert len(read_examples(table(tmp_path, "text,start,end,label\n" + rows))) == 1
    numbered = "".join(f"{number},{row}\n" for number, row in enumerate(rows.split()))
    assert len(read_examples(table(tmp_path, "doc,text,start,end,label\n" + numbered))) == 2
    # An id may be that of the row: entities of one text are not torn apart by it.
    with_id = table(tmp_path, "id,text,start,end,label\n1,Ada Bob,0,3,PER\n2,Ada Bob,4,7,PER\n")
    assert found(read_examples(with_id)) == [("Ada", "PER"), ("Bob", "PER")]


def test_an_entity_that_is_elsewhere_is_warned_of(tmp_path):
    warnings = ReaderWarnings()
    path = table(tmp_path, "text,start,end,label,entity\nAda came,4,8,PER,Ada\n")
    assert found(read_examples(path, warnings=warnings)) == [("came", "PER")]
    assert "1 × entities that are not what stands from start to end, which are read" in str(warnings)


def test_a_cell_may_be_a_book(tmp_path):
    path = table(tmp_path, "text,start,end,label\n" + "word " * 40_000 + "Ada,200000,200003,PER\n")
    assert found(read_examples(path, split_sentences=False)) == [("Ada", "PER")]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz"])
def test_round_trip(tmp_path, name):
    path = table(tmp_path, ENTITIES)
    examples = read_examples(path)
    write_examples(examples, tmp_path / f"b{name}")
    again = read_examples(tmp_path / f"b{name}")
    assert [(e.tokens, e.segments, e.text) for e in again] == [(e.tokens, e.segments, e.text) for e in examples]
    assert [e.document for e in again] == ["0", "1", "2"]


# ---- Label Studio ----------------------------------------------------------------------------------------------------


def test_label_studio(tmp_path):
    regions = [{"start": 0, "end": 3, "text": "Ada", "labels": ["PER", "POET"]}]
    path = tmp_path / "export.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "id", "label", "annotator", "annotation_id", "created_at", "lead_time"])
        writer.writerow(["Ada, you\nknow.", 7, json.dumps(regions), 1, 12, "2024", 3.5])
        writer.writerow(["Nobody.", 8, "", 1, 13, "2024", 3.5])
        writer.writerow(["Not annotated.", 9, "", "", "", "", ""])
    warnings = ReaderWarnings()
    examples = read_examples(path, warnings=warnings)
    assert found(examples) == [("Ada", "PER"), ("Ada", "POET")]
    assert [example.document for example in examples] == ["7", "8"]
    assert warnings.counts["tasks without annotations left out"] == 1


# ---- What is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("text,start,end,label\nAda,0,3,PER\nAda,0,,PER\n", "a.csv row 3: end is missing"),
        ("text,start,end,label\nAda,0,3,\n", "a.csv row 2: label is missing"),
        ("text,start,end,label\n,0,3,PER\n", "a.csv row 2: text is missing"),
        ('text,start,end,label\n"Ada\n\ncame",0,3,PER\nAda,0\n', "a.csv row 3: end is missing"),
        ("text,start,end,label\nAda,zero,3,PER\n", "a.csv row 2: start must be a number of characters, got 'zero'"),
        ("text,start,end,label\nAda,-1,3,PER\n", "a.csv row 2: start must be a number of characters, got '-1'"),
        ("text,start,end,label\nAda,0,4,PER\n", "a.csv row 2: an entity must lie within the 3 characters .*got 0 to 4"),
        ("text,start,end,label\nAda, 0,3,PER,7,8\n", "a.csv row 2: must have 4 cells between ',', .* got 6"),
        ('text,start,end,label\n"Ada,0,3,PER\n', "a.csv row 2: must have cells quoted in full"),
        ("sentence,token,tag\n,Ada,O\n", "a.csv row 2: sentence is missing"),
        ("sentence,token,tag\n1,,O\n", "a.csv row 2: token is missing"),
        ("sentence,token,tag\n1,Ada,O\n1,came,\n", "a.csv row 3: tag is missing"),
        ("token,tag\nAda,O\ncame,O\n", "a.csv must have a column sentence, or blank rows between"),
        ("text,label\nAda,spam\n", "a.csv row 2: label must be Label Studio's JSON where there is no start, got"),
        ("Ada,B-PER\nBob,O\n", "must have the columns text, start, end, label; or token, tag; or text, label, got Ada"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_row(tmp_path, content, message):
    with pytest.raises(DataError, match=message):
        read_examples(table(tmp_path, content))


def test_nothing_is_no_examples(tmp_path):
    assert read_examples(table(tmp_path, "\n\n")) == []


# ---- Texts -----------------------------------------------------------------------------------------------------------


def test_texts_of_a_table(tmp_path):
    path = table(tmp_path, 'id,Text,note\n7,"Ada, you",x\n8,,y\n')
    assert list(read_texts(path)) == [
        {"text": "Ada, you", "id": "7", "note": "x"},
        {"text": "", "id": "8", "note": "y"},
    ]
    assert next(read_texts(path, "note")) == {"text": "x", "id": "7", "Text": "Ada, you"}
    assert [row["text"] for row in read_texts(table(tmp_path, 'review\n"Ada, you"\nBob\n'))] == ["Ada, you", "Bob"]
    assert list(read_texts(table(tmp_path, ENTITIES))) == [
        {"text": text} for text in ('Ada said: "no".', "Nothing.", "Rome,\nand Paris")
    ]
    with pytest.raises(
        DataError, match="must have a column text, or --text-column be given, got Sentence #, Word, POS"
    ):
        list(read_texts(table(tmp_path, KAGGLE)))
