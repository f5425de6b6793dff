"""A linear chain given what is known of the segments that its tags spell.

Axes: B sentences, L tokens, Y tags.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from spansieve.crf.distribution import Distribution
from spansieve.crf.evidence import FlatKnown, Known
from spansieve.crf.gold import Gold, Parts
from spansieve.crf.linear_chain import LinearChain
from spansieve.crf.tag_automaton import Tags, WatchedTags


class ChainGiven(LinearChain):
    """A linear chain given what is known: its own tags outside, those of watched segments too inside."""

    def __init__(self, chain: LinearChain, known: Sequence[Known], flat: FlatKnown, tags: Tags) -> None:
        self.without_known, self.known, self.lengths = chain, known, chain.lengths
        _, num_tokens, self._num_tags = chain.scores.shape
        lengths, device = chain.lengths.cpu().numpy(), chain.scores.device
        self.written = WatchedTags(flat, tags, self._num_tags, lengths, num_tokens)
        self._base = torch.from_numpy(self.written.base).to(device)
        is_impossible = torch.from_numpy(self.written.is_impossible(flat, num_tokens)).to(device)
        scores = chain.scores.index_select(2, self._base).masked_fill(is_impossible, -torch.inf)
        can_follow = torch.from_numpy(self.written.can_follow()).to(device)
        by_watch = chain.transition.index_select(0, self._base).index_select(1, self._base)
        by_watch = by_watch.masked_fill(~can_follow, -torch.inf)
        Distribution.__init__(self, scores, by_watch, chain.num_sentences, chain._kernel)

    @property
    def marginals(self) -> Tensor:
        return self._folded(super().marginals, 2)

    @property
    def transition_counts(self) -> Tensor:
        return self._folded(self._folded(super().transition_counts, 1), 2)

    def _folded(self, values: Tensor, dim: int) -> Tensor:
        shape = list(values.shape)
        shape[dim] = self._num_tags
        return values.new_zeros(shape).index_add(dim, self._base, values)

    def _cut(self, tags: Tensor) -> list[list[int]]:
        return super()._cut(self._base[tags.to(torch.int64)])

    def _parts(self, structures: Sequence[Sequence[int]]) -> Parts:
        num_sentences, num_tokens, _ = self.scores.shape
        own = Gold.from_tags(structures, (num_sentences, num_tokens, self._num_tags))  # checks them
        return self._parts_of_gold(own)

    def _parts_of_gold(self, gold: Gold) -> Parts:
        shape = (*self.scores.shape[:2], self._num_tags)
        if gold.shape != shape:
            raise ValueError(f"gold must be made for scores of shape {shape}, got {gold.shape}")
        bounds = gold.parts.offsets[0].tolist()
        tags = (gold.parts.part % self._num_tags).tolist()
        written = [self.written.of_sequence(b, tags[a:z]) for b, (a, z) in enumerate(zip(bounds, bounds[1:]))]
        return super()._parts_of_gold(Gold.from_tags(written, self.scores.shape, self.scores.device))
