"""What Prodigy, doccano and Label Studio export."""

from __future__ import annotations

import json

import pytest

from spansieve.data.alignment import Document, examples_of_documents
from spansieve.data.example import DataError, Example, ReaderWarnings
from spansieve.data.formats import format_of, read_examples, write_examples

TEXT = "Ada met Bob. He left."


def lines(tmp_path, *records):
    path = tmp_path / "file.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def found(examples):
    return [(example.words(segment), segment.label) for example in examples for segment in example.segments]


def prodigy_task(**more):
    tokens = [{"text": word, "start": TEXT.index(word), "end": TEXT.index(word) + len(word), "id": n}
              for n, word in enumerate(["Ada", " ", "met", "Bob.", "He", "left", "."])]  # fmt: skip
    tokens[-1] = {"text": ".", "start": 20, "end": 21, "id": 6}
    return {
        "text": TEXT,
        "tokens": tokens,
        "spans": [{"start": 8, "end": 11, "label": "PER"}],
        "answer": "accept",
        **more,
    }


def test_prodigy_keeps_its_tokens_and_cuts_only_where_an_entity_ends(tmp_path):
    path = lines(tmp_path, prodigy_task(), prodigy_task(answer="reject"), prodigy_task(answer="ignore", spans=[]))
    assert format_of(path) == "prodigy"
    warnings = ReaderWarnings()
    (example,) = read_examples(path, warnings=warnings)
    assert example.tokens == ("Ada", "met", "Bob", ".", "He", "left", ".")
    assert found([example]) == [("Bob", "PER")]
    assert warnings.counts["tasks with the answer reject left out"] == 1
    assert warnings.counts["tasks with the answer ignore left out"] == 1
    assert warnings.counts["tokens cut where an entity begins or ends within them"] == 1


def test_prodigy_without_tokens_and_spans(tmp_path):
    path = lines(tmp_path, {"text": TEXT, "_task_hash": 1, "meta": {"doc": "d"}})
    (example,) = read_examples(path)
    assert (len(example), example.segments, example.document) == (7, (), "d")
    assert len(read_examples(path, split_sentences=True)) == 2


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ({"answer": "accept"}, "line 1: must have a text, got answer"),
        ({"text": "a", "tokens": [{"text": "b", "start": 0, "end": 1}]}, "line 1: token 'b' must stand at 0 to 1"),
        ({"text": "a", "tokens": [{"text": "b"}]}, "line 1: a token must have text, start and end"),
        ({"text": "a", "tokens": 1}, "line 1: tokens must be a list of objects, got 1"),
        ({"text": "a", "spans": {"x": 1}}, "line 1: spans must be a list, got"),
        ({"text": "a", "answer": "accept", "spans": [{"start": 0, "end": 2, "label": "X"}]}, "within the 1 characters"),
    ],
)
def test_prodigy_tells_what_is_wrong(tmp_path, task, message):
    with pytest.raises(DataError, match=message):
        read_examples(lines(tmp_path, task), "prodigy")


@pytest.mark.parametrize(
    "record",
    [
        {"id": 1, "text": TEXT, "label": [[8, 11, "PER"]]},
        {"id": 1, "text": TEXT, "labels": [[8, 11, "PER"]], "Comments": []},
        {
            "id": 1,
            "text": TEXT,
            "entities": [{"id": 4, "label": "PER", "start_offset": 8, "end_offset": 11}],
            "relations": [],
        },
    ],
)
def test_doccano(tmp_path, record):
    path = lines(tmp_path, record, {"id": 2, "text": "Nothing.", "label": []})
    assert format_of(path) == "doccano"
    examples = read_examples(path)
    assert [example.document for example in examples] == ["1", "1", "2"]
    assert found(examples) == [("Bob", "PER")]


def test_doccano_tells_what_is_wrong(tmp_path):
    with pytest.raises(DataError, match="line 1: must have a text, got label"):
        read_examples(lines(tmp_path, {"label": []}), "doccano")
    with pytest.raises(DataError, match="line 1: an entity must have start, end and label"):
        read_examples(lines(tmp_path, {"text": "a", "entities": [{"start_offset": 0}]}), "doccano")


def region(start, end, *labels):
    return {"type": "labels", "value": {"start": start, "end": end, "text": TEXT[start:end], "labels": list(labels)}}


def test_label_studio(tmp_path):
    tasks = [
        {"id": 1, "data": {"text": TEXT}, "annotations": [
            {"was_cancelled": True, "result": []},
            {"result": [region(8, 11, "PER", "POET"), {"type": "choices", "value": {"choices": ["x"]}}]},
            {"result": []},
        ]},
        {"id": 2, "data": {"body": "Nothing."}, "annotations": [{"result": []}]},
        {"id": 3, "data": {"text": TEXT}, "annotations": []},
    ]  # fmt: skip
    path = tmp_path / "file.json"
    path.write_text(json.dumps(tasks))
    assert format_of(path) == "label-studio"
    warnings = ReaderWarnings()
    examples = read_examples(path, warnings=warnings)
    assert found(examples) == [("Bob", "PER"), ("Bob", "POET")]
    assert [example.document for example in examples] == ["1", "1", "2"]
    assert dict(warnings) == {"further annotations of a task left out": 1, "tasks without annotations left out": 1}


def test_label_studio_in_its_short_form(tmp_path):
    path = tmp_path / "file.json"
    path.write_text(json.dumps([{"id": 1, "text": TEXT, "label": [region(8, 11, "PER")["value"]], "annotator": 1}]))
    assert format_of(path) == "label-studio"
    assert found(read_examples(path)) == [("Bob", "PER")]


def test_label_studio_tells_what_is_wrong(tmp_path):
    path = tmp_path / "file.json"
    path.write_text(json.dumps([{"data": {"a": "x", "b": "y"}, "annotations": [{"result": []}]}]))
    with pytest.raises(DataError, match="record 1: must have one text in its data, got the keys a, b"):
        read_examples(path)
    path.write_text(json.dumps([{"data": {"text": "x"}, "annotations": [{"result": [7]}]}]))
    with pytest.raises(DataError, match=r"record 1: result must be a list of objects, got \[7\]"):
        read_examples(path)
    path.write_text('[\n{"data":\n')
    with pytest.raises(DataError, match=r"file\.json line 3: must be JSON"):
        read_examples(path)


@pytest.mark.parametrize("format", ["prodigy", "doccano", "label-studio"])
def test_written_and_read_again(tmp_path, format):
    examples = examples_of_documents([Document("1", TEXT, [(8, 11, "PER"), (0, 11, "PAIR")])])
    write_examples(examples, tmp_path / "out", format)
    assert format_of(tmp_path / "out") == format
    again = read_examples(tmp_path / "out")
    assert [(e.tokens, e.segments, e.document) for e in again] == [(e.tokens, e.segments, e.document) for e in examples]
    bare = [Example.of("Ada left", [(0, 1, "PER")]), Example.of("Yes")]
    write_examples(bare, tmp_path / "bare", format)
    again = read_examples(tmp_path / "bare", format)
    assert [(e.tokens, e.segments) for e in again] == [(e.tokens, e.segments) for e in bare]
