"""The throughput figure: training batches per second of every head, at batches of 8."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.reproduce.pages import COLOURS, QUIET_COLOUR, Row, Table, tidy, write_page
from benchmarks.reproduce.plan import NAMES, Plan
from benchmarks.throughput import SOFTMAX, run_throughput

BATCH = 8  # as in the paper
ABOUT = (
    "Whole training steps at batches of 8: encoder, loss, gradient, clipping, optimizer, on batches that are on the "
    "device already. All contenders have a copy of the encoder and the same batches, and take turns; medians. The CRF "
    "has BIO tags here, as its rivals have. Beside our heads: a softmax over tokens, which decodes nothing, and "
    "pytorch-crf where it is installed. The paper's figure prints no numbers."
)


def throughput_rows(plan: Plan, rounds: int, steps: int) -> list[dict[str, object]]:
    config = plan.config("crf", plan.seeds[0])
    return run_throughput(
        config.model.encoder.name, plan.corpus.train, [BATCH], plan.device, rounds, steps, config=config
    )


def write_throughput(plan: Plan, rows: Sequence[dict[str, object]], out: Path, command: str) -> Path:
    named: list[Row] = [row | {"model": NAMES.get(str(row["model"]), row["model"])} for row in rows]
    tables = [Table("Training batches per second", named, ABOUT)]
    return write_page(plan, "throughput", "Training throughput", tables, draw(rows), out, command)


def draw(rows: Sequence[dict[str, object]]) -> Figure:
    figure = Figure(figsize=(7.6, 3.6), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        rate = float(str(row["steps/s"]))
        axes.bar(place, rate, width=0.6, color=COLOURS.get(str(row["model"]), QUIET_COLOUR))
        axes.annotate(f"{rate:.1f}", (place, rate), (0, 3), textcoords="offset points", ha="center")
    labels = [NAMES.get(str(row["model"]), str(row["model"])) for row in rows]
    axes.set_xticks(range(len(rows)), [_broken(label) for label in labels], fontsize=8)
    axes.set_ylabel("batches of 8 per second")
    tidy(axes)
    axes.grid(visible=False, axis="x")
    return figure


def _broken(label: str) -> str:
    """Into lines, to stand under a bar."""
    return label.replace(" + ", "\n+ ").replace(" w/o", "\nw/o").replace(SOFTMAX, SOFTMAX.replace(" ", "\n"))
