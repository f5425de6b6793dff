"""What laminar sets cost, beside disjoint ones of the same candidates, and how that grows with the sentence."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.growth import rows_by_length, slopes
from benchmarks.plots import Figure
from benchmarks.process_usage import least_times, processor_seconds
from benchmarks.result_page import ResultPage, Table
from benchmarks.timings import Contender, one_thread, timed_side_by_side
from spansieve.crf import Candidates, Distribution, FilteredSemiMarkov, NestedSegments, best_disjoint

LENGTHS = (32, 64, 128, 256, 512, 1024, 2048)
MAX_WIDTH = 12
NUM_LABELS = 5
NUM_SENTENCES = 32
SIZES = ((32, 0.03), (32, 1.0), (128, 0.03), (128, 1.0))  # tokens, and the part of all spans that is kept
ROUNDS = 7


def candidates_of(length: int, share: float, seed: int = 0) -> Candidates:
    """A batch in which this part of all spans up to the width is kept, with one label each."""
    random = np.random.default_rng(seed)
    widths = [min(MAX_WIDTH, length - i) for i in range(length)]
    spans = [(i, i + w + 1) for i in range(length) for w in range(widths[i])]
    lists = []
    for _ in range(NUM_SENTENCES):
        kept = np.flatnonzero(random.random(len(spans)) < share)
        labels = random.integers(1, NUM_LABELS, len(kept))
        lists.append([(*spans[k], int(y)) for k, y in zip(kept, labels)])
    return Candidates.from_lists(lists, [length] * NUM_SENTENCES)


def run_side_by_side(seconds: float, device: str = "cpu") -> list[dict[str, object]]:
    """Microseconds a sentence for the best structure and for log Z with its gradient, after a filter and without.

    On the CPU processor time, the least of many turns; on a GPU the median of the time that passes.
    """
    rows = []
    for length, share in SIZES:
        candidates = _to(candidates_of(length, share), device)
        contenders = _contenders(candidates)
        with one_thread():
            if device == "cpu":
                times = least_times(contenders, seconds)
            else:
                times = [timing.seconds for timing in timed_side_by_side(contenders, seconds, device)]
        for contender, took in zip(contenders, times):
            row = {"L": length, "kept": f"{share:.0%}", "candidates": len(candidates) // NUM_SENTENCES}
            row |= {"task": contender.task, "model": contender.name}
            rows.append(row | {"µs per sentence": round(1e6 * took / NUM_SENTENCES, 1)})
    return rows


def _to(candidates: Candidates, device: str) -> Candidates:
    names = ("offsets", "start", "end", "label", "lengths")
    moved = {name: getattr(candidates, name).to(device) for name in names}
    return Candidates(**moved, num_tokens=candidates.num_tokens, max_width=candidates.max_width)


def _contenders(candidates: Candidates) -> list[Contender]:
    generator = torch.Generator().manual_seed(0)
    device = candidates.start.device
    scores = torch.randn(len(candidates), generator=generator).to(device).requires_grad_()
    transition = torch.randn(NUM_LABELS, NUM_LABELS, generator=generator).to(device)
    plain = scores.detach()
    made: dict[str, Callable[[Tensor], Distribution]] = {
        "nested": lambda s: NestedSegments(candidates, s),
        "nested, with transitions": lambda s: NestedSegments(candidates, s, transition),
        "disjoint with transitions (FilteredSemiMarkov, skip)": lambda s: FilteredSemiMarkov(
            candidates, s, transition, skip=True
        ),
    }
    best = [Contender("best", name, partial(_mode, make, plain)) for name, make in made.items()]
    if device.type == "cpu":
        columns = [x.numpy() for x in (candidates.start, candidates.end, plain, candidates.sentence)]
        best.append(Contender("best", "disjoint (best_disjoint, a mask)", lambda: best_disjoint(*columns)))
    return best + [
        Contender("log Z and gradient", name, partial(_gradient, make, scores)) for name, make in made.items()
    ]


def _mode(make: Callable[[Tensor], Distribution], scores: Tensor) -> object:
    return make(scores).mode


def _gradient(make: Callable[[Tensor], Distribution], scores: Tensor) -> object:
    return torch.autograd.grad(make(scores).log_partition.sum(), scores)


def run_growth() -> list[dict]:
    """A row of processor times for each length, every span up to the width kept."""
    return rows_by_length("benchmarks.nested_speed", LENGTHS)


def one_length(length: int) -> dict[str, float]:
    torch.set_num_threads(1)
    for contender in _contenders(candidates_of(8, 1.0)):
        contender.run()  # compiles, or loads what was compiled
    row: dict[str, float] = {"L": length}
    for contender in _contenders(candidates_of(length, 1.0)):
        if contender.name.startswith("nested"):
            seconds = min(processor_seconds(contender.run) for _ in range(ROUNDS))
            row[f"{contender.task}, {contender.name}, ms"] = round(1e3 * seconds, 2)
    return row


def nested_speed_page(rows: Sequence[dict], growth: Sequence[dict], device: str) -> ResultPage:
    """`rows` are those of `run_side_by_side`, `growth` those of `run_growth`, none on a GPU."""
    about = "Batch 32, widths up to 12, 5 labels, float32, one thread; contenders take turns. "
    about += "Processor time, the least of all turns." if device == "cpu" else "Medians."
    parts: list[str | Table | Figure] = [about, Table(rows)]
    if growth:
        exponents = "; ".join(f"{name.removesuffix(', ms')} {slope}" for name, slope in slopes(growth).items())
        about = "Milliseconds of processor time for the batch, the best of seven."
        parts.append(Table(growth, "Growth with every span kept", f"{about} Log-log slopes against L: {exponents}."))
    return ResultPage(f"nested_speed_{device}", "The cost of nesting", parts, device=device)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(one_length(int(sys.argv[1]))))
