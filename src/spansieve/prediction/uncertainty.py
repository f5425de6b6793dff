"""Which texts to annotate next (active learning): those of which a model is least sure.

The sentences of a text are independent under the model, so that the measures of the text follow exactly from them.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import torch

from spansieve.data.batching import batches_by_length
from spansieve.models.filtered import FilteredHead
from spansieve.models.found import MOST_SENTENCES, MOST_TOKENS, readable_sentences
from spansieve.models.local_scores import local_log_probabilities
from spansieve.models.sizing import sizes_of
from spansieve.models.tagger import Tagger
from spansieve.prediction.analysing import Analysis
from spansieve.prediction.predictor import Predictor
from spansieve.prediction.text_predictor import chunks_of
from spansieve.segments import Entity

Measure = Literal["entropy", "least-confidence", "margin", "filter"]
MEASURES: tuple[Measure, ...] = ("entropy", "least-confidence", "margin", "filter")


class Ranked(NamedTuple):
    """A text with the model's prediction, and how unsure it is: the higher, the less sure."""

    text: str
    place: int  # which of the texts it was, from 0
    score: float
    sentences: list[Analysis]

    @property
    def entities(self) -> list[Entity]:
        return [entity for sentence in self.sentences for entity in sentence.entities]


def rank(
    predictor: Predictor,
    texts: Iterable[str],
    by: Measure = "entropy",
    per_token: bool = False,
    most: int | None = None,
) -> list[Ranked]:
    """Rank texts, the least sure ones first; at most `most` of them, which are all that is held. Of equals, that which
    came first.

    `entropy`           of the distribution over readings, in nats
    `least-confidence`  1 - P(best reading)
    `margin`            1 - (P(best) - P(second best))
    `filter`            the entropy of the filter's labels, summed over spans: for models that filter, whose
                        distribution is one over what was kept, and often of a single reading

    With `per_token`, so that long texts are not the least sure just for being long, entropies are divided by the number
    of tokens, P(best reading) is the geometric mean over them, and the margin the mean of that of each one's sentence.
    """
    if by not in MEASURES:
        raise ValueError(f"by must be one of {', '.join(MEASURES)}, got {by!r}")
    if by == "filter" and not isinstance(predictor.tagger.head, FilteredHead):
        raise ValueError(f"by='filter' needs a model that filters, got the head {predictor.tagger.config.head!r}")
    ranked = _scored(predictor, texts, by, per_token)
    if most is None:
        return sorted(ranked, key=_order)
    return heapq.nsmallest(most, ranked, key=_order)


def _order(ranked: Ranked) -> tuple[float, int]:
    return -ranked.score, ranked.place


def _scored(predictor: Predictor, texts: Iterable[str], by: Measure, per_token: bool) -> Iterator[Ranked]:
    place = 0
    for chunk in chunks_of(texts):
        analyses = predictor.analyse(chunk, top_k=2 if by == "margin" else 1)
        entropies: Iterator[float] = iter(())
        if by == "filter":
            sentences = [[token.text for token in one.tokens] for found in analyses for one in found]
            entropies = iter(filter_entropies(predictor.tagger, sentences, predictor.batch_tokens))
        for text, found in zip(chunk, analyses):
            if by == "filter":
                score = math.fsum(next(entropies) for _ in found) / _divisor(found, per_token)
            else:
                score = uncertainty(found, by, per_token)
            yield Ranked(text, place, score, found)
            place += 1


def uncertainty(sentences: Sequence[Analysis], by: Measure, per_token: bool = False) -> float:
    """The uncertainty of a text, from its sentences; 0 of an empty one. That of the filter is not in them."""
    if by == "filter":
        raise ValueError("by='filter' needs the model, which filter_entropies takes; an analysis does not tell")
    divisor = _divisor(sentences, per_token)
    if by == "entropy":
        return math.fsum(sentence.entropy for sentence in sentences) / divisor
    if by == "least-confidence":
        return 1 - math.exp(math.fsum(_log(sentence.readings[0].probability) for sentence in sentences) / divisor)
    if per_token:
        return math.fsum(len(sentence.tokens) * _one_less_margin([sentence]) for sentence in sentences) / divisor
    return _one_less_margin(sentences) if sentences else 0.0


def _one_less_margin(sentences: Sequence[Analysis]) -> float:
    best = math.fsum(_log(sentence.readings[0].probability) for sentence in sentences)
    # The second best reading of the text has that of one sentence in place of its best.
    falls = [
        _log(sentence.readings[1].probability) - _log(sentence.readings[0].probability)
        for sentence in sentences
        if len(sentence.readings) > 1
    ]
    return 1 - (math.exp(best) - math.exp(best + max(falls, default=-math.inf)))


def _divisor(sentences: Sequence[Analysis], per_token: bool) -> int:
    return max(1, sum(len(sentence.tokens) for sentence in sentences)) if per_token else 1


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf


def filter_entropies(
    tagger: Tagger, sentences: Sequence[Sequence[str]], batch_tokens: int | None = None
) -> list[float]:
    """How unsure the filter is: the entropy of the label of each span, in nats, summed over the spans."""
    assert isinstance(tagger.head, FilteredHead)
    readable = readable_sentences(sentences)
    entropies = [0.0] * len(readable)
    sizes = sizes_of(tagger.encoder, readable)
    for indices in batches_by_length(sizes, batch_tokens or MOST_TOKENS, MOST_SENTENCES):
        batch = tagger.batch([readable[i] for i in indices]).to(tagger.device)
        with torch.inference_mode():
            scores = tagger.head.scores(tagger.vectors(batch))
            log_probability, is_span = local_log_probabilities(tagger.head, scores, batch.lengths)
            entropy = -(log_probability.exp() * log_probability).sum(-1)  # (B, L, K)
            for i, value in zip(indices, entropy.masked_fill(~is_span, 0.0).sum((1, 2)).tolist()):
                entropies[i] = value
    return entropies
