"""The complexity figure: how a trained model's graphs, and the time for decoding, grow with the sentence."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import chain, cycle, islice
from typing import NamedTuple

from benchmarks.growth import slopes
from benchmarks.plots import COLOURS, OURS_COLOUR, QUIET_COLOUR, Axes, Figure, panels
from benchmarks.reproduce.plan import NAMES, Plan
from benchmarks.reproduce.scored_batch import Scored
from benchmarks.result_page import ResultPage, Row, Table
from benchmarks.timings import Contender, one_thread, timed_side_by_side
from spansieve.crf import FilteredSemiMarkov
from spansieve.data.example import Example
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import Scored as ScoredBatch
from spansieve.models.torch_backend import predict_segments

HEADS = ("crf", "semicrf", "fsemicrf")
OURS = "fsemicrf"
LENGTHS = (16, 32, 64, 128, 256, 512, 1_024, 2_048, 4_096, 10_000)
LONG = 1_024  # from here on what is done once for each call no longer hides the growth
SIZES_ABOUT = (
    "Every test sentence's graph after the trained filter: nodes are candidates, edges are who may follow whom, start "
    "and end left out, as in the paper's figure. The line is fitted by least squares over all sentences."
)
TIMES_ABOUT = (
    "Test sentences one after the other as one sentence of that many tokens, decoded from its scores to segments "
    "with probabilities as Python values by our compiled decoders, in milliseconds, in turns, {where}. Slopes are of "
    "logarithms, over {lengths} tokens: 1 is linear. Beside each other model how many times as long as FSemiCRF it "
    "takes."
)


class GraphSize(NamedTuple):
    """Of one sentence."""

    length: int
    nodes: int
    edges: int

    @property
    def size(self) -> int:
        return self.nodes + self.edges


@dataclass(frozen=True)
class Line:
    """size = slope · length + intercept."""

    slope: float
    intercept: float
    share_below: float  # of the sentences, how many have graphs smaller than they are long

    @classmethod
    def through(cls, sizes: Sequence[GraphSize]) -> Line:
        lengths = [one.length for one in sizes]
        below = sum(one.size < one.length for one in sizes) / len(sizes)
        if len(set(lengths)) < 2:  # no line goes through one length
            return cls(float("nan"), float("nan"), below)
        fit = statistics.linear_regression(lengths, [one.size for one in sizes])
        return cls(fit.slope, fit.intercept, below)


def graph_sizes(tagger: Tagger, examples: Sequence[Example]) -> list[GraphSize]:
    """Of each sentence that has a token."""
    found: list[GraphSize] = []

    def on_batch(indices: Sequence[int], scored: ScoredBatch) -> None:
        distribution = tagger.head.distribution_of(*scored)
        assert isinstance(distribution, FilteredSemiMarkov)
        candidates = distribution.candidates
        counts = zip(indices, candidates.num_nodes.tolist(), candidates.num_edges.tolist())
        found.extend(GraphSize(len(examples[i]), nodes, edges) for i, nodes, edges in counts if len(examples[i]))

    predict_segments(tagger, [example.tokens for example in examples], on_batch=on_batch)
    return sorted(found)


def decoding_times(
    taggers: Mapping[str, Tagger], examples: Sequence[Example], lengths: Sequence[int], seconds: float, device: str
) -> list[dict[str, float]]:
    """A row for each length, with milliseconds by head."""
    rows = []
    with one_thread() if device == "cpu" else nullcontext():
        for length in lengths:
            tokens = list(islice(cycle(chain.from_iterable(example.tokens for example in examples)), length))
            contenders = [
                Contender("decoding", head, Scored.of(tagger, [tokens]).decode) for head, tagger in taggers.items()
            ]
            timings = timed_side_by_side(contenders, seconds)  # their results are on the host: no device to wait for
            rows.append({"L": length} | {timing.contender.name: 1000 * timing.seconds for timing in timings})
    return rows


def fitted_slopes(times: Sequence[dict[str, float]]) -> tuple[dict[str, float], list[float]]:
    """By head, and the lengths that they are fitted over: the long ones, where there are at least two."""
    long = [row for row in times if row["L"] >= LONG]
    chosen = long if len(long) > 1 else list(times)
    return (slopes(chosen) if len(chosen) > 1 else {}), [row["L"] for row in chosen]


# ---- The page --------------------------------------------------------------------------------------------------------


def complexity_page(plan: Plan, sizes: Sequence[GraphSize], times: Sequence[dict[str, float]]) -> ResultPage:
    """`plan.device` is where it was measured."""
    line, (growth, fitted) = Line.through(sizes), fitted_slopes(times)
    about = (
        f"{SIZES_ABOUT} |V| + |E| = {line.slope:.3f}·L {line.intercept:+.2f}; "
        f"{100 * line.share_below:.1f} % of the graphs are smaller than their sentence is long."
    )
    over = f"{fitted[0]:,} to {fitted[-1]:,}"
    where = "on the CPU by one thread" if plan.device == "cpu" else "on the GPU, where the scores are"
    time_rows: list[Row] = [_time_row(row) for row in times]
    if growth:
        slopes_row = dict.fromkeys(time_rows[0], "") | {NAMES[head]: f"{slope:.2f}" for head, slope in growth.items()}
        time_rows.append(slopes_row | {"L": "slope"})
    tables = [
        Table(time_rows, "Decoding time against length", TIMES_ABOUT.format(where=where, lengths=over)),
        Table(_size_rows(sizes), "Graph size against length", about),
    ]
    points = [{"L": one.length, "nodes": one.nodes, "edges": one.edges} for one in sizes]
    return plan.page("complexity", "Complexity", tables, draw(sizes, line, times, growth), {"graphs": points})


def _time_row(row: Mapping[str, float]) -> Row:
    cells: dict[str, object] = {"L": row["L"]} | {NAMES[head]: f"{row[head]:.4g}" for head in row if head != "L"}
    if OURS in row:
        cells |= {f"{NAMES[head]}, times": f"{row[head] / row[OURS]:.2f}" for head in row if head not in ("L", OURS)}
    return cells


def _size_rows(sizes: Sequence[GraphSize]) -> list[Row]:
    """By tens of tokens: the mean and the largest."""
    buckets: dict[int, list[GraphSize]] = {}
    for one in sizes:
        buckets.setdefault((one.length - 1) // 10, []).append(one)
    return [
        {
            "tokens": f"{10 * bucket + 1}-{10 * bucket + 10}",
            "sentences": len(some),
            "|V|": f"{statistics.mean(one.nodes for one in some):.2f}",
            "|E|": f"{statistics.mean(one.edges for one in some):.2f}",
            "|V| + |E|": f"{statistics.mean(one.size for one in some):.2f}",
            "largest": max(one.size for one in some),
        }
        for bucket, some in sorted(buckets.items())
    ]


def draw(
    sizes: Sequence[GraphSize], line: Line, times: Sequence[dict[str, float]], growth: Mapping[str, float]
) -> Figure:
    """Draw graph sizes with their line, and decoding times of the heads."""
    figure, (left, right) = panels(10, 4, columns=2)
    _draw_sizes(left, sizes, line)
    lengths = [row["L"] for row in times]
    for head in (name for name in times[0] if name != "L"):
        slope = f": slope {growth[head]:.2f}" if head in growth else ""
        right.plot(lengths, [row[head] for row in times], "o-", color=COLOURS[head], label=f"{NAMES[head]}{slope}")
    right.set(xscale="log", yscale="log", xlabel="tokens, L", ylabel="decoding, ms", title="Decoding time")
    right.legend(frameon=False)
    return figure


def _draw_sizes(axes: Axes, sizes: Sequence[GraphSize], line: Line) -> None:
    axes.scatter([one.length for one in sizes], [one.size for one in sizes], s=8, alpha=0.3, color=OURS_COLOUR)
    ends = [min(one.length for one in sizes), max(one.length for one in sizes)]
    fitted = [line.slope * length + line.intercept for length in ends]
    axes.plot(ends, fitted, color="black", label=f"fit: {line.slope:.2f}·L {line.intercept:+.1f}")
    axes.plot(ends, ends, ":", color=QUIET_COLOUR, label="|V| + |E| = L")
    axes.set(xlabel="tokens, L", ylabel="|V| + |E|", title="Graph size after the filter")
    axes.legend(frameon=False)
