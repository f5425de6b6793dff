"""Graph sizes are those of the graphs, the line is the best one, and times come for every length."""

from __future__ import annotations

import csv
import math

import pytest
import torch

from benchmarks.reproduce.complexity import GraphSize, Line, decoding_times, fitted_slopes, graph_sizes
from tests.benchmarks.reproduce.conftest import SETTINGS
from tests.prediction.test_error_analysis import SENTENCES, tagger
from tests.training import runs


def test_the_command(terminal, towns, tmp_path):
    common = ["--data", towns, "--runs", tmp_path / "runs", "--out", tmp_path / "out", "--device", "cpu", *SETTINGS]
    answer = terminal("complexity", *common, "--longest", "200", "--seconds", "0.001")
    assert answer.code == 0, answer.err
    page = (tmp_path / "out" / "complexity_towns_builtin_cpu.md").read_text()
    assert "% of the graphs are smaller than their sentence is long" in page
    assert "| slope |" in page
    with (tmp_path / "out" / "complexity_towns_builtin_cpu_graphs.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 9
    assert (tmp_path / "out" / "complexity_towns_builtin_cpu.png").exists()


def test_sizes_are_counted_edge_by_edge():
    model = tagger("fsemicrf")
    examples = [runs.Example.of(text) for text in SENTENCES]
    expected = []
    for example in examples:
        with torch.inference_mode():
            candidates = model.distribution(model.batch([example.tokens])).candidates
        inner = [edge for edge in candidates.edges(0) if None not in edge]
        expected.append(GraphSize(len(example), len(candidates), len(inner)))
    assert graph_sizes(model, [*examples, runs.Example.of("")]) == sorted(expected)
    assert sum(one.edges for one in expected) > 0


def test_a_line_goes_through_its_points():
    line = Line.through([GraphSize(n, n // 2, n // 2 - 3) for n in (10, 20, 30)])
    assert line.slope == pytest.approx(1.0)
    assert line.intercept == pytest.approx(-3.0)
    assert line.share_below == 1.0
    assert math.isnan(Line.through([GraphSize(5, 9, 0)]).slope)


def test_every_head_is_timed_at_every_length():
    heads = ("crf", "semicrf", "fsemicrf")
    examples = [runs.Example.of(text) for text in SENTENCES]
    rows = decoding_times({head: tagger(head) for head in heads}, examples, [10, 40], 0.001, "cpu")
    assert [row["L"] for row in rows] == [10, 40]
    assert all(row[head] > 0 for row in rows for head in heads)


def test_slopes_are_fitted_where_it_is_long():
    times = [{"L": n, "crf": 5.0 if n < 1_024 else n / 200} for n in (100, 1_024, 2_048, 10_000)]
    growth, lengths = fitted_slopes(times)
    assert growth["crf"] == pytest.approx(1.0)
    assert lengths == [1_024, 2_048, 10_000]
