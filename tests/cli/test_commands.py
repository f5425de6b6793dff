"""The commands as a person types them."""

from __future__ import annotations

import csv
import subprocess
import sys

from typer.testing import CliRunner

from spansieve.cli import app


def test_demo_shows_candidates_graph_and_best_path():
    result = CliRunner().invoke(app, ["demo"])
    assert result.exit_code == 0
    assert "Alain Farley works at McGill University" in result.output
    assert "McGill LOC → University ORG" in result.output
    assert "Best path: Alain Farley PER → McGill University ORG" in result.output


def test_benchmark_writes_table_plot_and_csv(tmp_path):
    arguments = ["benchmark", "core", "--out", str(tmp_path), "--seconds", "0.01", "--no-peers", "--no-growth"]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    with (tmp_path / "core_cpu.csv").open() as file:
        rows = list(csv.DictReader(file))
    models = {"filtered", "linear chain", "semi-Markov"}
    assert {row["model"] for row in rows} == models | {f"{model} kernel" for model in models}
    assert all(float(row["microseconds"]) > 0 for row in rows)
    assert "Made by `spansieve benchmark core --device cpu`." in (tmp_path / "core_cpu.md").read_text()
    assert (tmp_path / "core_cpu.png").stat().st_size > 1000


def test_an_unknown_device_is_told():
    result = CliRunner().invoke(app, ["benchmark", "core", "--device", "abacus"])
    assert result.exit_code == 2
    assert "device must be cpu or cuda" in result.output


def test_the_module_runs_as_a_program():
    found = subprocess.run([sys.executable, "-m", "spansieve", "--help"], capture_output=True, text=True, check=True)
    assert "demo" in found.stdout
