"""The reports of a run, and the callbacks that receive them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spansieve.data.example import Example
from spansieve.segments import NamedSegment

if TYPE_CHECKING:
    from spansieve.models.tagger import Tagger


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


class Observer:
    """The callbacks of a run, which do nothing here. Only the main process calls them."""

    def on_start(self, counts: DataCounts, num_steps: int, step: int) -> None:
        pass

    def on_step(self, report: StepReport) -> None:
        pass

    def on_epoch(self, report: EpochReport) -> None:
        pass


# ---- Counts of the data ----------------------------------------------------------------------------------------------


def learnable_gold(
    tagger: Tagger, train: Sequence[Example], dev: Sequence[Example]
) -> tuple[list[list[NamedSegment]], DataCounts]:
    """The segments of each training example that the model can learn, and the counts of the data."""
    learnable = [tagger.training_segments(example) for example in train]
    unknown = {segment.label for example in dev for segment in example.segments} - set(tagger.labels)
    counts = DataCounts(
        sentences=len(train),
        entities=sum(len(example.segments) for example in train),
        labels=tuple(tagger.labels),
        max_width=tagger.head.decoder_settings.support(tagger.labels).max_width,
        widest=max(segment.width for example in train for segment in example.segments),
        lost_to_overlaps=sum(overlaps for _, overlaps, _ in learnable),
        lost_to_width=sum(wide for _, _, wide in learnable),
        unknown_in_dev=tuple(sorted(unknown)),
        unknown_tokens=sum(example.num_unknown for example in train),
    )
    return [segments for segments, _, _ in learnable], counts


def vector_coverage(tagger: Tagger, train: Sequence[Example], dev: Sequence[Example]) -> str:
    """The word vectors of an encoder, if it has such, and the part of the words that have one."""
    vectors = tagger.encoder.word_vectors
    if vectors is None:
        return ""
    parts = []
    for name, examples in (("training", train), ("dev", dev)):
        counts = Counter(token for example in examples for token in example.tokens)
        found = {word: count for word, count in counts.items() if word in vectors}
        shares = (len(found) / max(len(counts), 1), sum(found.values()) / max(counts.total(), 1))
        parts.append(f"{shares[0]:.1%} of the {name} words and {shares[1]:.1%} of the tokens")
    from spansieve.models.storage import portable_config  # with torch, which is not imported for a report alone

    source = portable_config(tagger.config).builtin.vectors
    return f"{len(vectors):,} vectors of {vectors.size} dimensions, {source}; there is one for {', '.join(parts)}"
