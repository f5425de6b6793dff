"""The speed of laminar sets, on work of no size."""

from __future__ import annotations

from benchmarks import nested_speed


def test_side_by_side(monkeypatch):
    monkeypatch.setattr(nested_speed, "NUM_SENTENCES", 2)
    monkeypatch.setattr(nested_speed, "SIZES", ((6, 0.5), (6, 1.0)))
    rows = nested_speed.run_side_by_side(seconds=0.001)
    assert len(rows) == 2 * 7
    assert all(row["µs per sentence"] > 0 for row in rows)
    assert rows[-1]["candidates"] == 21


def test_growth_is_measured_for_both_nested_models():
    row = nested_speed.one_length(9)
    assert row["L"] == 9
    assert len(row) == 5
    assert all(value > 0 for value in row.values())
