"""`spansieve predict --input` as a person types it."""

from __future__ import annotations

import json

import pytest

TEXTS = ["Ada lives in New York .", "Chen works in Rome .", None]


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps({"id": i, "body": text}) + "\n" for i, text in enumerate(TEXTS)))
    return path


def test_rows_come_out_with_their_entities(terminal, model, rows, tmp_path):
    command = ("predict", model, "--input", rows, "--output", tmp_path / "out", "--text-column", "body")
    answer = terminal(*command)
    assert answer.code == 0, answer.err
    assert answer.out == ""
    said = f"3 rows, 4 entities, 1 parts in {tmp_path / 'out'}; 1 row could not be read and says why"
    assert answer.err == f"{said}\n"
    found = [json.loads(line) for line in (tmp_path / "out" / "part-000000.jsonl").read_text().splitlines()]
    assert [(row["id"], row["body"]) for row in found] == list(enumerate(TEXTS))
    names = [[(entity["text"], entity["label"]) for entity in row["entities"] or ()] for row in found]
    assert names == [[("Ada", "PER"), ("New York", "LOC")], [("Chen", "PER"), ("Rome", "LOC")], []]
    assert found[2]["error"] == "column 'body' must be a string, got null"
    assert "1 parts were there before" in terminal(*command).err


def test_nonsense_is_told(terminal, model, rows, tmp_path):
    out = ("--output", tmp_path / "out")
    assert "no file or folder" in terminal.refused("predict", model, "--input", tmp_path / "nowhere", *out)
    assert "engine must be local or ray" in terminal.refused("predict", model, "--input", rows, *out, "--engine", "x")
    assert "precision must be one of" in terminal.refused("predict", model, "--input", rows, *out, "--precision", "x")
    assert "a model must be a folder" in terminal.refused("predict", tmp_path, "--input", rows, *out)
    for wrong, reason in (
        (("--input", rows), "--input needs --output"),
        (("--input", rows, *out, "text"), "there can be no texts"),
        (("--engine", "ray", "text"), "--engine needs rows"),
    ):
        answer = terminal("predict", model, *wrong)
        assert answer.code == 2
        assert reason in " ".join(answer.err.replace("│", " ").split())
