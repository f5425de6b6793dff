"""Plots are drawn, of little and of nothing too."""

from __future__ import annotations

import re
import sys

import pytest

from spansieve.evaluation import calibrate
from spansieve.evaluation.plots import draw_curves, draw_reliability

GRAPH = {"nodes": 3.0, "edges": 2.0, "filter_recall": 0.9}


def entry(epoch: int, loss: float, graph: dict) -> dict:
    return {"epoch": epoch, "loss": loss, "dev": {"precision": 0.9, "recall": 0.5, "f1": 0.64}, "graph": graph}


@pytest.mark.parametrize(
    "history",
    [
        [entry(1, 3.0, GRAPH), entry(2, 1.0, GRAPH)],
        [entry(1, 3.0, {})],
        [entry(1, 3.0, {}), entry(2, 0.0, {})],  # a logarithm would have nothing to show
    ],
)
def test_curves_are_drawn(history, tmp_path):
    draw_curves(history, tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_a_diagram_is_drawn(tmp_path):
    for name, given_ in (("some", ([0.95, 0.9, 0.55, 0.3], [True, True, False, False])), ("none", ([], []))):
        draw_reliability(calibrate(*given_), tmp_path / name, title=name)
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_what_is_missing_is_asked_for_by_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    wanted = re.escape("to draw a plot matplotlib must be installed: pip install 'spansieve[plots]'")
    for draw, given_ in ((draw_curves, [entry(1, 3.0, GRAPH)]), (draw_reliability, calibrate([0.9], [True]))):
        with pytest.raises(ImportError, match=wanted):
            draw(given_, tmp_path / "plot.png")
    assert not list(tmp_path.iterdir())
