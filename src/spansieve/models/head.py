"""What a model is apart from its encoder: vectors of tokens in, a loss or a distribution out.

Axes: B sentences, L tokens, K widths, Y labels, T labels of the transition, D features, N parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from spansieve.config import ModelConfig
from spansieve.crf import Distribution, Gold, Known
from spansieve.crf.evidence import Span
from spansieve.crf.kernels import PLAIN_FILTER, FilterLimits
from spansieve.decoding.decoders import Decoder, DecoderSettings, Kind
from spansieve.nn.span_scorers import SpanScorer, scored_widths, span_scorer
from spansieve.segments import LabelSet, Segment

Ranges = Sequence[tuple[int, int]]  # of tokens, end exclusive, from left to right
Unknown = Sequence[Ranges] | None  # of each sentence


@dataclass(frozen=True, eq=False)
class HeadGold:
    """The gold of a batch in the form that a head's loss takes; made on the host, moved to a device."""

    structures: Gold
    span_labels: Tensor | None = None  # (B, L, K): the label of every span, for a filter to learn
    known: tuple[Known, ...] | None = None  # what is known of each sentence; None where that is all
    is_kept: Tensor | None = None  # (B, L, K), then: where candidates may be, in a graph of maximal paths

    def labels(self) -> Tensor:
        if self.span_labels is None:
            raise ValueError("gold must be made by the head whose loss takes it, got one without labels of spans")
        return self.span_labels

    def to(self, device: torch.device | str) -> HeadGold:
        labels, is_kept = (
            None if tensor is None else tensor.to(device, non_blocking=True)
            for tensor in (self.span_labels, self.is_kept)
        )
        return HeadGold(self.structures.to(device), labels, self.known, is_kept)


@dataclass(frozen=True, eq=False)
class SoftTargets:
    """What a batch is to be, in expectation, in the place of gold: P(part) and how often one label follows another. As
    the loss is linear in them, gold and a teacher's distribution mix by their sums."""

    part: Tensor  # (N,): positions in the flattened scores; one may come twice
    probability: Tensor  # (N,)
    sentence: Tensor  # (N,): the sentence of each part
    counts: Tensor  # (B, T, T)

    def to(self, device: torch.device | str) -> SoftTargets:
        columns = (self.part, self.probability, self.sentence, self.counts)
        return SoftTargets(*(column.to(device, non_blocking=True) for column in columns))

    def expected_score(self, scores: Tensor, transition: Tensor) -> Tensor:
        """The expected score of a structure, (B,)."""
        of_parts = scores.flatten().index_select(0, self.part) * self.probability
        return (self.counts * transition).flatten(1).sum(1).index_add(0, self.sentence, of_parts)


