"""The reports of a run, and the callbacks that receive them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class DataCounts:
    """Counts of the training data, and of what of it the model cannot represent."""

    sentences: int
    entities: int
    labels: tuple[str, ...]
    max_width: int | None  # None where the head takes segments of any width
    widest: int  # of the gold segments, in tokens
    lost_to_overlaps: int = 0  # gold segments left out because a wider one shares a token with them
    lost_to_width: int = 0  # gold segments wider than max_width
    unknown_in_dev: tuple[str, ...] = ()  # labels that only the dev set has: they count as missed
    unknown_tokens: int = 0  # of which nothing is known but the segments given
    vectors: str = ""  # which word vectors there are, and how much of the data has one
    started_from: tuple[str, ...] = ()  # what was taken from the weights of another model, and what was not
    teacher: str = ""  # the model that this one is distilled from, and how


@dataclass(frozen=True)
class StepReport:
    step: int
    num_steps: int
    epoch: int
    loss: float  # per sentence, since the last report
    tokens_per_second: float
    seconds_left: float


@dataclass(frozen=True)
class EpochReport:
    epoch: int  # from 1
    step: int
    loss: float
    dev: dict[str, float]  # precision, recall, f1
    is_best: bool
    seconds: float  # of training, so far
    graph: dict[str, float] = field(default_factory=dict)  # nodes, edges and filter_recall, of a filtered model


class Observer(Protocol):
    """The callbacks of a run. Only the main process calls them."""

    def on_start(self, counts: DataCounts, num_steps: int, step: int) -> None:
        return None

    def on_step(self, report: StepReport) -> None:
        return None

    def on_epoch(self, report: EpochReport) -> None:
        return None


class Silent(Observer):
    """Callbacks that do nothing."""
