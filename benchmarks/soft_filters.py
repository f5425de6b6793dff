"""What a softer filter costs on the CPU, and what a budget bounds, where paths may skip.

The same call by both of its forms, the candidates listed or a sweep over every span, and as the library chooses between
them. They take turns.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from benchmarks.core_work import LOG_PARTITION, MODE, Work
from benchmarks.plots import QUIET_COLOUR, Figure, panels
from benchmarks.process_usage import least_times, peak_memory
from benchmarks.result_page import ResultPage, Table
from benchmarks.timings import Contender, one_thread
from spansieve.crf import FilteredSemiMarkov
from spansieve.crf.filtered_semi_markov import FilteredOnCpuDense
from spansieve.crf.kernels.cpu import dense_skip

LISTED, EVERY_SPAN, LIBRARY = "listed", "every span", "the library"
SIZES = ((32, 12), (128, 12), (32, 4))  # tokens and widths
WORKS = tuple(Work(labels, num_tokens=length, max_width=width) for length, width in SIZES for labels in (5, 19))
PER_SPAN = (0.02, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 2.0)  # candidates; beyond these, every label of every span
BUDGETS = (0.1, 0.3, 0.4, 0.5, 1.0)  # candidates a span, of all
BUDGET = 64  # candidates of a sentence, where it is asked what a budget bounds


@dataclass(frozen=True)
class SoftFilter:
    """A filter that may keep every label of a span, on the scores of a batch."""

    work: Work
    above_null: float  # labels of a span, in the mean
    budget: int | None = None

    @property
    def local_scores(self) -> Tensor:
        """Those of the work, with null moved so that this many labels stand above it, and none as high as it: rounding
        would decide."""
        scores = self.work.local_scores.clone()
        lead = (scores[..., 1:] - scores[..., :1])[:, self.work.is_span].flatten().sort(descending=True).values
        above = round(self.above_null * len(lead) / (self.work.num_labels - 1))
        scores[..., 0] += torch.cat((lead[:1] + 1.0, lead, lead[-1:] - 1.0))[above : above + 2].mean()
        return scores

    def on(self, local_scores: Tensor, global_scores: Tensor, transition: Tensor) -> FilteredSemiMarkov:
        return FilteredSemiMarkov.from_scores(
            local_scores,
            global_scores,
            transition,
            self.work.lengths,
            skip=True,
            labels_per_span=self.work.num_labels - 1,
            budget=self.budget,
        )

    def tasks(self) -> dict[str, Callable[[], object]]:
        """From scores to the answer."""
        local_scores, dense, transition = self.local_scores, self.work.global_scores, self.work.transition
        inputs = [tensor.clone().requires_grad_() for tensor in (dense, transition)]
        return {
            MODE: lambda: self.on(local_scores, dense, transition).mode,
            LOG_PARTITION: lambda: torch.autograd.grad(self.on(local_scores, *inputs).log_partition.sum(), inputs),
        }

    def distribution(self) -> FilteredSemiMarkov:
        return self.on(self.local_scores, self.work.global_scores, self.work.transition)


# ---- The two forms ---------------------------------------------------------------------------------------------------


def run_forms(
    seconds: float,
    works: Sequence[Work] = WORKS,
    per_span: Sequence[float] = PER_SPAN,
    budgets: Sequence[float] = BUDGETS,
) -> list[dict[str, object]]:
    """A row for each batch, number of candidates and task: as many labels above null, and then everything above null
    and a budget of as many. All of a batch take turns."""
    rows = []
    with one_thread():
        for work in works:
            num_spans, most = int(work.is_span.sum()), work.num_labels - 1
            filters = [(candidates, SoftFilter(work, candidates)) for candidates in (*per_span, most)]
            filters += [(per, SoftFilter(work, most, round(per * num_spans))) for per in budgets]
            forms = [forms_of(kept) for _, kept in filters]
            times = iter(least_times([contender for those in forms for contender in those], seconds))
            for (candidates, kept), those in zip(filters, forms):
                rows += _rows(kept, candidates, [(contender, next(times)) for contender in those])
    return rows


def forms_of(kept: SoftFilter) -> list[Contender]:
    forms = {LISTED: math.inf, EVERY_SPAN: 0.0, LIBRARY: dense_skip.DENSE_FROM}
    tasks = kept.tasks().items()
    return [Contender(task, name, _forced(run, at)) for task, run in tasks for name, at in forms.items()]


def _forced(run: Callable[[], object], dense_from: float) -> Callable[[], object]:
    def forced() -> object:
        before = dense_skip.DENSE_FROM
        dense_skip.DENSE_FROM = dense_from
        try:
            return run()
        finally:
            dense_skip.DENSE_FROM = before

    return forced


def _rows(kept: SoftFilter, candidates: float, timings: Sequence[tuple[Contender, float]]) -> list[dict[str, object]]:
    chosen = EVERY_SPAN if isinstance(kept.distribution(), FilteredOnCpuDense) else LISTED
    rows = []
    for task in (MODE, LOG_PARTITION):
        times = {contender.name: 1e6 * took for contender, took in timings if contender.task == task}
        cheaper = min(times[LISTED], times[EVERY_SPAN])
        row: dict[str, object] = _size(kept.work) | {"task": task}
        row |= {"budget": kept.budget or "", "candidates a span": f"{candidates:g}"}
        row |= {f"{name}, µs": round(time) for name, time in times.items()}
        rows.append(row | {"it takes": chosen, "times the cheaper": f"{times[LIBRARY] / cheaper:.2f}"})
    return rows


def _size(work: Work) -> dict[str, object]:
    return {"L": work.num_tokens, "K": work.max_width, "Y": work.num_labels}


def break_even(rows: Sequence[dict]) -> list[dict[str, object]]:
    """Of each batch and task the candidates a span from which the sweep over every span is cheaper, on a line between
    the logarithms of two measurements, and how far the library was from the cheaper form."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        key = (*(row[axis] for axis in "LKY"), row["task"], "yes" if row["budget"] else "no")
        groups.setdefault(key, []).append(row)
    found = []
    for key, those in groups.items():
        times = [float(row["times the cheaper"]) for row in those]
        summary: dict[str, object] = dict(zip(("L", "K", "Y", "task", "budget"), key))
        summary |= {"every span is cheaper from": _crossing(those)}
        summary |= {"the library, times the cheaper": f"{statistics.median(times):.2f}", "at most": f"{max(times):.2f}"}
        found.append(summary)
    return found


