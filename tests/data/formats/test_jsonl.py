"""JSON lines with tokens or with text."""

from __future__ import annotations

import json

import pytest

from spansieve.data.alignment import Document, examples_of_documents
from spansieve.data.example import DataError, Example
from spansieve.data.formats.jsonl import read_jsonl, write_jsonl, write_jsonl_text

ADA = Example.of("Ada Lovelace came", [(0, 2, "PER")])
TOKENS = ["Ada", "Lovelace", "came"]


def read(tmp_path, *records, **options):
    path = tmp_path / "file.jsonl"
    path.write_text("".join((r if isinstance(r, str) else json.dumps(r)) + "\n" for r in records), encoding="utf-8")
    return read_jsonl(path, **options)


@pytest.mark.parametrize(
    "record",
    [
        {"tokens": TOKENS, "entities": [{"start": 0, "end": 2, "label": "PER"}]},
        {"tokens": TOKENS, "entities": [{"start": 0, "end": 2, "type": "PER"}]},
        {"words": TOKENS, "spans": [[0, 2, "PER"]]},
        {"tokenized_text": TOKENS, "ner": [[0, 1, "PER"]]},  # inclusive under this key
        {"tokens": TOKENS, "tags": ["B-PER", "I-PER", "O"]},
        {"tokens": TOKENS, "ner_tags": ["B-PER", "E-PER", "O"]},
    ],
)
def test_one_sentence_in_many_shapes(tmp_path, record):
    assert read(tmp_path, record) == [ADA]
    path = tmp_path / "list.json"
    path.write_text(json.dumps([record], indent=2))
    assert read_jsonl(path) == [ADA]


def test_a_sentence_without_entities_is_ordinary(tmp_path):
    assert read(tmp_path, {"tokens": ["Yes"], "doc": "d"}, "", {"tokens": [], "entities": None}) == [
        Example.of("Yes", document="d"),
        Example(()),
    ]
    assert read(tmp_path) == []


def test_text_is_cut_into_sentences(tmp_path):
    text = "Ada came. Bob left."
    record = {"text": text, "entities": [[10, 13, "PER"]], "id": 7}
    first, second = read(tmp_path, record)
    assert (first.tokens, first.segments) == (("Ada", "came", "."), ())
    assert second.words(second.segments[0]) == "Bob"
    assert second.offsets[0] == (10, 13)
    assert second.document == "7"
    assert len(read(tmp_path, record, split_sentences=False)) == 1


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('{"tokens": ["a"', r"line 2: must be JSON, got .* at column"),
        ('["a"]', "line 2: must be a JSON object, got list"),
        ({"words_": []}, "line 2: must have the key tokens or text, got words_"),
        ({"tokens": "Ada"}, "line 2: tokens must be a list of strings, got 'Ada'"),
        ({"tokens": ["a"], "entities": {}}, None),
        ({"tokens": ["a"], "entities": {"a": 1}}, "line 2: entities must be a list, got {'a': 1}"),
        (
            {"tokens": ["a"], "entities": [{"start": 0, "label": "X"}]},
            "line 2: an entity must have start, end and label",
        ),
        ({"tokens": ["a"], "entities": [[0, True, "X"]]}, "line 2: an entity must have start, end and label"),
        ({"tokens": ["a"], "entities": [[0, 2, "X"]]}, r"line 2: a segment must lie within the 1 tokens, got \(0, 2"),
        ({"tokens": ["a"], "tags": ["O", "O"]}, "line 2: tags must be one string per token, 1, got"),
        ({"tokens": ["a"], "text": "a", "offsets": [[0, 1], [1, 2]]}, "line 2: offsets must be one per token"),
        ({"text": "Ada", "entities": [[0, 9, "X"]]}, "line 2: an entity must lie within the 3 characters"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path, record, message):
    if message is None:
        assert len(read(tmp_path, {"tokens": []}, record)) == 2
        return
    with pytest.raises(DataError, match=message):
        read(tmp_path, {"tokens": []}, record)


def test_tokens_written_and_read_again(tmp_path):
    text = "Ada came. Bob left 👍 it."
    examples = [ADA, Example.of("x", document="d"), *examples_of_documents([Document("t", text, [(10, 13, "PER")])])]
    write_jsonl(examples, tmp_path / "a.jsonl.gz")
    again = read_jsonl(tmp_path / "a.jsonl.gz")
    assert [(e.tokens, e.segments, e.document) for e in again] == [(e.tokens, e.segments, e.document) for e in examples]
    assert again[-1].text == "Bob left 👍 it."
    assert [again[-1].text[start:end] for start, end in again[-1].offsets] == list(again[-1].tokens)


def test_text_written_and_read_again(tmp_path):
    examples = examples_of_documents([Document("t", "Ada came. Bob left.", [(0, 3, "PER"), (10, 13, "PER")])])
    write_jsonl_text(examples, tmp_path / "a.jsonl")
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 1
    assert read_jsonl(tmp_path / "a.jsonl") == examples
