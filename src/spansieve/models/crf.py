"""CRF: a linear chain over tags, ill-formed sequences left out of the model.

Axes: B sentences, L tokens, Y tags, N entities.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from spansieve.config import ModelConfig
from spansieve.crf import Gold, LinearChain, TagConstraints, given
from spansieve.decoding.tag_codec import TagCodec
from spansieve.models.head import Head, HeadGold, Unknown, known_of
from spansieve.segments import LabelSet, Segment


class CRF(Head):
    """The linear-chain CRF of Lafferty et al. (2001) over BIO or BIOES tags."""

    kind = "linear-chain"
    takes_padded_gold = True

    def __init__(self, config: ModelConfig, labels: LabelSet, size: int, max_width: int) -> None:
        super().__init__(config, labels, size, max_width)
        self.scheme = config.scheme
        self.tags = TagCodec(labels, config.scheme)
        self.constraints = TagConstraints.from_tags(self.tags.names)
        hidden_size, num_tags = config.hidden_size, len(self.tags)
        self.output: nn.Module
        if config.features in ("sum", "mean"):  # linear of segments, and so of tokens: as the paper has it
            self.output = nn.Linear(size, num_tags)
        else:
            layers = nn.Linear(size, hidden_size), nn.ReLU(), nn.Dropout(config.dropout)
            self.output = nn.Sequential(*layers, nn.Linear(hidden_size, num_tags))
        self.transition = nn.Parameter(torch.zeros(num_tags, num_tags))

    def decoder_arrays(self) -> dict[str, Tensor]:
        """The arrays that the decoder takes, with -inf for what the constraints of a chain forbid."""
        zeros, constraints = self.transition.new_zeros(len(self.tags)), self._constraints_on(self.transition.device)
        return {
            "transition": self.transition.masked_fill(~constraints.is_allowed, -torch.inf),
            "start": zeros.masked_fill(~constraints.can_start, -torch.inf),
            "end": zeros.masked_fill(~constraints.can_end, -torch.inf),
        }

    def gold(self, segments: Sequence[Sequence[Segment]], lengths: Sequence[int], unknown: Unknown = None) -> HeadGold:
        tags = [self.tags.of_segments(sentence, length) for sentence, length in zip(segments, lengths)]
        known = None if unknown is None else tuple(map(known_of, segments, unknown, lengths))
        return HeadGold(Gold.from_tags(tags, (len(lengths), max(lengths, default=0), len(self.tags))), known=known)

    def losses(self, vectors: Tensor, lengths: Tensor, gold: HeadGold) -> dict[str, Tensor]:
        chain = self.distribution(vectors, lengths)
        if gold.known is None:
            return {"sequence": -chain.log_prob(gold.structures)}
        return {"sequence": chain.log_partition - given(chain, gold.known, tags=self.tags).log_partition}

    def check_teacher(self, teacher: Head) -> None:
        super().check_teacher(teacher)
        if isinstance(teacher, CRF) and teacher.scheme != self.scheme:
            raise ValueError(f"model.scheme must be {teacher.scheme}, that of the teacher, got {self.scheme}")

    def distribution_of(self, scores: tuple[Tensor, ...], lengths: Tensor) -> LinearChain:
        (tag_scores,) = scores
        return LinearChain(tag_scores, self.transition, lengths, self._constraints_on(tag_scores.device))

    def _constraints_on(self, device: torch.device) -> TagConstraints:
        """Copy the constraints once: a copy has no place in each step, or in a graph that is captured."""
        if self.constraints.is_allowed.device != device:
            masks = (self.constraints.is_allowed, self.constraints.can_start, self.constraints.can_end)
            with torch.inference_mode(False):  # what is made there, no later loss may take
                self.constraints = TagConstraints(*(mask.to(device) for mask in masks))
        return self.constraints

    def scores(self, vectors: Tensor) -> tuple[Tensor]:
        """The scores of the tags, (B, L, Y)."""
        return (self.output(vectors).float(),)

    def entities(self, structure: Any) -> tuple[Segment, ...]:
        return self.tags.segments(structure)