def _crossing(rows: Sequence[dict]) -> str:
    at = [math.log(float(row["candidates a span"])) for row in rows]
    gain = [math.log(row[f"{LISTED}, µs"] / row[f"{EVERY_SPAN}, µs"]) for row in rows]
    last = max((k for k in range(len(rows)) if gain[k] <= 0), default=-1)  # noise may cross more than once
    if last in (-1, len(rows) - 1):
        return f"before {math.exp(at[0]):g}" if last < 0 else "nowhere"
    part = -gain[last] / (gain[last + 1] - gain[last])
    return f"{math.exp(at[last] + part * (at[last + 1] - at[last])):.2f}"


# ---- What a budget bounds --------------------------------------------------------------------------------------------


def run_budget(
    seconds: float,
    works: Sequence[Work] = WORKS[2:4],
    above_null: Sequence[float] = (0.02, 0.2, 1.0),
    budget: int = BUDGET,
) -> list[dict[str, object]]:
    """A row for each batch and number of labels above null, without a budget and with one: the graph, the time of both
    tasks and the memory that log Z with its gradient takes on top."""
    rows = []
    with one_thread():
        for work in works:
            for above in (*above_null, float(work.num_labels - 1)):
                filters = {name: SoftFilter(work, above, limit) for name, limit in (("none", None), ("some", budget))}
                contenders = [
                    Contender(task, name, run) for name, kept in filters.items() for task, run in kept.tasks().items()
                ]
                timings = list(zip(contenders, least_times(contenders, seconds)))
                for name, kept in filters.items():
                    times = {contender.task: took for contender, took in timings if contender.name == name}
                    rows.append(_bounded_row(kept, times))
    return rows


