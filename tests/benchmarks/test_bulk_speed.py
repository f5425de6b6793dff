"""The benchmark of the pipeline runs, and counts what it says it counts."""

from __future__ import annotations

import pytest
import torch

from benchmarks.bulk_speed import Setting, count_words, run_bulk_speed, texts_of
from spansieve.data.example import Example
from spansieve.models.storage import save_model
from tests.prediction.trained import EXAMPLES, trained

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def test_texts_have_as_many_words_as_wanted():
    for words in (1, 30, 500):
        texts = texts_of(EXAMPLES, words)
        assert words <= count_words(texts) < words + 60
    with pytest.raises(ValueError, match="at least one sentence"):
        texts_of([Example.of("")], 10)


def test_every_stage_is_measured(tmp_path):
    save_model(trained(steps=20).tagger, tmp_path / "model")
    told = []
    measured = run_bulk_speed(tmp_path / "model", EXAMPLES, Setting(DEVICE, "fp32", 0, 256, 500), told.append)
    assert measured.rows == told
    assert measured.words_per_second > 0
    assert bool(measured.profile) == (DEVICE == "cuda")
    stages = [row["stage"] for row in told]
    assert {"tokens and sentences", "encoder", "reading what was decoded", "end to end"} < set(stages)
    assert any(str(stage).startswith("the slowest of these: ") for stage in stages)
    for row in told:
        assert float(str(row["words/s"]).replace(",", "")) > 0
