"""How fast the core is: our three models and the peers on the same work, in one process, taking turns.

Like is compared with like. Our own linear chain and semi-Markov model are compiled with the same care as the filtered
model, which has to win by doing less work. The filter is always part of the filtered model's time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmarks.core_kernels import SUFFIX, kernels_on
from benchmarks.core_work import LOG_PARTITION, LOSS, MODE, Work
from benchmarks.peers import peers_on
from benchmarks.plots import OURS_COLOUR, QUIET_COLOUR, Figure, no_minor_labels, panels
from benchmarks.result_page import ResultPage, Table
from benchmarks.timings import Contender, Timing, one_thread, timed_side_by_side
from spansieve.crf import Distribution, FilteredSemiMarkov, Gold, LinearChain, SemiMarkov

CAPTURED = f"{LOSS}, as a CUDA graph"
WOKEN = f"{LOSS}, autograd on its own thread"  # torch's default, which must wake that thread up for each call
FILTERED, LINEAR_CHAIN, SEMI_MARKOV = "filtered", "linear chain", "semi-Markov"


@dataclass(frozen=True)
class Target:
    """`fast` must take at most 1/ratio of the time of `slow`."""

    task: str
    fast: str
    slow: str
    ratios: dict[int, float]  # by number of labels


TARGETS = (
    Target(MODE, FILTERED, "pytorch-crf", {5: 50, 19: 40}),
    Target(MODE, FILTERED, "torch-struct", {5: 5_000, 19: 50_000}),
    Target(MODE, FILTERED, LINEAR_CHAIN, {5: 1, 19: 3}),
    Target(MODE, FILTERED, SEMI_MARKOV, {5: 1.3, 19: 2.5}),
    Target(LOG_PARTITION, FILTERED, SEMI_MARKOV, {5: 3, 19: 5}),
    Target(LOG_PARTITION, LINEAR_CHAIN, "pytorch-crf", {5: 10, 19: 10}),
)
# Microseconds for the loss with its gradient on an H200: batch 32, L = 128, K = 12, Y = 19.
GPU_LIMITS = {FILTERED: 1_000, SEMI_MARKOV: 1_500, LINEAR_CHAIN: 1_000}


def ours_on(work: Work, tasks: Sequence[str]) -> list[Contender]:
    """Our three models on the work. From scores to the answer: building the distribution is part of the time."""
    dense, tags = work.global_scores.clone().requires_grad_(), work.tag_scores.clone().requires_grad_()
    transition, tag_transition = (t.clone().requires_grad_() for t in (work.transition, work.tag_transition))

    def filtered(scores: Tensor, transition: Tensor, gold=None) -> Distribution:
        return FilteredSemiMarkov.from_scores(work.local_scores, scores, transition, work.lengths, gold)

    def semi_markov(scores: Tensor, transition: Tensor, gold=None) -> Distribution:
        return SemiMarkov(scores, transition, work.lengths)

    def linear_chain(scores: Tensor, transition: Tensor, gold=None) -> Distribution:
        return LinearChain(scores, transition, work.lengths)

    def gold_for(segments) -> Gold:
        return Gold.from_segments(segments, dense.shape, None, work.device)

    made = []
    for name, make, inputs, gold in (
        (FILTERED, filtered, (dense, transition), gold_for(work.gold)),
        (SEMI_MARKOV, semi_markov, (dense, transition), gold_for(work.gold_cover)),
        (LINEAR_CHAIN, linear_chain, (tags, tag_transition), Gold.from_tags(work.gold_tags, tags.shape, work.device)),
    ):
        runs = {MODE: _mode(make, inputs), LOG_PARTITION: _sums(make, inputs), LOSS: _loss(make, inputs, gold)}
        note = f"{work.kept:.0%} of the spans kept" if name == FILTERED else "BIO tags" if name == LINEAR_CHAIN else ""
        made += [Contender(task, name, runs[task], note) for task in tasks]
    return made


def _mode(make: Callable, inputs: Sequence[Tensor]) -> Callable[[], object]:
    detached = [tensor.detach() for tensor in inputs]
    return lambda: make(*detached).mode


def _sums(make: Callable, inputs: Sequence[Tensor]) -> Callable[[], object]:
    return lambda: torch.autograd.grad(make(*inputs).log_partition.sum(), inputs)


def _loss(make: Callable, inputs: Sequence[Tensor], gold: Gold) -> Callable[[], object]:
    return lambda: torch.autograd.grad(-make(*inputs, gold).log_prob(gold).sum(), inputs)


def run_on_cpu(seconds_each: float = 2.0, labels: Sequence[int] = (5, 19), with_peers: bool = True) -> list[dict]:
    """One thread, batch 32, L = 32, K = 12: a row for each contender and number of labels."""
    rows = []
    with one_thread():
        for num_labels in labels:
            work = Work(num_labels)
            contenders = ours_on(work, (MODE, LOG_PARTITION)) + kernels_on(work, (MODE, LOG_PARTITION))
            contenders += peers_on(work, (MODE, LOG_PARTITION)) if with_peers else []
            rows += _rows(work, timed_side_by_side(contenders, seconds_each))
    return rows


def run_on_gpu(seconds_each: float = 2.0, num_labels: int = 19, with_peers: bool = True) -> list[dict]:
    """Batch 32, L = 128, K = 12: milliseconds, host included, each call waited for."""
    work = Work(num_labels, num_tokens=128, device="cuda")
    contenders = ours_on(work, (LOSS, LOG_PARTITION, MODE))
    contenders += peers_on(work, (LOSS, LOG_PARTITION, MODE), most_elements=1 << 31) if with_peers else []
    contenders = [c for c in contenders if c.name != "torch-struct"]  # tens of gigabytes a sentence at this length
    ours = [c for c in contenders if c.name in GPU_LIMITS and c.task == LOSS]
    contenders = [_on_this_thread(c) for c in contenders]
    contenders += [replace(c, task=WOKEN) for c in ours] + [_captured(c) for c in ours]
    return _rows(work, timed_side_by_side(contenders, seconds_each, "cuda"))


def _on_this_thread(contender: Contender) -> Contender:
    """With the backward pass on the calling thread, as our training loop runs it."""

    def run() -> object:
        with torch.autograd.set_multithreading_enabled(False):
            return contender.run()

    return replace(contender, run=run)


def _captured(contender: Contender) -> Contender:
    """The same as a CUDA graph: possible since nothing waits for the device, and what is left without the host."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            contender.run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        contender.run()
    return replace(contender, task=CAPTURED, run=graph.replay)


