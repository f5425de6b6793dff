"""The two losses of a filtered model: the filter learns by one of them, the distribution over its paths by the other.

Axes: B sentences, L tokens, K widths, Y labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor, nn

from spansieve.crf.candidates import span_ends
from spansieve.crf.filtered_semi_markov import FilteredSemiMarkov
from spansieve.crf.gold import Gold, Triples, entity_gold
from spansieve.crf.kernels import has_triton
from spansieve.crf.validation import checked_lengths, checked_scores

IGNORED = -100  # the label of what is no span, and the tag of padding: no loss is of it


class FilteredLosses(NamedTuple):
    """The losses of a filtered model, one number per sentence each. What is minimised is their sum, `sum(losses)`."""

    filtering: Tensor  # (B,): what the local scores learn by
    segmentation: Tensor  # (B,): what the global scores and the transition learn by


def filtered_losses(
    local_scores: Tensor,
    global_scores: Tensor,
    transition: Tensor,
    lengths: Tensor | Sequence[int],
    gold: Triples | Gold,
    *,
    skip: bool = False,
    beta: float = 1.0,
) -> FilteredLosses:
    """Compute both losses of a filtered semi-Markov CRF (Zaratiana et al., Findings of EMNLP 2023) from dense scores.

    What the filter keeps is no differentiable function of the local scores: -log P(gold) alone teaches them nothing,
    and a model that is trained by it finds nothing. The arguments are those of `FilteredSemiMarkov.from_scores` and of
    `filtering_loss`.
    """
    paths = FilteredSemiMarkov.from_scores(local_scores, global_scores, transition, lengths, gold, skip)
    return FilteredLosses(filtering_loss(local_scores, gold, lengths, beta), -paths.log_prob(gold))


def filtering_loss(
    local_scores: Tensor, gold: Triples | Gold, lengths: Tensor | Sequence[int], beta: float = 1.0
) -> Tensor:
    """Compute the paper's filtering loss, (B,): the cross-entropy of every span of a sentence against its gold label,
    which is null where there is no gold segment, null spans weighted by β.

    `local_scores[b, i, w, y]` is the local score of the segment that starts at i, has width w + 1 and label y.

    >>> filtering_loss(torch.zeros(1, 3, 2, 4), [[(0, 2, 1)]], lengths=[3])  # five spans, four labels: 5 · log 4
    tensor([6.9315])
    """
    local_scores = checked_scores("local_scores", local_scores, 4)
    lengths = checked_lengths(lengths, local_scores.shape[0], local_scores.shape[1], local_scores)
    return span_cross_entropy(local_scores, labels_of_spans(entity_gold(gold, local_scores, lengths), lengths), beta)


def with_margin(local_scores: Tensor, margin: float) -> Tensor:
    """Lower the local scores of null by a margin: the filter keeps each span whose best label comes that near to it."""
    if not margin:
        return local_scores
    return torch.cat((local_scores[..., :1] - margin, local_scores[..., 1:]), -1)


def labels_of_spans(gold: Gold, lengths: Tensor) -> Tensor:
    """The gold label of every span, (B, L, K): null where no gold segment is, IGNORED where there is no such span."""
    part, num_labels = gold.parts.part, gold.shape[-1]
    ends = span_ends(torch.empty(gold.shape[:3], device=part.device))  # (L, K)
    labels = torch.where(ends <= lengths[:, None, None], 0, IGNORED)  # (B, L, K)
    labels.view(-1).index_put_((part // num_labels,), part % num_labels)
    return labels


def span_cross_entropy(local_scores: Tensor, span_labels: Tensor, beta: float) -> Tensor:
    """Sum the cross-entropy of every span over a sentence, (B,), from labels (B, L, K) that may be IGNORED."""
    if local_scores.is_cuda and local_scores.dtype is torch.float32 and has_triton():
        from spansieve.crf.kernels.cuda.cross_entropy import SpanCrossEntropy

        return SpanCrossEntropy.apply(local_scores, span_labels, beta)
    num_labels = local_scores.shape[-1]
    weight = None if beta == 1 else _weights(num_labels, beta, local_scores.dtype, local_scores.device)
    loss = nn.functional.cross_entropy(
        local_scores.reshape(-1, num_labels), span_labels.flatten(), weight, ignore_index=IGNORED, reduction="none"
    )
    return loss.view(span_labels.shape).sum((1, 2))


@lru_cache(maxsize=32)
def _weights(num_labels: int, beta: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Weights of the labels, 1 for all but null. Made once: a GPU would wait for each of the small steps."""
    with torch.inference_mode(False):
        return torch.tensor([beta] + [1.0] * (num_labels - 1), dtype=dtype, device=device)
