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
    assert answer.code == 3, answer.err
    assert answer.out == ""
    out = tmp_path / "out"
    assert answer.err == (
        f"left out: {rows} line 3: column 'body' must be a string, got null\n"
        f"2 rows, 4 entities, 1 part in {out}; 1 row left out: {out}/_spansieve/left_out.jsonl\n"
    )
    written = [json.loads(line) for line in (tmp_path / "out" / "part-000000.jsonl").read_text().splitlines()]
    assert [(row["id"], row["body"]) for row in written] == list(enumerate(TEXTS[:2]))
    names = [[(entity["text"], entity["label"]) for entity in row["entities"] or ()] for row in written]
    assert names == [[("Ada", "PER"), ("New York", "LOC")], [("Chen", "PER"), ("Rome", "LOC")]]
    again = terminal(*command)
    assert again.code == 3
    assert "1 part was there before; 1 row left out" in again.err
    assert f"{rows} line 3: column 'body' must be a string" in terminal.refused(*command, "--strict")
    rows.write_text(json.dumps({"body": TEXTS[0]}))
    assert terminal(*command[:-3], tmp_path / "all", "--text-column", "body").code == 0


def test_several_inputs_are_read_in_order_and_each_once(terminal, model, tmp_path):
    for name, text in (("b", "Ada"), ("a", "Chen"), ("c", "Rome")):
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": text}) + "\n")
    inputs = (tmp_path / "b.jsonl", tmp_path / "*.jsonl")
    assert terminal("predict-files", model, *inputs, "--output", tmp_path / "out").code == 0
    parts = sorted((tmp_path / "out").glob("part-*.jsonl"))
    assert [json.loads(part.read_text())["text"] for part in parts] == ["Ada", "Chen", "Rome"]


def test_settings_of_a_job(terminal, model, rows, tmp_path):
    options = ("--set", "entities_column=found", "--set", "block_size=1", "--set", "objective=f1=0.3")
    command = ("predict-files", model, rows, "--output", tmp_path / "out", "--text-column", "body")
    assert terminal(*command, *options).code == 3
    first = json.loads((tmp_path / "out" / "part-000000.jsonl").read_text().splitlines()[0])
    assert [entity["text"] for entity in first["found"]] == ["Ada", "New York"]
    plan = json.loads((tmp_path / "out" / "_spansieve" / "plan.json").read_text())
    assert (plan["block_size"], plan["objective"]) == (1 << 20, "f1=0.3")


def test_nonsense_is_one_line(terminal, model, rows, tmp_path):
    out = ("--output", tmp_path / "out")
    refused = terminal.refused("predict-files", model, rows, *out, "--set", "speed=3")
    assert "unknown setting 'speed'; known here are replicas, block_size, entities_column, objective" in refused
    assert "block_size must be at least 1" in terminal.refused(
        "predict-files", model, rows, *out, "--set", "block_size=0"
    )
    assert "precision must be one of" in terminal.refused("predict-files", model, rows, *out, "--precision", "x")
    assert "a model must be a folder" in terminal.refused("predict-files", tmp_path, rows, *out)


def test_a_damaged_file_does_not_keep_the_others_from_being_written(terminal, model, tmp_path):
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 and no more")
    (tmp_path / "bad\x1b[31m.jsonl.gz").write_bytes(b"no gzip")
    (tmp_path / "good.jsonl").write_text(json.dumps({"text": "Ada"}))
    answer = terminal("predict-files", model, tmp_path, "--output", tmp_path / "out")
    assert answer.code == 3
    assert f"left out: {tmp_path}/bad.parquet: Parquet" in answer.err
    assert "bad\\x1b[31m.jsonl.gz must be a whole gzip file" in answer.err
    assert "1 row, 1 entities, 1 part in" in answer.err
    assert "2 damaged blocks left out" in answer.err
    assert [path.name for path in (tmp_path / "out").glob("part-*")] == ["part-000002.jsonl"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ((), "Missing argument"),
        (("rows.jsonl",), "Missing option '--output'"),
        (("rows.jsonl", "--output", "out", "--set", "replicas=2"), "replicas need --ray"),
        (("rows.jsonl", "--output", "out", "--threshold", 2), "'--threshold'"),
        (("rows.jsonl", "--output", "out", "--forbid", "Ada"), "No such option"),
    ],
)
def test_a_line_that_makes_no_sense_is_code_2(terminal, model, line, message):
    answer = terminal("predict-files", model, *line)
    assert answer.code == 2
    assert message in " ".join(answer.err.replace("│", " ").split())
