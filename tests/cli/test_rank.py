"""`spansieve rank` as a person types it."""

from __future__ import annotations

import json

import pytest

from spansieve.data.formats import read_examples

TEXTS = ["Ada lives in New York .", "", "Chen Rome Ada York Stone lives .", "in in in"]


@pytest.fixture
def lines(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path / "texts.txt"


def records(out: str) -> list[dict]:
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("by", ["entropy", "least-confidence", "margin", "filter"])
def test_lines(terminal, model, lines, by):
    answer = terminal("rank", model, lines, "--by", by, "--per-token")
    assert answer.code == 0, answer.err
    found = records(answer.out)
    assert sorted(one["text"] for one in found) == sorted(TEXTS)
    scores = [one["meta"]["score"] for one in found]
    assert scores == sorted(scores, reverse=True)
    assert records(terminal("rank", model, lines, "--by", by, "--per-token", "--limit", 2).out) == found[:2]


@pytest.mark.parametrize("form", ["prodigy", "doccano", "jsonl"])
def test_what_comes_out_can_be_annotated_and_read_back(terminal, model, lines, tmp_path, form):
    out = tmp_path / "out.jsonl"
    answer = terminal("rank", model, lines, "--as", form, "--output", out)
    assert answer == (0, "", "")
    read = read_examples(out, {"jsonl": "jsonl"}.get(form, form))
    assert ("Ada", "PER") in [(e.words(s), s.label) for e in read for s in e.segments]
    for one in records(out.read_text()):
        for span in one.get("spans", ()):
            assert one["text"][span["start"] : span["end"]]
            assert one["tokens"][span["token_start"]]["start"] == span["start"]
            assert one["tokens"][span["token_end"]]["end"] == span["end"]
        for token in one.get("tokens", ()):
            assert one["text"][token["start"] : token["end"]] == token["text"]


def test_json_lines_keep_what_they_say(terminal, model, tmp_path):
    given = [{"text": text, "id": i, "meta": {"source": "mail"}} for i, text in enumerate(TEXTS)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(one) + "\n\n" for one in given))
    found = records(terminal("rank", model, tmp_path / "texts.jsonl").out)
    assert {one["id"]: one["text"] for one in found} == dict(enumerate(TEXTS))
    assert all(one["meta"]["source"] == "mail" and "score" in one["meta"] for one in found)


def test_standard_input_and_whole_files(terminal, model, lines):
    text = lines.read_bytes()
    assert len(records(terminal("rank", model, stdin=text).out)) == 4
    (whole,) = records(terminal("rank", model, lines, "--whole").out)
    assert whole["text"] == text.decode()


def test_nonsense_is_one_line(terminal, model, other_model, lines, tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"text": "Ada"}\n{"text": 3}\n')
    (tmp_path / "worse.jsonl").write_text("{")
    for path, message in (
        ("nowhere", "no file"),
        ("bad.jsonl", "bad.jsonl line 2: must be a JSON object with a text"),
        ("worse.jsonl", "worse.jsonl line 1: must be JSON"),
    ):
        assert message in terminal.refused("rank", model, tmp_path / path)
    refused = terminal.refused("rank", other_model, lines, "--by", "filter")
    assert "needs a model that filters, got the head 'crf'" in refused
    assert "a model must be a folder" in terminal.refused("rank", tmp_path, lines)
