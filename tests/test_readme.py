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


# The rows of the table of speeds: the page that a row links, and what finds each of its figures there, in their order.
# Of several that are found, the highest is meant.
SPEEDS = [
    (
        "core_cpu",
        r"\| mode \| 5 \| filtered \| ([\d.]+) \|",
        r"\| mode \| 5 \| pytorch-crf \| ([\d.]+) \|",
        r"\| mode \| 5 \| semi-Markov \| ([\d.]+) \|",
    ),
    (
        "core_gpu",
        r"\| loss and gradient \| 19 \| filtered \| ([\d.]+) \|",
        r"\| loss and gradient \| 19 \| pytorch-crf \| ([\d.]+) \|",
    ),
    (
        "prediction_cpu",
        r"\| spansieve, from text \| \S+ \| (\S+) \|",
        r"\| transformers pipeline, from text, batch \d+ \| \S+ \| (\S+) \|",
        r"\| transformers pipeline, from text, batch 1 \| \S+ \| (\S+) \|",
        r"\| SpanMarker, from tokens, batch \d+ \| \S+ \| (\S+) \|",
    ),
    ("tagging_cpu", r"\| spansieve, with probabilities \| tokens \| (\S+) \|", r"\| spaCy \| tokens \| (\S+) \|"),
    (
        "bulk_cuda",
        r"\| end to end \| cuda, bf16 \| (\S+) \|",
        r"\| Predictor.predict\w* \| cuda, fp32 \| (\S+) \|",
    ),
    ("prediction_cuda", r"\| 1 \| CUDA graphs \| (\S+) \|", r"\| 1 \| kernel by kernel \| (\S+) \|"),
    (
        "complexity_conll2003_minilm_gpu",
        r"\| 4096 \| \S+ \| \S+ \| (\S+) \|",
        r"\| 4096 \| \S+ \| (\S+) \|",
        r"\| 4096 \| (\S+) \|",
    ),
    (
        "training_cuda",
        r"\| 8 \| FSemiCRF, the preset's loss \| \S+ \| (\S+) \|",
        r"\| 8 \| token softmax \| \S+ \| (\S+) \|",
        r"\| 8 \| token softmax \| (\S+) \|",
    ),
]
SPEED_ROWS = re.findall(
    r"^\| \[[^]]+\]\(results/(\w+)\.md\)[^|]*\|[^|]+\|([^|]+\|[^|]+)\|$", README, flags=re.MULTILINE
)


def two_digits(figure: float) -> str:
    """Round to two significant digits: 77.7 is 78 and 499161 is 500,000."""
    return f"{round(float(f'{figure:.1e}')):,}" if figure >= 100 else f"{figure:.2g}"


def test_the_table_of_speeds_is_complete():
    table = README[README.index("## How fast") :].split("\n\n")[1]
    assert len(table.splitlines()) - 2 == len(SPEED_ROWS)
    assert [stem for stem, _ in SPEED_ROWS] == [stem for stem, *_ in SPEEDS]


@pytest.mark.parametrize("row", range(len(SPEEDS)), ids=[stem for stem, *_ in SPEEDS])
def test_every_speed_is_that_of_the_results(row):
    """Every figure among ours and the references', at the two digits that are shown."""
    stem, *patterns = SPEEDS[row]
    page = (ROOT / "results" / f"{stem}.md").read_text(encoding="utf-8")
    found = [re.findall(f"^{pattern}", page, flags=re.MULTILINE) for pattern in patterns]
    best = [max(float(figure.replace(",", "")) for figure in figures) for figures in found]
    assert re.findall(r"\d[\d,.]*\d|\d", SPEED_ROWS[row][1]) == list(map(two_digits, best))


def test_the_sizes_of_models_are_those_of_the_results():
    page = (ROOT / "results" / "onnx_cpu.md").read_text(encoding="utf-8")
    row = r"^\| (builtin|minilm) \| (torch|onnx) \| (fp32|int8) \| ([\d.]+) MB \|"
    sizes = {tuple(cells): f"{float(size):.0f}" for *cells, size in re.findall(row, page, flags=re.MULTILINE)}
    claim = (
        f"{sizes['builtin', 'torch', 'fp32']} MB with the built-in encoder, "
        f"{sizes['minilm', 'torch', 'fp32']} MB with MiniLM-L6; "
        f"as ONNX in int8 {sizes['builtin', 'onnx', 'int8']} and {sizes['minilm', 'onnx', 'int8']} MB"
    )
    assert claim in " ".join(README.split())


def test_the_requirements_are_those_of_the_project():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    python, torch, transformers = (
        re.findall(rf'"?{name}(?: = ")?>=([\d.]+)"', project)[0]
        for name in ("requires-python", "torch", "transformers")
    )
    assert f"Python {python}+, torch {torch}+, transformers {transformers}+" in README


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150


def test_every_link_to_a_file_leads_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    files = [link for link in links if "://" not in link]
    assert files
    assert [link for link in files if not (ROOT / link).exists()] == []
