"""The comparison on nested entities, on a corpus of no size."""

from __future__ import annotations

import pytest

from benchmarks import nested_entities as nested
from benchmarks.experiment import Splits
from spansieve.data.example import Example
from tests.training.runs import SMALL


def club(place: str, verb: str) -> Example:
    return Example.of(f"FC {place} {verb}", [(0, 2, "ORG"), (1, 2, "LOC")])


SPLITS = Splits(
    *(tuple(club(place, verb) for place in ("Bern", "Ulm", "Graz")) for verb in ("won .", "lost .", "played ."))
)


def test_each_head_is_trained_and_scored_once(tmp_path):
    seen: list[nested.NestedRun] = []
    settings = SMALL | {"training.epochs": 4}
    runs = nested.run_nested(SPLITS, tmp_path, settings=settings, seen=seen.append)
    assert [run.head for run in runs] == list(nested.HEADS)
    assert seen == runs
    for run in runs:
        is_flat = not run.head.startswith("nested")
        assert run.lost == (3 if is_flat else 0)
        assert run.levels["inner"].micro.gold == run.levels["outer"].micro.gold == 3
        assert run.levels["inner"].micro.predicted == 0 or not is_flat
        assert nested.nested_row(run)["inner F1"] == f"{100 * run.levels['inner'].f1:.2f}"
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/model/model.safetensors")}
    assert len(made) == 4
    again = nested.run_nested(SPLITS, tmp_path, ["nested"], settings)
    assert again[0].levels == runs[0].levels
    assert made == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/model/model.safetensors")}


def test_the_best_a_flat_model_can_do():
    assert nested.flat_ceiling(SPLITS.test) == pytest.approx(2 / 3)  # of two entities one, never wrongly
    assert nested.flat_ceiling([Example.of("Ulm", [(0, 1, "LOC")])]) == 1.0
