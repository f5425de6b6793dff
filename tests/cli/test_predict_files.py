"""`spansieve predict-files` as a person types it."""

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
    command = ("predict-files", model, rows, "--output", tmp_path / "out", "--text-column", "body")
    answer = terminal(*command)
    assert answer.code == 0, answer.err
    assert answer.out == ""
    assert answer.err == f"3 rows, 4 entities, 1 part in {tmp_path / 'out'}; 1 row could not be read: see its error\n"
    written = [json.loads(line) for line in (tmp_path / "out" / "part-000000.jsonl").read_text().splitlines()]
    assert [(row["id"], row["body"]) for row in written] == list(enumerate(TEXTS))
    names = [[(entity["text"], entity["label"]) for entity in row["entities"] or ()] for row in written]
    assert names == [[("Ada", "PER"), ("New York", "LOC")], [("Chen", "PER"), ("Rome", "LOC")], []]
    assert written[2]["error"] == "column 'body' must be a string, got null"
    assert "1 part was there before" in terminal(*command).err


def test_several_inputs_are_read_in_order_and_each_once(terminal, model, tmp_path):
    for name, text in (("b", "Ada"), ("a", "Chen"), ("c", "Rome")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": text}) + "\n")
    inputs = (tmp_path / "b.jsonl", tmp_path / "*.jsonl")
    assert terminal("predict-files", model, *inputs, "--output", tmp_path / "out").code == 0
    parts = sorted((tmp_path / "out").glob("part-*.jsonl"))
    assert [json.loads(part.read_text())["text"] for part in parts] == ["Ada", "Chen", "Rome"]


def test_nonsense_is_one_line(terminal, model, rows, tmp_path):
    out = ("--output", tmp_path / "out")
    assert "precision must be one of" in terminal.refused("predict-files", model, rows, *out, "--precision", "x")
    assert "a model must be a folder" in terminal.refused("predict-files", tmp_path, rows, *out)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    assert "bad.parquet must be Parquet" in terminal.refused("predict-files", model, tmp_path / "bad.parquet", *out)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ((), "Missing argument"),
        (("rows.jsonl",), "Missing option '--output'"),
        (("rows.jsonl", "--output", "out", "--replicas", 2), "--replicas needs --ray"),
        (("rows.jsonl", "--output", "out", "--threshold", 2), "'--threshold'"),
        (("rows.jsonl", "--output", "out", "--forbid", "Ada"), "No such option: --forbid"),
    ],
)
def test_a_line_that_makes_no_sense_is_code_2(terminal, model, line, message):
    answer = terminal("predict-files", model, *line)
    assert answer.code == 2
    assert message in " ".join(answer.err.replace("│", " ").split())
