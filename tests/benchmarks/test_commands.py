"""`python -m benchmarks`: help, errors, and a page."""

from __future__ import annotations

import csv
import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from benchmarks.cli import COMMANDS, app
from tests.benchmarks.terminal import terminal as terminal
from tests.docs.pages import ROOT

NAMES = [command.__name__.replace("_", "-") for commands in COMMANDS.values() for command in commands]


def test_the_module_runs_as_a_program_that_lists_every_command_soon():
    """Nothing large is loaded for it."""
    program = (
        "import runpy, sys\n"
        "sys.argv = ['benchmarks', '--help']\n"
        "try:\n"
        "    runpy.run_module('benchmarks', run_name='__main__', alter_sys=False)\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "large = {'torch', 'transformers', 'accelerate', 'numba', 'matplotlib', 'spacy'} & set(sys.modules)\n"
        "assert not large, large\n"
    )
    command = [sys.executable, "-c", program]
    found = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"COLUMNS": "80"}, capture_output=True, text=True, check=True
    )
    assert "Usage: python -m benchmarks" in found.stdout
    assert len(NAMES) == 28
    assert [name for name in NAMES if f" {name} " not in found.stdout] == []


@pytest.mark.parametrize("name", NAMES)
def test_every_command_has_help(terminal, name):
    answer = terminal(name, "--help")
    assert answer.code == 0
    assert f"Usage: python -m benchmarks {name}" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80


def test_an_error_is_told_in_one_line(terminal):
    assert terminal.refused("table1", "--seeds", "many").startswith("error: --seeds must be how many")
    with pytest.raises(ValueError, match="--seeds must be how many"):
        terminal("table1", "--seeds", "many", "--debug")


def test_benchmark_writes_table_plot_and_csv(terminal, tmp_path):
    answer = terminal("core", "--out", tmp_path, "--seconds", "0.01", "--no-peers", "--no-growth")
    assert answer.code == 0, answer.err
    with (tmp_path / "core_cpu.csv").open() as file:
        rows = list(csv.DictReader(file))
    models = {"filtered", "linear chain", "semi-Markov"}
    assert {row["model"] for row in rows} == models | {f"{model} kernel" for model in models}
    assert all(float(row["microseconds"]) > 0 for row in rows)
    page = (tmp_path / "core_cpu.md").read_text()
    assert "Made by `python -m benchmarks core --seconds 0.01 --no-peers --no-growth`." in page
    assert (tmp_path / "core_cpu.png").stat().st_size > 1000


def test_an_unknown_device_is_told():
    result = CliRunner().invoke(app, ["core", "--device", "abacus"])
    assert result.exit_code == 2
    assert "device must be cpu or cuda" in result.output
