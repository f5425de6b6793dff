"""Pages say how they were made, and nothing about where."""

from __future__ import annotations

import csv

import pytest
from matplotlib.figure import Figure

from benchmarks.reproduce.pages import Table, command_line, write_page


def test_the_command_is_told_without_the_machines_folders(tmp_path):
    folder = tmp_path / "conll2003"
    folder.mkdir()
    typed = ["table1", "--data", str(folder), "--out=results/here", "--runs", "runs/there", "--jobs", "4"]
    typed += ["--encoder", "someone/encoder", f"--set=model.encoder.name={folder}", "--seeds", "0, 1"]
    said = command_line(typed)
    assert said == (
        "python -m benchmarks table1 --data conll2003 --jobs 4 --encoder someone/encoder "
        "--set=model.encoder.name=conll2003 --seeds '0, 1'"
    )


def test_a_page_with_its_csv_its_plot_and_its_points(plan, tmp_path):
    tables = [Table("First", [{"|V|": "a|b", "x": 1}], "About it."), Table("Second", [{"y": 2}])]
    page = write_page(plan, "table9", "Table 9", tables, Figure(), tmp_path, "spansieve …", {"more": [{"z": 3}]})
    said = page.read_text()
    assert said.startswith("# Table 9: towns, builtin encoder, on the CPU\n\nMade by `spansieve …`.")
    assert "## First\n\nAbout it.\n\n| \\|V\\| | x |\n| --- | --- |\n| a\\|b | 1 |\n\n## Second" in said
    assert said.endswith("![Table 9](table9_towns_builtin_cpu.png)\n")
    with (tmp_path / "table9_towns_builtin_cpu.csv").open() as file:
        assert list(csv.DictReader(file)) == [{"|V|": "a|b", "x": "1"}]
    with (tmp_path / "table9_towns_builtin_cpu_more.csv").open() as file:
        assert list(csv.DictReader(file)) == [{"z": "3"}]
    assert (tmp_path / "table9_towns_builtin_cpu.png").exists()


@pytest.mark.parametrize("command", ["table1", "table2", "complexity", "graph-size", "throughput"])
def test_every_command_explains_its_options(terminal, command):
    answer = terminal(command, "--help")
    assert answer.code == 0
    for option in ("--data", "--encoder", "--seeds", "--set-head", "--runs", "--out"):
        assert option in answer.out
    assert "Example: python -m benchmarks" in answer.out
