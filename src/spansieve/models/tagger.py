"""A whole model: an encoder, a head, and their labels.

Axes: B sentences, L tokens, D features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil
from pathlib import Path

import torch
from torch import Tensor, nn

from spansieve.config import MAX_WIDTH, ModelConfig
from spansieve.crf import Distribution
from spansieve.data.example import Example
from spansieve.data.overlap_resolution import flat, laminar
from spansieve.models.head import Head, HeadGold, SoftTargets, Unknown
from spansieve.models.heads import head_class
from spansieve.nn.encoder import build_encoder
from spansieve.segments import LabelSet, NamedSegment, Segment


@dataclass(frozen=True, eq=False)
class Batch:
    """Sentences as the model takes them."""

    features: dict[str, Tensor]  # what the encoder takes
    lengths: Tensor  # (B,)
    gold: HeadGold | SoftTargets | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def to(self, device: torch.device | str) -> Batch:
        if torch.device(device).type == "cpu":
            return self
        features = {name: value.to(device, non_blocking=True) for name, value in self.features.items()}
        gold = None if self.gold is None else self.gold.to(device)
        return Batch(features, self.lengths.to(device, non_blocking=True), gold)


class Tagger(nn.Module):
    """A whole model: sentences in, segments out."""

    def __init__(self, config: ModelConfig, labels: LabelSet, folder: Path | None = None) -> None:
        """Build a model; `config.max_width` must be set. With `folder`, the encoder is built from there, its weights to
        be loaded."""
        super().__init__()
        if config.max_width is None:
            raise ValueError("max_width must be set, got None: Tagger.for_data finds it in the training data")
        self.config, self.labels = config, labels
        self.encoder = build_encoder(config, folder)
        self.dropout = nn.Dropout(config.dropout)
        self.head = head_class(config.head)(config, labels, self.encoder.size, config.max_width)

    @classmethod
    def for_data(
        cls,
        config: ModelConfig,
        examples: Sequence[Example],
        folder: Path | None = None,
        labels: LabelSet | None = None,
    ) -> Tagger:
        """Build a model with the labels of the training data, or those given, and, unless the configuration has one,
        the `max_width` that keeps all but the widest outliers of the segments that its head can learn. `folder`: see
        `Tagger`."""
        names = {segment.label for example in examples for segment in example.segments}
        if not names:
            raise ValueError(f"training data must have at least one entity, got {len(examples)} sentences with none")
        labels, head = labels or LabelSet(sorted(names)), head_class(config.head)
        quantile = 1.0 if head.kind == "linear-chain" else config.width_quantile
        widths = [s.width for example in examples for s in _structured(head, example)[0].segments]
        max_width = config.max_width or min(width_quantile(widths, quantile), MAX_WIDTH)
        return cls(replace(config, max_width=max_width), labels, folder)

    def batch(
        self,
        sentences: Sequence[Sequence[str]],
        gold: Sequence[Sequence[NamedSegment]] | None = None,
        unknown: Unknown = None,
    ) -> Batch:
        """Make a batch, on the host. `gold` is what `training_segments` leaves of the annotation; in the `unknown`
        ranges of tokens there may be more (see `Example`)."""
        lengths = [len(sentence) for sentence in sentences]
        ready = None
        if gold is not None:
            ready = self.head.gold(list(map(self._ids, gold)), lengths, unknown if any(unknown or ()) else None)
        return Batch(self.encoder.features(sentences), torch.tensor(lengths, dtype=torch.int64), ready)

    def training_segments(self, example: Example) -> tuple[list[NamedSegment], int, int]:
        """What the model can learn of the annotation, and how many segments it cannot: those that lose to an
        overlapping one (of a nested model, to one that they cross), and those wider than `max_width`."""
        kept, dropped = _structured(type(self.head), example)
        fits = [s for s in kept.segments if self.head.fits(Segment(s.start, s.end, 0))]
        return fits, len(dropped), len(kept.segments) - len(fits)

    def known_segments(self, example: Example) -> list[Segment]:
        """Gold that the model has a label for, each segment once."""
        return self._ids([s for s in {*example.segments} if s.label in self.labels.names])

    def _ids(self, segments: Sequence[NamedSegment]) -> list[Segment]:
        return [Segment(s.start, s.end, self.labels.id(s.label)) for s in segments]

    def vectors(self, batch: Batch) -> Tensor:
        """The vector of each token, which the head takes, (B, L, D)."""
        return self.dropout(self.encoder(batch.features))

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """The parts of the loss, one number per sentence each."""
        if batch.gold is None:
            raise ValueError("a batch must have gold to learn from, got one without")
        vectors, gold = self.vectors(batch), batch.gold
        if isinstance(gold, SoftTargets):
            return self.head.distillation_losses(vectors, batch.lengths, gold)
        return self.head.losses(vectors, batch.lengths, gold)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        return self.losses(batch)

    def distribution(self, batch: Batch) -> Distribution:
        return self.head.distribution(self.vectors(batch), batch.lengths)

    def named(self, segments: Sequence[Segment]) -> list[NamedSegment]:
        return [NamedSegment(s.start, s.end, self.labels.name(s.label)) for s in segments]

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device


def width_quantile(widths: Sequence[int], quantile: float) -> int:
    """Return the least width that at least this part of the widths do not exceed.

    >>> width_quantile([1] * 600 + [2] * 399 + [51], 0.999), width_quantile([1, 2, 51], 0.999)
    (2, 51)
    """
    num_kept = ceil(Fraction(str(quantile)) * len(widths))  # in floating point, 0.55 · 100 is more than 55
    return sorted(widths)[num_kept - 1]


def _structured(head: type[Head], example: Example) -> tuple[Example, tuple[NamedSegment, ...]]:
    """Return the example with the segments that one structure of the head can have together, and the others."""
    return laminar(example) if head.kind == "nested" else flat(example)
