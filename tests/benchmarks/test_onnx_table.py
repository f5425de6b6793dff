"""The table of runtimes: every row a runtime that ran, and what each found compared."""

from __future__ import annotations

import pytest
import torch

from benchmarks.onnx_table import onnx_page, run_onnx_table
from spansieve.models.storage import save_model
from spansieve.models.tagger import Tagger
from tests.training import runs


@pytest.mark.slow
def test_three_runtimes_side_by_side(tmp_path):
    torch.manual_seed(0)
    save_model(Tagger.for_data(runs.config().model, runs.TRAIN), tmp_path / "model")
    rows = run_onnx_table(tmp_path / "model", runs.DEV, rounds=1, threads=1)
    runtimes = [(row["runtime"], row["precision"]) for row in rows]
    assert runtimes == [("torch", "fp32"), ("onnx", "fp32"), ("onnx", "int8")]
    assert [row["imports torch"] for row in rows] == ["yes", "no", "no"]
    assert rows[1]["sentences that differ"] == 0
    assert rows[1]["F1"] == rows[0]["F1"]
    page = onnx_page(rows, len(runs.DEV), "dev.conll", threads=1).write(tmp_path / "results", "a command")
    assert "a command" in page.read_text()
    assert (tmp_path / "results" / "onnx_cpu.csv").is_file()