class Head(nn.Module):
    """A model apart from its encoder: one row of the paper's table. It takes the tokens' vectors, (B, L, D).

    A head declares the kind of decoder that its scores are for, and with that whether its segments nest, whether it
    filters, and whether it scores tags, of which segments of any width are made. `HEADS` lists them.
    """

    kind: ClassVar[Kind]
    # Whether the loss of an empty sentence is 0, and parts of gold beyond `Parts.offsets` count for nothing on a GPU:
    # steps can then be captured as CUDA graphs, of batches that are filled up to few shapes.
    takes_padded_gold: ClassVar[bool] = False
    # What its decoder goes by, where its kind has it: see `DecoderSettings`.
    scheme: Literal["BIO", "BIOES"] = "BIOES"
    unit_null: bool = False
    skip: bool = False
    limits: FilterLimits = PLAIN_FILTER
    margin: float = 0.0

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__()
        self.labels, self.max_width = labels, max_width

    def scorer_of(self, config: ModelConfig, size: int, num_labels: int, sets: int = 1) -> SpanScorer:
        """Make what scores all spans, by the features and sizes that the settings have."""
        sizes = (size, config.hidden_size, self.max_width, num_labels)
        return span_scorer(config.features, *sizes, sets, config.dropout)

    @property
    def decoder_settings(self) -> DecoderSettings:
        """How the scores are decoded, transition apart."""
        by_kind = (self.scheme, self.unit_null, self.skip, *self.limits, self.margin)
        return DecoderSettings(self.kind, self.max_width, *by_kind)

    def decoder_arrays(self) -> dict[str, Tensor]:
        """The arrays that the decoder takes: the transition, and of a linear chain what may start and end it."""
        return {"transition": cast(Tensor, self.transition)}

    def decoder(self, threads: int = 1, with_filter: bool = False) -> Decoder:
        """Make the decoder of the head's scores, with its weights as they are now."""
        arrays = {name: x.detach().float().cpu().numpy() for name, x in self.decoder_arrays().items()}
        return Decoder(self.decoder_settings, self.labels, arrays, threads, with_filter)

    def gold(self, segments: Sequence[Sequence[Segment]], lengths: Sequence[int], unknown: Unknown = None) -> HeadGold:
        """Prepare gold segments that `fits` and that do not overlap, unless the head is nested. In the
        `unknown` ranges of tokens there may be others: the loss is then -log P(all that agrees with what is known)."""
        raise NotImplementedError

    def fits(self, segment: Segment) -> bool:
        return self.kind == "linear-chain" or segment.width <= self.max_width

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        """The parts of the loss, each one number per sentence, (B,). Their sum is what is minimised."""
        raise NotImplementedError

    def distillation_losses(self, vectors: Tensor, lengths: Tensor, targets: SoftTargets) -> dict[str, Tensor]:
        """The parts of the loss with soft targets, each one number per sentence, (B,): of a distribution its
        cross-entropy with the targets, which is what `losses` has where they are gold alone."""
        scores = self.scores(vectors)
        log_partition = self.distribution_of(scores, lengths).log_partition
        return {"segmentation": log_partition - targets.expected_score(scores[-1], cast(Tensor, self.transition))}

    def check_teacher(self, teacher: Head) -> None:
        """Raise unless the head can learn from the distributions of another, exactly."""
        if self.kind != teacher.kind or self.kind == "nested":
            wanted = "a flat model" if teacher.kind == "nested" else f"{self.kind}, as the student is"
            raise ValueError(f"teacher must be {wanted}, got {teacher.kind}: model.head is the student's")

    def distribution(self, vectors: Tensor, lengths: Tensor) -> Distribution:
        """The distribution over the structures of each sentence."""
        return self.distribution_of(self.scores(vectors), lengths)

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> Distribution:
        """The distribution made from what `scores` gives."""
        raise NotImplementedError

    def scores(self, vectors: Tensor) -> tuple[Tensor, ...]:
        """The scores that the distribution is made of, transition apart: (B, L, Y), or (B, L, K, Y) once or twice."""
        raise NotImplementedError

    def entities(self, structure: Any) -> tuple[Segment, ...]:
        """The entities of a structure of the distribution: its segments that are not null."""
        return tuple(segment for segment in structure if segment.label)


def known_of(segments: Sequence[Segment], unknown: Ranges, length: int) -> Known:
    """What is known of a sentence: its segments, and that there are no others outside the unknown ranges. What agrees
    with that is summed over: the loss is -log P(all of it), over the same graph.

    >>> known_of([Segment(1, 2, 1)], [(1, 3)], 5).complete
    (Span(start=0, end=1), Span(start=3, end=5))
    """
    ends, starts = [0, *(end for _, end in unknown)], [*(start for start, _ in unknown), length]
    return Known(segments, complete=[Span(end, start) for end, start in zip(ends, starts) if end < start])


def dense_shape(lengths: Sequence[int], max_width: int, num_labels: int) -> tuple[int, int, int, int]:
    """The shape of the scores of a batch, (B, L, K, Y)."""
    num_tokens = max(lengths, default=0)
    return len(lengths), num_tokens, scored_widths(max_width, num_tokens), num_labels
