"""`spansieve suggest` as a person types it, and the loop that it closes."""

from __future__ import annotations

import json

import pytest

from spansieve.data.formats import read_examples

TEXTS = ["Ada lives in New York .", "", "Chen works in Rome ."]


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS) + "\n")
    return tmp_path / "texts.txt"


def test_label_studio_gets_one_list_and_the_others_lines(terminal, model, texts, tmp_path):
    tasks = json.loads(terminal("suggest", model, texts, "--as", "label-studio").out)
    assert [task["data"]["text"] for task in tasks] == TEXTS
    assert [r["value"]["text"] for r in tasks[0]["predictions"][0]["result"]] == ["Ada", "New York"]
    assert tasks[0]["predictions"][0]["model_version"].startswith("run-")
    for tool in ("prodigy", "doccano", "jsonl"):
        answer = terminal("suggest", model, texts, "--as", tool, "--output", tmp_path / f"{tool}.jsonl")
        assert answer == (0, "", "")
        read = read_examples(tmp_path / f"{tool}.jsonl", tool)
        assert ("Rome", "LOC") in [(e.words(s), s.label) for e in read for s in e.segments]


def test_no_texts_are_an_empty_list(terminal, model):
    assert json.loads(terminal("suggest", model, "--as", "label-studio", stdin=b"").out) == []


def test_rank_then_suggest(terminal, model, texts, tmp_path):
    """The least sure text comes first in what the annotator gets, and says how unsure it was."""
    ranked = tmp_path / "ranked.jsonl"
    assert terminal("rank", model, texts, "--by", "filter", "--as", "jsonl", "--limit", 2, "-o", ranked).code == 0
    order = [json.loads(line) for line in ranked.read_text().splitlines()]
    tasks = json.loads(terminal("suggest", model, ranked, "--as", "label-studio").out)
    assert [task["data"]["text"] for task in tasks] == [record["text"] for record in order]
    assert [task["data"]["score"] for task in tasks] == [record["score"] for record in order]
    assert order[0]["score"] >= order[1]["score"] > 0
    direct = json.loads(terminal("rank", model, texts, "--by", "filter", "--as", "label-studio", "--limit", 2).out)
    assert [t["predictions"][0]["result"] for t in direct] == [t["predictions"][0]["result"] for t in tasks]


def test_nonsense_is_one_line(terminal, model, tmp_path):
    assert "no file" in terminal.refused("suggest", model, tmp_path / "nowhere.txt")
