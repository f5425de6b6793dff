"""The distributions as layers: modules that hold the transition, take scores and gold, and return losses.

Every `mask` is (B, L), true for the tokens of a sentence, which come first, or it is the lengths, (B,); without it each
sentence has L tokens. Its values, and those of tags, are read on any device: where it counts that this synchronises the
host with a GPU, give lengths and gold that were made on the host, by `Gold`.

Axes: B sentences, L tokens, K widths, Y labels or tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from spansieve.crf.distribution import Distribution
from spansieve.crf.filtered_semi_markov import FilteredSemiMarkov
from spansieve.crf.flat_segments import FlatSegments, covering
from spansieve.crf.gold import Gold, Triples, entity_gold
from spansieve.crf.linear_chain import LinearChain, TagConstraints
from spansieve.crf.losses import IGNORED, filtering_loss, with_margin
from spansieve.crf.nested import NestedSegments
from spansieve.crf.semi_markov import SemiMarkov
from spansieve.crf.validation import checked_lengths, checked_scores, lengths_of_mask
from spansieve.segments import Segment

Mask = Tensor | Sequence[int] | None


class LinearChainLayer(nn.Module):
    """A linear-chain CRF as a layer over the scores of tags, (B, L, Y), with `transition`, `start` and `end` to learn.

    With `constraints`, sequences that break them are no part of the model.
    """

    def __init__(self, num_tags: int, constraints: TagConstraints | None = None) -> None:
        super().__init__()
        self.transition = nn.Parameter(torch.zeros(num_tags, num_tags))
        self.start, self.end = nn.Parameter(torch.zeros(num_tags)), nn.Parameter(torch.zeros(num_tags))
        self.constraints = constraints

    def forward(self, scores: Tensor, tags: Tensor | Sequence[Sequence[int]] | Gold, mask: Mask = None) -> Tensor:
        """Compute the loss, -log P(tags), of each sentence, (B,). Tags are (B, L), or one list per sentence; without a
        mask, sentences end where the tags are -100, or where the list does."""
        if mask is None and not isinstance(tags, Gold):
            mask = lengths_of_mask(tags.ne(IGNORED), scores, "tags") if isinstance(tags, Tensor) else [*map(len, tags)]
        chain = self.distribution(scores, mask)
        if not isinstance(tags, Gold):
            rows = tags.tolist() if isinstance(tags, Tensor) else tags
            tags = [row[:length] for row, length in zip(rows, chain.lengths.tolist())]
        return -chain.log_prob(tags)

    @torch.no_grad()
    def predict(self, scores: Tensor, mask: Mask = None) -> list[list[int]]:
        """Find the best tags of each sentence."""
        return self.distribution(scores, mask).mode

    def distribution(self, scores: Tensor, mask: Mask = None) -> LinearChain:
        """Make the distribution over the tag sequences of each sentence."""
        lengths = _lengths("scores", scores, 3, mask)
        position = torch.arange(scores.shape[1], device=scores.device)
        is_first, is_last = position == 0, position == lengths[:, None] - 1  # (L,), (B, L)
        scores = scores + is_first[:, None] * self.start + is_last[..., None] * self.end
        return LinearChain(scores, self.transition, lengths, self.constraints)


class SemiMarkovLayer(nn.Module):
    """A semi-Markov CRF as a layer over the scores of segments, (B, L, K, Y), with a `transition` to learn.

    Gold and predictions are segments that are not null, (start, end, label), end exclusive; what they leave uncovered
    is null. With `unit_null`, null segments are one token wide: one segmentation for each set of segments.
    """

    def __init__(self, num_labels: int, unit_null: bool = True) -> None:
        super().__init__()
        self.transition = nn.Parameter(torch.zeros(num_labels, num_labels))
        self.unit_null = unit_null

    def forward(self, scores: Tensor, gold: Triples | Gold, mask: Mask = None) -> Tensor:
        """Compute the loss, -log P(gold), of each sentence, (B,). Prepared `Gold` has null segments, too."""
        segmentations = self.distribution(scores, mask)
        if isinstance(gold, Gold):
            return -segmentations.log_prob(gold)
        lengths = segmentations.lengths.cpu()
        entities = cast(FlatSegments, entity_gold(gold, segmentations.scores, lengths).segments)
        entities.check_disjoint()
        return -segmentations.log_prob([*map(covering, entities.by_sentence(), lengths.tolist())])

    @torch.no_grad()
    def predict(self, scores: Tensor, mask: Mask = None) -> list[tuple[Segment, ...]]:
        """Find the best segments of each sentence, null ones left out."""
        modes = self.distribution(scores, mask).mode
        return [tuple(segment for segment in mode if segment.label) for mode in modes]

    def distribution(self, scores: Tensor, mask: Mask = None) -> SemiMarkov:
        """Make the distribution over the segmentations of each sentence, null segments included."""
        return SemiMarkov(scores, self.transition, _lengths("scores", scores, 4, mask), self.unit_null)


class FilteredSemiMarkovLayer(nn.Module):
    """A filtered semi-Markov CRF as a layer over local and global scores, (B, L, K, Y), with a `transition` to learn.

    Gold and predictions are segments, (start, end, label), end exclusive, none of them null. With `skip` any disjoint
    set of what the filter keeps may be chosen, and it may keep more: spans whose best label comes within a `margin` of
    null, or with more `labels_per_span`. `beta` weights null spans in the filtering loss.
    """

    def __init__(
        self, num_labels: int, skip: bool = False, beta: float = 1.0, margin: float = 0.0, labels_per_span: int = 1
    ) -> None:
        super().__init__()
        self.transition = nn.Parameter(torch.zeros(num_labels, num_labels))
        self.skip, self.beta, self.margin, self.labels_per_span = skip, beta, margin, labels_per_span

    def forward(
        self, local_scores: Tensor, global_scores: Tensor, gold: Triples | Gold, mask: Mask = None
    ) -> dict[str, Tensor]:
        """Compute both losses of each sentence, (B,) each: `filtering`, by which the local scores learn, and
        `segmentation`. Their sum is what is minimised."""
        lengths = _lengths("local_scores", local_scores, 4, mask)
        log_prob = self._sets(local_scores, global_scores, lengths, gold).log_prob(gold)
        return {"filtering": filtering_loss(local_scores, gold, lengths, self.beta), "segmentation": -log_prob}

    @torch.no_grad()
    def predict(self, local_scores: Tensor, global_scores: Tensor, mask: Mask = None) -> list[tuple[Segment, ...]]:
        """Find the best segments of each sentence."""
        return self.distribution(local_scores, global_scores, mask).mode

    def distribution(self, local_scores: Tensor, global_scores: Tensor, mask: Mask = None) -> Distribution:
        """Make the distribution over sets of what the filter keeps of each sentence."""
        return self._sets(local_scores, global_scores, _lengths("local_scores", local_scores, 4, mask))

    def _sets(self, local_scores: Tensor, global_scores: Tensor, lengths: Tensor, gold: Any = None) -> Distribution:
        inputs = (with_margin(local_scores, self.margin), global_scores, self.transition, lengths, gold)
        return FilteredSemiMarkov.from_scores(*inputs, self.skip, labels_per_span=self.labels_per_span)


class NestedLayer(FilteredSemiMarkovLayer):
    """A distribution over nested segments as a layer: of two segments one contains the other, or they share no token.

    It is the filtered layer but for that, with `skip`. `transition[parent, child]` goes from a container to what it
    contains, row 0 being the sentence.
    """

    def __init__(self, num_labels: int, beta: float = 1.0, margin: float = 0.0, labels_per_span: int = 1) -> None:
        super().__init__(num_labels, True, beta, margin, labels_per_span)

    def _sets(self, local_scores: Tensor, global_scores: Tensor, lengths: Tensor, gold: Any = None) -> Distribution:
        inputs = (with_margin(local_scores, self.margin), global_scores, self.transition, lengths, gold)
        return NestedSegments.from_scores(*inputs, labels_per_span=self.labels_per_span)


def _lengths(name: str, scores: Tensor, ndim: int, mask: Mask) -> Tensor:
    scores = checked_scores(name, scores, ndim, look=False)
    num_sentences, num_tokens = scores.shape[:2]
    if isinstance(mask, Tensor) and mask.ndim == 2:
        mask = lengths_of_mask(mask, scores)
    return checked_lengths([num_tokens] * num_sentences if mask is None else mask, num_sentences, num_tokens, scores)
