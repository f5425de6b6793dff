"""The README's figures are those of the results, and its links lead somewhere. Its code is run with that of docs/."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_speeds_of_the_core_are_those_of_the_results():
    """Each ratio in the table stands in results/core_cpu.md for the same task, pair and number of labels."""
    page = (ROOT / "docs" / "core.md").read_text(encoding="utf-8")
    results = (ROOT / "results" / "core_cpu.md").read_text(encoding="utf-8")
    ratio = r"(\S+) \((\S+)\)"  # through the distributions, and by the kernels alone
    row = rf"^\| (mode|log Z and gradient): (.+?) against (.+?) \| {ratio} \| {ratio} \|$"
    rows = re.findall(row, page, flags=re.MULTILINE)
    assert len(rows) == 6
    for task, fast, slow, *ratios in rows:
        for num_labels, measured, alone in zip((5, 19), ratios[::2], ratios[1::2]):
            found = rf"\| {re.escape(measured)} \| (?:yes|NO) \| {re.escape(alone)} \|"
            line = rf"\| {task} \| {num_labels} \| {fast} \| {slow} \| [^|]+ {found}"
            assert re.search(line, results), (task, fast, slow, num_labels)
            is_quoted = (task, num_labels) == ("mode", 5) and slow in ("pytorch-crf", "semi-Markov")
            assert not is_quoted or f"{measured.strip('x')} times" in README.replace("\n", " ")


def test_the_scores_are_those_of_the_results():
    """Row by row: each mean and deviation stands in the page's table for its head."""
    heads = ("CRF", "Semi-CRF", "Semi-CRF + unit null", "FSemiCRF", "FSemiCRF w/o global loss")
    rows = re.findall(r"^\| \[.+?\]\((results/table1_\S+)\)[^|]*\|(.+)\|$", README, flags=re.MULTILINE)
    assert len(rows) == 3
    for path, cells in rows:
        page = (ROOT / path).read_text(encoding="utf-8")
        for head, cell in zip(heads, cells.split("|"), strict=True):
            (scores,) = re.findall(rf"^\| {re.escape(head)} \| .+ ± .+$", page, flags=re.MULTILINE)
            assert scores.split(" | ")[3] == cell.strip(), (path, head)


@pytest.mark.parametrize(
    ("stem", "figures"),
    [
        ("tagging_cpu", ["47,839"]),
        ("bulk_cuda", ["499,161"]),
        (
            "throughput_minilm_cuda",
            ["| fsemicrf | 67.5 | 540 | 14.83 | 0.937 |", "| fsemicrf | 79.9 | 2,558 | 12.51 | 0.937 |"],
        ),
        ("throughput_conll2003_minilm_gpu", ["| 37.1 |", "| 50.1 | 401 | 19.97 | 0.802 |"]),
        ("core_gpu", ["| filtered | <= 1 ms | 0.65 ms |", "| linear chain | <= 1 ms | 0.49 ms |", "83784.0"]),
    ],
)
def test_other_figures_are_those_of_the_results(stem, figures):
    results = (ROOT / "results" / f"{stem}.md").read_text(encoding="utf-8")
    assert [figure for figure in figures if figure not in results] == []


def test_the_ratios_of_prediction_are_those_of_the_results():
    with (ROOT / "results" / "prediction_cpu.csv").open(encoding="utf-8", newline="") as lines:
        seconds = {row["what"]: float(row["seconds"]) for row in csv.DictReader(lines)}

    def best(rival: str) -> float:
        return min(value for what, value in seconds.items() if what.startswith(rival))

    text, encoder = seconds["spansieve, from text"], seconds["encoder alone, same batches"]
    told = " ".join(README.split())
    for claim in (
        f"{seconds['spansieve, from tokens'] / encoder:.2f} times the time of the bare encoder",
        f"{best('transformers pipeline') / text:.1f} times the sentences per second of the transformers pipeline",
        f"{seconds['transformers pipeline, from text, batch 1'] / text:.1f} times at its default",
        f"{best('SpanMarker') / text:.0f} times SpanMarker's",
    ):
        assert claim in told


def test_every_link_to_a_file_leads_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    files = [link for link in links if "://" not in link]
    assert files
    assert [link for link in files if not (ROOT / link).exists()] == []
