"""Table 2: milliseconds per sentence for scoring and for decoding, with our decoders and with the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import NamedTuple

from benchmarks.device_use import RESULT_BYTES, device_use, launch_and_copy
from benchmarks.plots import COLOURS, QUIET_COLOUR, Figure, bar_names, panels
from benchmarks.reproduce.baselines import baseline
from benchmarks.reproduce.paper import TABLE2
from benchmarks.reproduce.plan import NAMES, Plan
from benchmarks.reproduce.scored_batch import Scored, batches_of, over
from benchmarks.result_page import ResultPage, Row, Table
from benchmarks.timings import Contender, one_thread, timed_side_by_side
from spansieve.data.example import Example
from spansieve.models.captured_prediction import MIN_USES
from spansieve.models.tagger import Tagger

HEADS = ("crf", "semicrf", "fsemicrf")
SLOW = "semicrf"  # what the paper measures its speed-ups against
SCORING, DECODING, BASELINE, OVERALL, LEAST = "scoring", "decoding", "baseline", "overall", "launch and copy"
REPLAY = "replay"
OURS_ABOUT = (
    "Every decoder compiled: Numba on the CPU, CUDA C on a GPU. Scoring is the encoder and the scores of all "
    "spans (of all tokens for the CRF); decoding is all that follows, to segments with probabilities as Python "
    "values: checks, the filter where there is one, the best path, forward and backward sums. Overall is both in "
    "one call. Cutting text into subwords is in neither. Speed-ups are over Semi-CRF, as in the paper."
)
THEIRS_ABOUT = (
    "The decoders that the paper used for its baselines, on the same scores of the same models, and for FSemiCRF "
    "the filter in tensor operations and the longest path in plain Python over edges listed one by one. pytorch- "
    "crf and torch-struct start from tensors and potentials that are already made, torch-struct ends with marks "
    "on its edges, and none of them has probabilities: their times leave out work that ours contain. `ours is "
    "faster by` is what the implementation gives; a speed-up over Semi-CRF among decoders of one kind is what the "
    "idea gives."
)
DEVICE_ABOUT = (
    "Launches and copies of a batch, by the profiler. The kernel writes its result to pinned memory of the host "
    "itself, so that there need be no copy. The least that decoding takes is one launch of a trivial kernel, one "
    "copy of {size:,} bytes to pinned memory and the wait for it, as torch does them, measured in turns with the "
    "rest; what stands between it and decoding is the kernel's work and the making of Python values. Idle is the "
    "share of the time in which no kernel runs and nothing is copied, of decoding alone, of scoring and decoding in "
    "one call, kernel by kernel, and of the same as predictors do it with few sentences: subwords to the device, "
    "scores and decoding as one CUDA graph. Sentences whose candidates do not fit are decoded by the host: {on_host}."
)


@dataclass(frozen=True)
class Cost:
    """Milliseconds per sentence of one head at one batch size."""

    head: str
    batch: int
    scoring: float
    decoding: float
    baseline: str | None = None  # whose decoder the paper used
    baseline_decoding: float | None = None
    both: float | None = None  # scoring and decoding in one call
    replayed: float | None = None  # as a CUDA graph
    device: OnDevice | None = None

    @property
    def overall(self) -> float:
        return self.scoring + self.decoding if self.both is None else self.both


class OnDevice(NamedTuple):
    """How a head uses a GPU, by batch and by sentence."""

    launches: float  # of a batch, when it is decoded
    copies: float
    least: float  # milliseconds a sentence
    decoding_idle: float  # shares
    overall_idle: float
    replay_idle: float
    on_host: int  # sentences


def costs(
    taggers: Mapping[str, Tagger],
    examples: Sequence[Example],
    batch_sizes: Sequence[int],
    seconds: float,
    device: str,
    with_baselines: bool = True,
) -> list[Cost]:
    """All heads and decoders take turns; on the CPU they have one thread. A GPU is profiled once all times are
    measured: a profiler that was used may make every launch after it slower."""
    found: list[Cost] = []
    profiles: list[tuple[Sequence[Scored], float]] = []
    with one_thread() if device == "cpu" else nullcontext():
        for size in batch_sizes:
            batches = {head: batches_of(tagger, examples, size) for head, tagger in taggers.items()}
            contenders = [one for head, some in batches.items() for one in _contenders(head, some, with_baselines)]
            if device == "cuda":
                contenders += [_captured(head, some) for head, some in batches.items()]
                number = len(next(iter(batches.values())))
                contenders.append(Contender(LEAST, LEAST, over([launch_and_copy()] * number)))
            timings = timed_side_by_side(contenders, seconds, device)
            each = {(t.contender.name, t.contender.task): (1000 * t.seconds / len(examples), t) for t in timings}
            for head, some in batches.items():
                theirs = each.get((head, BASELINE))
                found.append(
                    Cost(
                        head,
                        size,
                        each[head, SCORING][0],
                        each[head, DECODING][0],
                        None if theirs is None else theirs[1].contender.note,
                        None if theirs is None else theirs[0],
                        each[head, OVERALL][0],
                        each[head, REPLAY][0] if device == "cuda" else None,
                    )
                )
                if device == "cuda":
                    profiles.append((some, each[LEAST, LEAST][0]))
    if not profiles:
        return found
    return [
        replace(cost, device=_on_device(some, len(examples), cost, least))
        for cost, (some, least) in zip(found, profiles)
    ]


def _on_device(batches: Sequence[Scored], num_sentences: int, cost: Cost, least: float) -> OnDevice:
    """Profile a head; times are in milliseconds a sentence."""
    decoded, predicted, replayed = (
        device_use(over([getattr(scored, name) for scored in batches])) for name in ("decode", "predict", "replay")
    )
    assert cost.replayed is not None
    decoder = batches[0].backend.device_decoder
    seconds = num_sentences / 1000
    return OnDevice(
        decoded.launches / len(batches),
        decoded.copies / len(batches),
        least,
        decoded.idle_share(cost.decoding * seconds),
        predicted.idle_share(cost.overall * seconds),
        replayed.idle_share(cost.replayed * seconds),
        0 if decoder is None else decoder.num_on_host,
    )


def _contenders(head: str, batches: Sequence[Scored], with_baselines: bool) -> list[Contender]:
    made = [
        Contender(SCORING, head, over([scored.score for scored in batches])),
        Contender(DECODING, head, over([scored.decode for scored in batches])),
        Contender(OVERALL, head, over([scored.predict for scored in batches])),
    ]
    found = [baseline(scored) for scored in batches] if with_baselines else []
    known = [one for one in found if one is not None]
    if known:
        made.append(Contender(BASELINE, head, over([run for _, run in known]), known[0][0]))
    return made


def _captured(head: str, batches: Sequence[Scored]) -> Contender:
    """The same as CUDA graphs, which are captured here: a shape is when it comes for the third time."""
    replay = over([scored.replay for scored in batches])
    for _ in range(MIN_USES):
        replay()
    return Contender(REPLAY, head, replay)


# ---- The page --------------------------------------------------------------------------------------------------------


def table2_page(plan: Plan, found: Sequence[Cost], num_sentences: int, paper: str | None) -> ResultPage:
    """`plan.device` is where it was measured."""
    threads = " One thread." if plan.device == "cpu" else ""
    about = f"The first {num_sentences:,} test sentences, medians; all contenders took turns.{threads} {OURS_ABOUT}"
    if paper is not None:
        about += " The paper's figures are those of its decoders, with an encoder of base size, on a V100."
    tables = [Table([_our_row(cost, found, paper) for cost in found], "With our decoders", about)]
    if theirs := [cost for cost in found if cost.baseline is not None]:
        tables.append(Table([_their_row(cost, found) for cost in theirs], "With the paper's decoders", THEIRS_ABOUT))
    if on_device := [cost for cost in found if cost.device is not None]:
        on_host = sum(cost.device.on_host for cost in on_device if cost.device is not None)
        about = DEVICE_ABOUT.format(size=RESULT_BYTES, on_host=f"{on_host:,} times here" if on_host else "none here")
        tables.append(Table([_device_row(cost) for cost in on_device], "Distance to one launch and one copy", about))
    return plan.page("table2", "Table 2", tables, draw(found))


def _our_row(cost: Cost, found: Sequence[Cost], paper: str | None) -> Row:
    slow = _of(SLOW, cost.batch, found)
    cells: dict[str, object] = {
        "batch": cost.batch,
        "model": NAMES[cost.head],
        "scoring, ms": _number(cost.scoring),
        "decoding, ms": _number(cost.decoding),
        "overall, ms": _number(cost.overall),
        "decoding speed-up": _times(None if slow is None else slow.decoding, cost.decoding),
        "overall speed-up": _times(None if slow is None else slow.overall, cost.overall),
    }
    if paper is not None:
        scoring, decoding = TABLE2[paper][cost.head]
        theirs = TABLE2[paper][SLOW][1]
        cells |= {"scoring, paper": scoring, "decoding, paper": decoding, "speed-up, paper": _times(theirs, decoding)}
    return cells


def _their_row(cost: Cost, found: Sequence[Cost]) -> Row:
    slow = _of(SLOW, cost.batch, found)
    assert cost.baseline_decoding is not None
    return {
        "batch": cost.batch,
        "model": NAMES[cost.head],
        "decoder": cost.baseline,
        "decoding, ms": _number(cost.baseline_decoding),
        "speed-up over Semi-CRF": _times(None if slow is None else slow.baseline_decoding, cost.baseline_decoding),
        "ours, ms": _number(cost.decoding),
        "speed-up over Semi-CRF, ours": _times(None if slow is None else slow.decoding, cost.decoding),
        "ours is faster by": _times(cost.baseline_decoding, cost.decoding),
    }


def _device_row(cost: Cost) -> Row:
    assert cost.device is not None
    return {
        "batch": cost.batch,
        "model": NAMES[cost.head],
        "launches": f"{cost.device.launches:g}",
        "copies": f"{cost.device.copies:g}",
        "decoding alone, ms": _number(cost.decoding),
        "one launch and one copy, ms": _number(cost.device.least),
        "distance": _times(cost.decoding, cost.device.least),
        "idle in decoding": f"{cost.device.decoding_idle:.0%}",
        "end to end, ms": _number(cost.overall),
        "idle end to end": f"{cost.device.overall_idle:.0%}",
        "as a graph, ms": "" if cost.replayed is None else _number(cost.replayed),
        "idle as a graph": f"{cost.device.replay_idle:.0%}",
    }


def _of(head: str, batch: int, found: Sequence[Cost]) -> Cost | None:
    return next((cost for cost in found if (cost.head, cost.batch) == (head, batch)), None)


def _number(milliseconds: float) -> str:
    """
    >>> _number(0.012345), _number(123.45)
    ('0.0123', '123')
    """
    return f"{milliseconds:.3g}"


def _times(slow: float | None, fast: float) -> str:
    """
    >>> _times(3.7, 0.2), _times(None, 1.0)
    ('18.5x', '')
    """
    return "" if slow is None else f"{slow / fast:.3g}x"


def draw(found: Sequence[Cost]) -> Figure:
    """Draw decoding per model, ours beside the paper's decoder, a panel for each batch size."""
    sizes = list(dict.fromkeys(cost.batch for cost in found))
    figure, grid = panels(1.2 + 4.2 * len(sizes), 3.6, columns=len(sizes), sharey=True)
    for axes, size in zip(grid, sizes):
        some = [cost for cost in found if cost.batch == size]
        for place, cost in enumerate(some):
            bars = [(place - 0.2, cost.decoding, COLOURS[cost.head])]
            if cost.baseline_decoding is not None:
                bars.append((place + 0.2, cost.baseline_decoding, QUIET_COLOUR))
            for x, value, colour in bars:
                axes.bar(x, value, width=0.36, color=colour)
                axes.annotate(_number(value), (x, value), (0, 3), textcoords="offset points", ha="center", fontsize=8)
        bar_names(axes, [NAMES[cost.head] + (f"\nours, {cost.baseline}" if cost.baseline else "") for cost in some])
        axes.set(yscale="log", title=f"batches of {size}" if size > 1 else "one sentence at a time")
        axes.margins(y=0.15)
    grid[0].set_ylabel("decoding, ms per sentence")
    return figure
