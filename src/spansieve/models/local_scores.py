"""The filter's probabilities of every span, before anything is kept.

Axes: B sentences, L tokens, K widths, Y labels.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from spansieve.crf.candidates import span_ends
from spansieve.models.head import places_of
from spansieve.models.tagger import Tagger
from spansieve.models.under_rules import by_sentence
from spansieve.segments import Segment


def local_log_probabilities(tagger: Tagger, vectors: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """log P(label of this span) by the filter alone, (B, L, K, Y), and where there is such a span, (B, L, K).

    The model must be one that filters.
    """
    # As they were learned, where the filter itself looks at them with a margin.
    scores = getattr(tagger.head, "learned_scores", tagger.head.scores)(vectors)[0]
    return scores.log_softmax(-1), span_ends(scores) <= lengths[:, None, None]


def local_probabilities(
    tagger: Tagger, vectors: Tensor, lengths: Tensor, entities: Sequence[Sequence[Segment]]
) -> list[list[float]]:
    """P(the span has this label) of each entity, by the filter alone."""
    if not any(entities):
        return [[] for _ in entities]
    log_probability, _ = local_log_probabilities(tagger, vectors, lengths)
    values = log_probability[places_of(entities, vectors.device)].exp()
    return by_sentence(values.tolist(), entities)
