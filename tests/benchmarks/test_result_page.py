"""Pages say how they were made, and nothing about the folders of a machine; one module writes them all."""

from __future__ import annotations

import csv
import re
from pathlib import Path

from benchmarks.plots import Figure
from benchmarks.result_page import ResultPage, Table, command_line

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


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


def test_a_page_with_its_csvs_and_its_plot(tmp_path):
    first = Table([{"|V|": "a|b", "x": 1}], "First", "About it.")
    parts = ["A paragraph.", first, Table([{"y": 2}], "Second"), Figure()]
    page = ResultPage("table9_cpu", "Table 9: towns", parts, first.rows, {"more": [{"z": 3}]})
    lines = page.write(tmp_path / "results", "python …").read_text()
    assert lines.startswith("# Table 9: towns\n\nMade by `python …`.\n\n")
    assert (
        "A paragraph.\n\n## First\n\nAbout it.\n\n| \\|V\\| | x |\n| --- | --- |\n| a\\|b | 1 |\n\n## Second" in lines
    )
    assert lines.endswith("| 2 |\n\n![Table 9](table9_cpu.png)\n")
    with (tmp_path / "results" / "table9_cpu.csv").open() as file:
        assert list(csv.DictReader(file)) == [{"|V|": "a|b", "x": "1"}]
    with (tmp_path / "results" / "table9_cpu_more.csv").open() as file:
        assert list(csv.DictReader(file)) == [{"z": "3"}]
    assert (tmp_path / "results" / "table9_cpu.png").read_bytes().startswith(b"\x89PNG")


def test_the_machine_the_versions_the_date_and_the_commit_are_on_every_page(tmp_path):
    _, _, machine, made, *rest = ResultPage("a", "A", ["b"]).write(tmp_path, "c").read_text().strip().split("\n\n")
    assert re.fullmatch(r".+; Python 3\.\d+\.\d+; .*torch \S+, .*\.", machine)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d(, commit \w+(-dirty)?)?\.", made)
    assert rest == ["b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.md"]  # no plot, no CSV
    page = ResultPage("a", "A", [], machine="Trained on: an abacus").write(tmp_path, "c").read_text()
    assert "\n\nTrained on: an abacus.\n\n" in page


def test_there_is_one_writer_and_one_importer_of_matplotlib():
    sources = {path.name: path.read_text(encoding="utf-8") for path in BENCHMARKS.rglob("*.py")}
    assert [
        name for name, source in sources.items() if "import matplotlib" in source or "from matplotlib" in source
    ] == ["plots.py"]
    writers = [name for name, source in sources.items() if re.search(r"savefig|DictWriter|\.md\"", source)]
    assert writers == ["result_page.py"]


def test_a_file_name_occurs_once():
    names = [path.name for path in BENCHMARKS.rglob("*.py") if path.name != "__init__.py"]
    assert len(names) == len(set(names))
