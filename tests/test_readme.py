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
    """README's table is that of the page, row by row, and the sentence before it says what its last rows say."""
    with (ROOT / "results" / "all_corpora.csv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    cells = [" | ".join(cell.replace(" ± ", " ±") for cell in list(row.values())[1:]) for row in rows]
    assert [cell for cell in cells if f" | {cell} |" not in README] == []
    mean = {name: float(cell.strip("*")) for name, cell in rows[-2].items() if name != "corpus"}
    ours, paper = mean.pop("FSemiCRF"), mean.pop("FSemiCRF, paper's recipe")
    claim = (
        f"FSemiCRF has {ours:.2f}, the best other head {max(mean.values()):.2f}, the CRF {mean['CRF']:.2f}, and "
        f"FSemiCRF by the paper's own recipe {paper:.2f}"
    )
    assert claim in " ".join(README.split())


# Where README links a figure to its page: the row of the page that has it, and how README says it.
FIGURES = {
    "core_gpu": (r"^\| loss and gradient \| 19 \| filtered \| <= 1 ms \| (\S+ ms) \|", "{}"),
    "bulk_cuda": (r"^\| end to end \| cuda, bf16 \| (\S+) \|", "{} words per second"),
    "throughput_conll2003_minilm_gpu": (r"^\| 8 \| FSemiCRF \| .+ \| (\S+) \|$", "{}"),
    "throughput_minilm_cuda": (r"^\| 8 \| fsemicrf \| .+ \| (\S+) \|$", "{}"),
    "tagging_cpu": (r"^\| spansieve \| tokens \| (\S+) \|", "{} words per second"),
}


@pytest.mark.parametrize("stem", FIGURES)
def test_other_figures_are_those_of_the_results(stem):
    row, words = FIGURES[stem]
    (figure,) = re.findall(row, (ROOT / "results" / f"{stem}.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert f"[{words.format(figure)}](results/{stem}.md)" in README


def test_every_figure_that_is_linked_is_looked_up():
    assert set(re.findall(r"\[\d[^\]]*\]\(results/(\w+)\.md\)", README)) == set(FIGURES)


def test_the_rate_of_training_beside_pytorch_crf_is_that_of_the_results():
    page = (ROOT / "results" / "throughput_conll2003_minilm_gpu.md").read_text(encoding="utf-8")
    rates = dict(re.findall(r"^\| 8 \| (.+?) \| ([\d.]+) \|", page, flags=re.MULTILINE))
    ratio = float(rates["FSemiCRF"]) / float(rates["pytorch-crf"])
    assert f"{ratio:.2f} times pytorch-crf's" in " ".join(README.split())


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
