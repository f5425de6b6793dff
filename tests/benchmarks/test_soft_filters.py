"""What softer filters cost, measured on work of no size: both forms are what they are called and answer alike."""

from __future__ import annotations

import csv
from functools import partial

import pytest
import torch

from benchmarks import soft_filters
from benchmarks.core_work import LOG_PARTITION, MODE, Work
from benchmarks.soft_filters import EVERY_SPAN, LIBRARY, LISTED, SoftFilter
from spansieve.crf.filtered_semi_markov import FilteredOnCpu, FilteredOnCpuDense
from spansieve.crf.kernels.cpu import dense_skip
from tests.benchmarks.terminal import terminal as terminal

SMALL = Work(4, num_sentences=3, num_tokens=8, max_width=3)
SPANS = 21


@pytest.mark.parametrize("above_null", [0.0, 0.1, 1.0, 3.0])
def test_as_many_labels_stand_above_null_as_were_asked_for(above_null):
    kept = SoftFilter(SMALL, above_null).distribution()
    assert len(kept.candidates) == round(above_null * SPANS * 3)


def test_a_budget_is_what_is_kept_of_everything():
    kept = SoftFilter(SMALL, 3.0, budget=5).distribution()
    assert kept.candidates.offsets.tolist() == [0, 5, 10, 15]


@pytest.mark.parametrize("budget", [None, 9])
def test_each_form_is_forced_and_answers_as_the_other_does(monkeypatch, budget):
    made: list[str] = []
    for kind, name in ((FilteredOnCpuDense, EVERY_SPAN), (FilteredOnCpu, LISTED)):
        _tell_when_made(monkeypatch, kind, name, made)
    before = dense_skip.DENSE_FROM
    answers = {}
    for contender in soft_filters.forms_of(SoftFilter(SMALL, 1.5, budget)):
        made.clear()
        answers[contender.task, contender.name] = contender.run()
        assert contender.name in (*made, LIBRARY)
    assert before == dense_skip.DENSE_FROM
    assert answers[MODE, LISTED] == answers[MODE, EVERY_SPAN] == answers[MODE, LIBRARY]
    torch.testing.assert_close(answers[LOG_PARTITION, LISTED], answers[LOG_PARTITION, EVERY_SPAN])


def _tell_when_made(monkeypatch, kind: type, name: str, made: list[str]) -> None:
    init = kind.__init__

    def told(self, *arguments):
        made.append(name)
        init(self, *arguments)

    monkeypatch.setattr(kind, "__init__", told)


def row(candidates: str, listed: float, every_span: float, times: str, budget: int | str = "") -> dict:
    measured = {f"{LISTED}, µs": listed, f"{EVERY_SPAN}, µs": every_span, "times the cheaper": times}
    return {"L": 32, "K": 12, "Y": 5, "task": MODE, "budget": budget, "candidates a span": candidates} | measured


def test_where_the_two_break_even():
    rows = [
        row("0.1", 50, 100, "1.00"),
        row("0.4", 200, 100, "1.30"),
        row("1", 800, 100, "1.10"),
        row("0.1", 50, 100, "1.00", budget=10),
        row("0.4", 80, 100, "1.02", budget=20),
    ]
    columns = ("budget", "every span is cheaper from", "the library, times the cheaper", "at most")
    found = [tuple(one[c] for c in columns) for one in soft_filters.break_even(rows)]
    assert found == [("no", "0.20", "1.10", "1.30"), ("yes", "nowhere", "1.01", "1.02")]
    assert soft_filters.break_even(rows[1:3])[0]["every span is cheaper from"] == "before 0.4"


def test_the_command_writes_tables_a_csv_and_a_picture(terminal, tmp_path, monkeypatch):
    run_forms = partial(soft_filters.run_forms, works=[SMALL], per_span=(0.1, 1.0), budgets=(0.1, 1.0))
    run_budget = partial(soft_filters.run_budget, works=[SMALL], above_null=(0.1,), budget=4)
    monkeypatch.setattr(soft_filters, "run_forms", run_forms)
    monkeypatch.setattr(soft_filters, "run_budget", run_budget)
    answer = terminal("soft-filters", "--seconds", "0.001", "--out", tmp_path)
    assert answer.code == 0, answer.err
    with (tmp_path / "soft_filters_cpu.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["budget"] for row in rows] == ["", "", "", "", "", "", "2", "2", "21", "21"]
    assert [row["it takes"] for row in rows[::2]] == [LISTED, EVERY_SPAN, EVERY_SPAN, LISTED, EVERY_SPAN]
    assert all(float(row[f"{name}, µs"]) > 0 for row in rows for name in (LISTED, EVERY_SPAN, LIBRARY))
    assert (tmp_path / "soft_filters_cpu.png").stat().st_size > 5_000
    page = (tmp_path / "soft_filters_cpu.md").read_text(encoding="utf-8")
    assert str(tmp_path) not in page
    assert "Made by `python -m benchmarks soft-filters --seconds 0.001`." in page
    bounded = [line.split(" | ") for line in page.splitlines() if line.startswith("| 8 | 3 | 4 | 3 |")]
    assert [line[4:6] for line in bounded] == [["", "63"], ["4", "4"]]
