"""What an annotator changes is what is read: suggest, change, export, read, for every tool and any text."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spansieve.data.formats import format_of, read_examples
from spansieve.data.tokenizer import tokens_of_text
from spansieve.prediction.preannotation import FORMS, Suggestion
from spansieve.segments import Entity
from tests.prediction.test_preannotation import by_doccano, by_label_studio, by_prodigy

LABELS = ("PER", "LOC", "a label, with: signs")
TEXTS = st.text(alphabet="Aab .,;\"'\n\té👍🏽\u0301|", max_size=30)
# What a text may have been annotated with before, in another tool or by another model.
STALE = {
    "entities": [{"start": 0, "end": 1, "label": "STALE"}],
    "spans": [{"start": 0, "end": 1, "label": "STALE"}],
    "label": [[0, 1, "STALE"]],
    "labels": [[0, 1, "STALE"]],
    "tokens": [{"text": "A", "start": 0, "end": 1, "id": 0}],
    "words": ["A", "b"],
    "offsets": [[0, 1]],
    "unknown": [[0, 1]],
    "tags": ["B-STALE"],
    "answer": "reject",
    "_task_hash": 12,
    "annotations": [{"result": []}],
    "predictions": [{"result": []}],
    "relations": [],
    "id": 7,
    "score": 0.25,
    "note": "kept",
}


@st.composite
def changes(draw) -> tuple[str, list[tuple[int, int, str]], list[tuple[int, int, str]]]:
    """A text, what was suggested, of its tokens, and what an annotator made of it, of any characters."""
    text = draw(TEXTS)
    tokens = tokens_of_text(text)
    solid = [position for token in tokens for position in range(token.start, token.end)]
    suggested, changed = set(), set()
    for _ in range(draw(st.integers(0, 3)) if solid else 0):
        first, last = sorted((draw(st.integers(0, len(tokens) - 1)), draw(st.integers(0, len(tokens) - 1))))
        suggested.add((tokens[first].start, tokens[last].end, draw(st.sampled_from(LABELS))))
    for _ in range(draw(st.integers(0, 3)) if solid else 0):
        first, last = sorted((draw(st.sampled_from(solid)), draw(st.sampled_from(solid))))
        changed.add((first, last + 1, draw(st.sampled_from(LABELS))))
    return text, sorted(suggested), sorted(changed)


# ---- What a tool exports of a task that an annotator has changed -----------------------------------------------------


def prodigy(task, number, spans):
    spans = [{"start": start, "end": end, "label": label} for start, end, label in spans]
    return by_prodigy({**task, "spans": spans}, number)


def label_studio(task, number, spans):
    regions = [
        {"type": "labels", "from_name": "label", "to_name": "text",
         "value": {"start": start, "end": end, "text": task["data"]["text"][start:end], "labels": [label]}}
        for start, end, label in spans
    ]  # fmt: skip
    export = by_label_studio(task, number)
    export["annotations"][0]["result"] = regions
    return export


def label_studio_min(task, number, spans):
    values = [region["value"] for region in label_studio(task, number, spans)["annotations"][0]["result"]]
    rest = {"id": number, "annotator": 1, "annotation_id": number, "lead_time": 2.0}
    return {**task["data"], **rest, **({"label": values} if values else {})}


def doccano(line, number, spans):
    return by_doccano({**line, "label": [list(span) for span in spans]}, number)


def doccano_relations(line, number, spans):
    rest = {name: value for name, value in line.items() if name != "label"}
    names = ("start_offset", "end_offset", "label")
    return {"id": number, **rest, "entities": [dict(zip(names, span)) for span in spans], "relations": []}


def plain(line, number, spans):
    return {**line, "entities": [{"start": start, "end": end, "label": label} for start, end, label in spans]}


def as_lines(records):
    return "".join(json.dumps(record) + "\n" for record in records)


def as_csv(records):
    """As Label Studio writes one: the regions are JSON in a cell."""
    target = io.StringIO(newline="")
    names = list(dict.fromkeys(name for record in records for name in record))
    writer = csv.writer(target)
    writer.writerow(names)
    for record in records:
        cells = (record.get(name, "") for name in names)
        writer.writerow([json.dumps(cell) if isinstance(cell, list) else cell for cell in cells])
    return target.getvalue()


# The form that is suggested, how the tool exports it, how it writes files, and their name and format.
TOOLS = {
    "prodigy": ("prodigy", prodigy, as_lines, "export.jsonl", "prodigy"),
    "label-studio": ("label-studio", label_studio, json.dumps, "export.json", "label-studio"),
    "label-studio, JSON-MIN": ("label-studio", label_studio_min, json.dumps, "export.json", "label-studio"),
    "label-studio, CSV": ("label-studio", label_studio_min, as_csv, "export.csv", "csv"),
    "doccano": ("doccano", doccano, as_lines, "export.jsonl", "doccano"),
    "doccano, relations": ("doccano", doccano_relations, as_lines, "export.jsonl", "doccano"),
    "jsonl": ("jsonl", plain, as_lines, "export.jsonl", "jsonl"),
}


def read_back(path) -> dict[str, set[tuple[int, int, str]]]:
    """The entities of each text, in characters."""
    found: dict[str, set[tuple[int, int, str]]] = {}
    for example in read_examples(path, split_sentences=True):
        spans = found.setdefault(example.text, set())
        for start, end, label in example.segments:
            spans.add((example.offsets[start][0], example.offsets[end - 1][1], label))
    return found


def test_every_tool_is_here():
    assert {form for form, *_ in TOOLS.values()} == set(FORMS)


@pytest.mark.parametrize("tool", TOOLS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(changes(), min_size=1, max_size=3, unique_by=lambda it: it[0]),
    stale=st.sets(st.sampled_from(list(STALE))),
)
def test_what_was_changed_is_what_is_read(tmp_path, tool, texts, stale):
    form, export, written, name, format = TOOLS[tool]
    exports = []
    for number, (text, suggested, changed) in enumerate(texts, start=1):
        record = {"text": text, **{key: STALE[key] for key in sorted(stale)}}
        entities = [Entity(start, end, label, text[start:end], 0.5) for start, end, label in suggested]
        task = FORMS[form](Suggestion(record, tokens_of_text(text), entities, 0.5, "v"))
        exports.append(export(json.loads(json.dumps(task)), number, changed))
    path = tmp_path / name
    path.write_bytes(written(exports).encode())
    assert format_of(path) == format
    found = read_back(path)
    for text, _, changed in texts:
        assert found.get(text, set()) == set(changed)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(changes().filter(lambda it: it[0].strip()), min_size=1, max_size=3))
def test_a_spreadsheet_with_rows_changed(tmp_path, texts):
    """What `predict --as csv` writes, with other rows for the entities, some of them not in the order of the texts."""
    rows = [(0, number, text, *span) for number, (text, _, changed) in enumerate(texts) for span in changed[:1]]
    rows += [(1, number, text, *span) for number, (text, _, changed) in enumerate(texts) for span in changed[1:]]
    rows += [(2, number, text, "", "", "") for number, (text, _, changed) in enumerate(texts) if not changed]
    for separator, name in ((",", "a.csv"), ("\t", "a.tsv")):
        with (tmp_path / name).open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.writer(file, delimiter=separator)
            writer.writerow(["doc", "text", "start", "end", "label"])
            writer.writerows(row[1:] for row in rows)
        for number, (_, _, changed) in enumerate(texts):
            spans = {
                (example.offsets[start][0], example.offsets[end - 1][1], label)
                for example in read_examples(tmp_path / name)
                if example.document == str(number)
                for start, end, label in example.segments
            }
            assert spans == set(changed)


@pytest.mark.parametrize("key", ["label", "labels"])
@pytest.mark.parametrize("corrected", [[[0, 3, "PER"]], []])
def test_in_a_line_of_doccano_the_label_wins(tmp_path, key, corrected):
    """A file of an earlier version, whose metadata has the entities that a model once found."""
    line = {"id": 1, "text": "Ada met Bob", "entities": [{"start": 8, "end": 11, "label": "LOC"}], key: corrected}
    (tmp_path / "a.jsonl").write_text(json.dumps(line))
    (example,) = read_examples(tmp_path / "a.jsonl")
    assert [list(segment) for segment in example.segments] == [[0, 1, "PER"]] * len(corrected)
