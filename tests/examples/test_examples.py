"""The examples run as they are, with little to do."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

from tests.single_thread import one_thread as one_thread

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def run(monkeypatch, capsys, one_thread):
    def run(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [name, *map(str, arguments)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def figures(out: str) -> list[float]:
    return [float(figure) for figure in re.findall(r"F1 ([\d.]+)", out)]


def test_every_example_is_tested():
    here = Path(__file__).read_text(encoding="utf-8")
    assert [path.name for path in EXAMPLES.glob("*.py") if f'run("{path.name}"' not in here] == []


def test_segment_a_signal(run, tmp_path):
    picture = tmp_path / "signal.png"
    out = run("segment_a_signal.py", "--output", picture, "--steps", 100)
    semi_markov, filtered = figures(out)
    assert semi_markov > 70
    assert filtered > 40
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size > 10_000


def test_active_learning(run):
    out = run("active_learning.py", "--rounds", 2, "--step", 30, "--pool", 200, "--epochs", 2)
    assert re.findall(r"round (\d): (\d+) sentences", out) == [("1", "30"), ("2", "60")]
    assert len(figures(out)) == 2
