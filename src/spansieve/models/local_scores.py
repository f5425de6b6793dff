"""What a filter says of every span, before anything is kept.

Axes: B sentences, L tokens, K widths, Y labels.
"""

from __future__ import annotations

import torch
from torch import Tensor

from spansieve.models.tagger import Batch, Tagger


def local_log_probabilities(tagger: Tagger, batch: Batch) -> tuple[Tensor, Tensor]:
    """log P(label of this span) by the filter alone, (B, L, K, Y), and where there is such a span, (B, L, K).

    The model must be one that filters.
    """
    scores = tagger.head.scores(tagger._tokens(batch))[0]
    start = torch.arange(scores.shape[1], device=scores.device)[:, None]
    end = start + torch.arange(1, scores.shape[2] + 1, device=scores.device)  # (L, K)
    return scores.log_softmax(-1), end <= batch.lengths[:, None, None]
