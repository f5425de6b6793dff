"""The load on the service, in small: a real service, three clients, a second."""

from __future__ import annotations

import csv

import pytest

from benchmarks import service_load
from spansieve.models.storage import save_model
from tests.benchmarks.terminal import terminal as terminal
from tests.serving.tiny import trained


@pytest.mark.slow
def test_the_benchmark_writes_what_it_saw(terminal, tmp_path, monkeypatch):
    save_model(trained().tagger, tmp_path / "model")
    monkeypatch.setattr(service_load, "WARM_UP", 20)
    options = ["--clients", "3", "--seconds", "1", "--requests", "60", "--threads", "1", "--out", tmp_path]
    answer = terminal("service", tmp_path / "model", *options)
    assert answer.code == 0, answer.err
    with (tmp_path / "service_cpu.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert row["answers"].startswith("200: ")
    assert int(row["requests in all"].replace(",", "")) >= 60
    assert float(row["p50 ms"]) <= float(row["p99 ms"]) <= float(row["max ms"])
    typed = "model --clients 3 --seconds 1 --requests 60 --threads 1"
    assert f"Made by `python -m benchmarks service {typed}`." in (tmp_path / "service_cpu.md").read_text()
    assert (tmp_path / "service_cpu.png").stat().st_size > 1000


def test_waits_and_growth():
    load = service_load.Load(2, waits=[0.1, 0.2, 0.3, 0.4], memory=[(0, 100.0), (10, 104.0), (20, 103.0)])
    assert (load.wait(0.0), load.wait(0.5), load.wait(0.99)) == (0.1, 0.3, 0.4)
    assert abs(load.growth - 0.04) < 1e-9
