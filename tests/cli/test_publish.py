"""`spansieve export`, as a person types it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from spansieve.data.formats import write_examples
from spansieve.integrations.hub import load
from spansieve.prediction.onnx import load as load_export
from tests.training import runs

WITHOUT_TORCH = """
import sys
from spansieve.cli import main
sys.argv[0] = "spansieve"
try:
    main()
except SystemExit as end:
    assert not end.code
assert "torch" not in sys.modules
"""


def test_a_model_is_exported_and_finds_the_same(terminal, model, tmp_path):
    place = tmp_path / "new" / "export"
    answer = terminal("export", model, place, "--int8")
    assert answer.code == 0
    assert f"load({str(place)!r}).predict(text)" in answer.out.replace("\n", "")
    text = "Ada lives in New York ."
    expected, exported = load(model).predict(text), load_export(place)
    assert expected
    assert exported.description.int8
    assert [entity[:4] for entity in exported.predict(text)] == [entity[:4] for entity in expected]


def test_the_commands_know_an_export(terminal, model, tmp_path):
    place = tmp_path / "export"
    assert terminal("export", model, place).code == 0
    text, options = "Ada lives in New York .", ("--forbid", "Ada", "--set", "probability=with-filter")
    for more in ((), options):
        of_model, of_export = (terminal("predict", folder, text, *more) for folder in (model, place))
        assert of_export.code == 0, of_export.err
        expected, found = (json.loads(answer.out)["entities"] for answer in (of_model, of_export))
        assert expected
        assert [entity.pop("probability") for entity in found] == pytest.approx(
            [entity.pop("probability") for entity in expected], rel=1e-4
        )
        assert found == expected
    assert terminal("predict", place, text, "--as", "conll").out.startswith("Ada B-PER\n")
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH, "predict", place, text], check=True, timeout=60)
    refused = terminal("predict", place, text, "--device", "cuda")
    assert refused.code == 2
    assert "an exported model runs on the CPU" in refused.err
    rows, out = tmp_path / "rows.jsonl", tmp_path / "out"
    rows.write_text('{"text": "Ada"}\n')
    refused = terminal.refused("predict-files", place, rows, "--output", out)
    assert f"got the export {place}, which `predict`, `evaluate` and `serve` take" in refused


def test_an_export_is_evaluated_as_its_model_is_and_without_torch(terminal, model, tmp_path):
    place, data = tmp_path / "export", tmp_path / "data.jsonl"
    assert terminal("export", model, place).code == 0
    write_examples(runs.DEV, data)
    files = [tmp_path / name for name in ("model.json", "export.json")]
    shown = [terminal("evaluate", one, data, "--json", file) for one, file in zip((model, place), files)]
    assert [answer.code for answer in shown] == [0, 0], shown
    expected, found = (json.loads(file.read_text()) for file in files)
    assert found["scores"] == expected["scores"]
    assert found["calibration"]["brier"] == pytest.approx(expected["calibration"]["brier"], rel=1e-3)
    assert expected["gold_outcomes"]
    assert found["gold_outcomes"] is None
    assert "needs the model itself, got an export" in shown[1].out.replace("\n", " ")
    assert "needs the model itself" not in shown[0].out
    subprocess.run([sys.executable, "-c", WITHOUT_TORCH, "evaluate", place, data], check=True, timeout=60)


def test_nobodys_folder_is_overwritten(terminal, model, tmp_path):
    (tmp_path / "thesis.txt").touch()
    answer = terminal("export", model, tmp_path)
    assert answer.code == 1
    assert "the export's folder must be new, empty or another export" in answer.err


def test_what_is_no_model_is_told(terminal, tmp_path):
    answer = terminal("export", tmp_path / "nowhere", tmp_path / "export")
    assert answer.code == 1
    assert answer.err.startswith("error: ")
    assert not (tmp_path / "export").exists()
