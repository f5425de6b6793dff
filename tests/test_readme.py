"""The README's code runs, and its figures are those of the results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

README = (Path(__file__).parent.parent / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS)
def test_code_runs(block, capsys):
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out


def test_there_is_code():
    assert BLOCKS


def test_the_speeds_are_those_of_the_results():
    """Each ratio in the table stands in results/core_cpu.md for the same task, pair and number of labels."""
    results = (Path(__file__).parent.parent / "results" / "core_cpu.md").read_text()
    ratio = r"(\S+) \((\S+)\)"  # through the distributions, and by the kernels alone
    row = rf"^\| (mode|log Z and gradient): (.+?) against (.+?) \| {ratio} \| {ratio} \|$"
    rows = re.findall(row, README, flags=re.MULTILINE)
    assert len(rows) == 6
    for task, fast, slow, *ratios in rows:
        for num_labels, measured, alone in zip((5, 19), ratios[::2], ratios[1::2]):
            found = rf"\| {re.escape(measured)} \| (?:yes|NO) \| {re.escape(alone)} \|"
            line = rf"\| {task} \| {num_labels} \| {fast} \| {slow} \| [^|]+ {found}"
            assert re.search(line, results), (task, fast, slow, num_labels)


def test_every_link_to_a_file_leads_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    files = [link for link in links if "://" not in link]
    assert files
    assert [link for link in files if not (Path(__file__).parent.parent / link).exists()] == []
