"""The throughput figure: training batches per second of every head, at batches of 8."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.plots import COLOURS, QUIET_COLOUR, Figure, bar_names, panels
from benchmarks.reproduce.plan import NAMES, Plan
from benchmarks.result_page import ResultPage, Row, Table
from benchmarks.training_speed import run_throughput

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


def throughput_page(plan: Plan, rows: Sequence[dict[str, object]]) -> ResultPage:
    named: list[Row] = [row | {"model": NAMES.get(str(row["model"]), row["model"])} for row in rows]
    tables = [Table(named, "Training batches per second", ABOUT)]
    return plan.page("throughput", "Training throughput", tables, draw(named))


def draw(rows: Sequence[Row]) -> Figure:
    """Draw batches per second as bars."""
    heads = {name: head for head, name in NAMES.items()}
    figure, (axes,) = panels(7.6, 3.6)
    for place, row in enumerate(rows):
        rate = float(str(row["steps/s"]))
        axes.bar(place, rate, width=0.6, color=COLOURS.get(heads.get(str(row["model"]), ""), QUIET_COLOUR))
        axes.annotate(f"{rate:.1f}", (place, rate), (0, 3), textcoords="offset points", ha="center")
    bar_names(axes, [str(row["model"]) for row in rows])
    axes.set_ylabel(f"batches of {BATCH} per second")
    return figure
