"""The filter's probabilities of every span, before anything is kept.

Axes: B sentences, L tokens, K widths, Y labels.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from spansieve.crf.candidates import span_ends
from spansieve.models.filtered import FilteredHead
from spansieve.models.head import places_of
from spansieve.models.under_rules import by_sentence
from spansieve.segments import Segment


def local_log_probabilities(head: FilteredHead, scores: tuple[Tensor, ...], lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Compute log P(label of this span) by the filter alone, (B, L, K, Y), and where there is such a span, (B, L, K).

    `scores` are those of the head.
    """
    local_scores = head.learned_local_scores(scores)
    return local_scores.log_softmax(-1), span_ends(local_scores) <= lengths[:, None, None]


def local_probabilities(
    head: FilteredHead, scores: tuple[Tensor, ...], lengths: Tensor, entities: Sequence[Sequence[Segment]]
) -> list[list[float]]:
    """Compute P(the span has this label) of each entity, by the filter alone."""
    if not any(entities):
        return [[] for _ in entities]
    log_probability, _ = local_log_probabilities(head, scores, lengths)
    values = log_probability[places_of(entities, log_probability.device)].exp()
    return by_sentence(values.tolist(), entities)