def _rows(work: Work, timings: Sequence[Timing]) -> list[dict]:
    ours = {t.contender.task: t.seconds for t in timings if t.contender.name == FILTERED}
    return [
        {
            "task": t.contender.task,
            "Y": work.num_labels,
            "model": t.contender.name,
            "microseconds": round(t.seconds * 1e6, 1),
            "times the filtered model": round(t.seconds / ours[t.contender.task], 2),
            "note": t.contender.note,
        }
        for t in sorted(timings, key=lambda t: (t.contender.task, t.seconds))
    ]


def target_rows(rows: Sequence[dict]) -> list[dict]:
    """Each target with what was measured, through the distributions and by the kernels alone.

    A peer that is not installed has no row.
    """
    times = {(row["task"], row["Y"], row["model"]): row["microseconds"] for row in rows}
    found = []
    for target in TARGETS:
        for num_labels, ratio in target.ratios.items():
            key = (target.task, num_labels)
            measured = _ratio(times, key, target.fast, target.slow)
            slow_kernel = target.slow + SUFFIX if (*key, target.slow + SUFFIX) in times else target.slow
            alone = _ratio(times, key, target.fast + SUFFIX, slow_kernel)
            if measured is not None:
                found.append(
                    {
                        "task": target.task,
                        "Y": num_labels,
                        "faster": target.fast,
                        "slower": target.slow,
                        "target": f">= {ratio:,g}x",
                        "measured": _times(measured),
                        "holds": "yes" if measured >= ratio else "NO",
                        "kernels alone": "" if alone is None else _times(alone),
                    }
                )
    return found


def _ratio(times: dict, key: tuple[str, int], fast: str, slow: str) -> float | None:
    if (*key, fast) not in times or (*key, slow) not in times:
        return None
    return times[(*key, slow)] / times[(*key, fast)]


def _times(ratio: float) -> str:
    return f"{ratio:,.2f}x" if ratio < 100 else f"{ratio:,.0f}x"


def limit_rows(rows: Sequence[dict]) -> list[dict]:
    """The limits on a GPU with what was measured."""
    return [
        {
            "task": row["task"],
            "Y": row["Y"],
            "model": row["model"],
            "limit": f"<= {GPU_LIMITS[row['model']] / 1000:g} ms",
            "measured": f"{row['microseconds'] / 1000:.2f} ms",
            "holds": "yes" if row["microseconds"] <= GPU_LIMITS[row["model"]] else "NO",
        }
        for row in rows
        if row["task"] in (LOSS, WOKEN) and row["model"] in GPU_LIMITS
    ]


def core_page(rows: Sequence[dict], device: str) -> ResultPage:
    if device == "cuda":
        stem, title, targets = "core_gpu", "Core on a GPU: batch 32, L = 128, K = 12", limit_rows(rows)
    else:
        stem, title, targets = "core_cpu", "Core on one CPU thread: batch 32, L = 32, K = 12", target_rows(rows)
    tables = [Table(some) for some in (targets, rows) if some]
    return ResultPage(stem, title, [draw(rows), *tables], csv=rows, device=device)


def draw(rows: Sequence[dict]) -> Figure:
    """Draw times on a logarithmic axis, a panel for each task."""
    tasks = sorted({row["task"] for row in rows})
    figure, grid = panels(5.5 * len(tasks), 1.0 + 0.28 * len(rows) / len(tasks), columns=len(tasks))
    for axes, task in zip(grid, tasks):
        here = sorted((r for r in rows if r["task"] == task), key=lambda r: (-r["Y"], -r["microseconds"]))
        names = [f"{row['model']}, Y = {row['Y']}" for row in here]
        colours = [OURS_COLOUR if row["model"].startswith(FILTERED) else QUIET_COLOUR for row in here]
        bars = axes.barh(names, [row["microseconds"] for row in here], color=colours)
        axes.bar_label(bars, [_readable(row["microseconds"]) for row in here], padding=3, fontsize=8)
        axes.set(xscale="log", xlabel="microseconds per batch", title=task)
        no_minor_labels(axes)
        axes.margins(x=0.25)
    return figure


def _readable(microseconds: float) -> str:
    for size, unit in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= size:
            return f"{microseconds / size:.3g} {unit}"
    return f"{microseconds:.3g} µs"
