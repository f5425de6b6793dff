"""How time and memory grow with the length of a sentence when nothing is filtered: every span of width <= K is kept.

The paper's bound there is cubic. Each length runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from collections.abc import Sequence

import torch

from benchmarks.plots import OTHER_COLOUR, OURS_COLOUR, QUIET_COLOUR, Figure, panels
from benchmarks.process_usage import peak_memory
from benchmarks.result_page import ResultPage, Table
from benchmarks.timings import seconds_of
from spansieve.crf import FilteredSemiMarkov

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
MAX_WIDTH = 12
NUM_LABELS = 5
NUM_SENTENCES = 32
ROUNDS = 7


def run_growth() -> list[dict]:
    """A row for each length: seconds for the best path and for log Z with its gradient, and megabytes on top."""
    return rows_by_length("benchmarks.growth", LENGTHS)


def rows_by_length(module: str, lengths: Sequence[int]) -> list[dict]:
    """What the module prints as JSON for each length, run in a process of its own."""
    commands = [[sys.executable, "-m", module, str(length)] for length in lengths]
    return [json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout) for command in commands]


def slopes(rows: Sequence[dict]) -> dict[str, float]:
    """The exponent of growth, by least squares on logarithms: 1 is linear."""
    lengths = [math.log(row["L"]) for row in rows]
    return {
        name: round(statistics.linear_regression(lengths, [math.log(row[name]) for row in rows]).slope, 3)
        for name in rows[0]
        if name != "L"
    }


def one_length(length: int) -> dict:
    torch.set_num_threads(1)
    work = _everything_kept(16)
    _best_path(*work), _log_partition(*work)  # compiles, or loads what was compiled
    work = _everything_kept(length)
    before = peak_memory(reset=True)
    best, sums = [], []
    for _ in range(ROUNDS):
        best.append(seconds_of(lambda: _best_path(*work)))
        sums.append(seconds_of(lambda: _log_partition(*work)))
    megabytes = (peak_memory() - before) / 1e6
    return {
        "L": length,
        "mode, s": min(best),
        "log Z and gradient, s": min(sums),
        "peak memory, MB": round(megabytes, 2),
    }


def _everything_kept(length: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    local_scores, global_scores = torch.randn(2, NUM_SENTENCES, length, MAX_WIDTH, NUM_LABELS, generator=generator)
    local_scores[..., 0] = -100.0
    transition = torch.randn(NUM_LABELS, NUM_LABELS, generator=generator)
    return local_scores, global_scores.requires_grad_(), transition, torch.full((NUM_SENTENCES,), length)


def _best_path(local_scores, global_scores, transition, lengths):
    return FilteredSemiMarkov.from_scores(local_scores, global_scores.detach(), transition, lengths).mode


def _log_partition(local_scores, global_scores, transition, lengths):
    distribution = FilteredSemiMarkov.from_scores(local_scores, global_scores, transition, lengths)
    return torch.autograd.grad(distribution.log_partition.sum(), global_scores)


def growth_page(rows: Sequence[dict]) -> ResultPage:
    exponents = ", ".join(f"{name.split(',')[0]} {slope}" for name, slope in slopes(rows).items())
    return ResultPage(
        "core_growth",
        "Growth with every span kept",
        [
            f"Batch {NUM_SENTENCES}, K = {MAX_WIDTH}, Y = {NUM_LABELS}, one thread; the best of seven runs, each "
            "length in a process of its own.",
            f"Log-log slopes: {exponents}.",
            draw(rows),
            Table(rows),
        ],
        csv=rows,
    )


def draw(rows: Sequence[dict]) -> Figure:
    """Draw seconds against length, with a cubic line for comparison."""
    figure, (axes,) = panels(6, 4.2)
    lengths = [row["L"] for row in rows]
    exponents = slopes(rows)
    for name, colour in (("mode, s", OURS_COLOUR), ("log Z and gradient, s", OTHER_COLOUR)):
        label = f"{name.removesuffix(', s')}: slope {exponents[name]:.2f}"
        axes.plot(lengths, [row[name] for row in rows], "o-", color=colour, label=label)
    first = rows[0]["mode, s"]
    axes.plot(lengths, [first * (n / lengths[0]) ** 3 for n in lengths], ":", color=QUIET_COLOUR, label="cubic")
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="seconds", title=f"Every span kept, K = {MAX_WIDTH}")
    axes.set_ylim(top=10 * max(row["log Z and gradient, s"] for row in rows))
    axes.legend(frameon=False)
    return figure


if __name__ == "__main__":
    sys.stdout.write(json.dumps(one_length(int(sys.argv[1]))))
