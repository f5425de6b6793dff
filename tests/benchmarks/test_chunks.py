"""The experiment on chunks, with work of no size."""

from __future__ import annotations

from benchmarks import chunks
from spansieve.data.example import Example
from tests.benchmarks.small_corpus import FAST, FLAGS, SPLITS
from tests.benchmarks.small_corpus import files as files
from tests.benchmarks.terminal import terminal as terminal


def test_each_head_is_trained_and_scored_once(terminal, tmp_path, files):
    runs = chunks.run_chunking(SPLITS, tmp_path / "r", ["crf", "semicrf"], FAST)
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("r/*/model/model.safetensors")}
    assert len(made) == 2
    answer = terminal(
        "chunking", *files, "--folder", tmp_path / "r", "--out", tmp_path, "--head", "crf", "--head", "semicrf", *FLAGS
    )
    assert answer.code == 0, answer.err
    assert made == {path: path.stat().st_mtime_ns for path in tmp_path.glob("r/*/model/model.safetensors")}
    page = (tmp_path / "chunking_cpu.md").read_text()
    for run in runs:
        row = chunks.chunking_row(run)
        assert f"| {row['model']} | {row['precision']} | {row['recall']} | {row['F1']} |" in page
    assert {row["label"]: row["gold"] for row in chunks.label_rows(runs)} == {"PER": "9", "LOC": "9"}


def test_how_much_is_covered():
    assert chunks.covered([Example.of("a b c d", [(0, 2, "X"), (3, 4, "Y")])]) == 0.75
    assert chunks.covered([]) == 0