def _bounded_row(kept: SoftFilter, times: dict[str, float]) -> dict[str, object]:
    candidates = kept.distribution().candidates
    row: dict[str, object] = _size(kept.work)
    row |= {"above null, a span": f"{kept.above_null:g}", "budget": kept.budget or ""}
    row |= {"candidates": round(len(candidates) / candidates.num_sentences)}
    row |= {"edges": round(float(candidates.num_edges.double().mean()))}
    row |= {f"{task}, µs": round(1e6 * time) for task, time in times.items()}
    run = kept.tasks()[LOG_PARTITION]
    before = peak_memory(reset=True)
    run()
    return row | {"MB on top": round((peak_memory() - before) / 1e6, 1)}


# ---- What is shown ---------------------------------------------------------------------------------------------------


STYLES: dict[str, dict[str, Any]] = {
    LIBRARY: {"color": "#fdba74", "linewidth": 6},
    LISTED: {"color": "#1d4ed8", "marker": "o"},
    EVERY_SPAN: {"color": "#475569", "marker": "s"},
}
ABOUT = (
    "Batch 32, L tokens, widths up to K, Y labels with null, float32, one thread, paths that may skip; a filter that "
    "may keep every label of a span. *Listed* and *every span* are the two forms of the same call, which take turns "
    "with the library, which takes every span from {dense_from:g} candidates a span. Without a budget that many labels "
    "stand above null; with one all do, and the budget is that many. Processor time, the least of all turns; filter "
    "and gradient are part of it."
)
ABOUT_BREAK_EVEN = (
    "In candidates a span. Beside it the time of the library over that of the cheaper form: the median of all "
    "measurements, and the most."
)
ABOUT_BUDGET = (
    f"The library's choice, with and without a budget of {BUDGET}. Candidates and edges are those of a sentence, times "
    "those of the batch; *MB on top* is what log Z with its gradient takes beside the scores."
)


def soft_filters_page(rows: Sequence[dict], bounded: Sequence[dict]) -> ResultPage:
    """`rows` are those of `run_forms`, `bounded` those of `run_budget`."""
    return ResultPage(
        "soft_filters_cpu",
        "Softer filters",
        [
            ABOUT.format(dense_from=dense_skip.DENSE_FROM),
            draw(rows),
            Table(break_even(rows), "Where the two break even, and what the choice is worth", ABOUT_BREAK_EVEN),
            Table(bounded, "What a budget bounds", ABOUT_BUDGET),
            Table(rows, "All measurements"),
        ],
        csv=rows,
    )


def draw(rows: Sequence[dict]) -> Figure:
    """Draw times over the candidates a span, for the first sizes: a panel for each number of labels and task, with and
    without a budget."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        if (row["L"], row["K"]) == (rows[0]["L"], rows[0]["K"]):
            groups.setdefault((row["Y"], bool(row["budget"]), row["task"]), []).append(row)
    num_rows = len({num_labels for num_labels, _, _ in groups})
    columns = len(groups) // num_rows
    figure, grid = panels(14, 3.1 * num_rows, num_rows, columns, sharex=True, sharey="row")
    for axes, ((num_labels, has_budget, task), here) in zip(grid, groups.items()):
        at = [float(row["candidates a span"]) for row in here]
        for name, style in STYLES.items():
            axes.plot(at, [row[f"{name}, µs"] for row in here], label=name, markersize=4, **style)
        axes.axvline(dense_skip.DENSE_FROM, color=QUIET_COLOUR, linestyle=":")
        axes.set(xscale="log", yscale="log", title=f"{task}, Y = {num_labels}{', budget' if has_budget else ''}")
        axes.title.set_fontsize(10)
    for axes in grid[-columns:]:
        axes.set_xlabel("candidates a span")
    for axes in grid[::columns]:
        axes.set_ylabel("µs a batch")
    grid[0].legend(frameon=False)
    return figure
