"""Which texts to annotate next (active learning): those of which a model is least sure.

The sentences of a text are independent under the model, so that the measures of the text follow exactly from them.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, get_args

from spansieve.decoding.prediction import check_choice
from spansieve.prediction.predictor import Analysis, Predictor
from spansieve.prediction.text_predictor import chunks_of
from spansieve.segments import Entity

Measure = Literal["entropy", "least-confidence", "margin", "filter"]
SIMILAR = 0.6  # of the distinct words of two near-duplicates, together
MEASURES: tuple[Measure, ...] = get_args(Measure)


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
    diverse: bool = False,
) -> list[Ranked]:
    """Rank texts, the least sure ones first; at most `most` of them, which are all that is held. Of equals, that which
    came first.

    `entropy`           of the distribution over sets of entities, in nats
    `least-confidence`  1 - P(best alternative)
    `margin`            1 - (P(best) - P(second best))
    `filter`            the entropy of the filter's labels, summed over spans: for models that filter, whose
                        distribution is one over what was kept, and often of a single set

    With `per_token`, so that long texts are not the least sure just for being long, entropies are divided by the number
    of tokens, P(best alternative) is the geometric mean over them, and the margin the mean of that of each token's
    sentence.

    `diverse`: near-duplicates come late. Of texts that have at least SIMILAR of their distinct words in common, without
    regard to case, the least sure one keeps its place, and the others follow behind all that have no such text before
    them, where the same is done again. All texts are held then.
    """
    check_choice("by", by, Measure)
    if by == "filter" and not predictor.tagger.head.decoder_settings.filters:
        raise ValueError(f"by='filter' needs a model that filters, got the head {predictor.tagger.config.head!r}")
    ranked = _scored(predictor, texts, by, per_token)
    if diverse:
        return diversified(sorted(ranked, key=_order))[:most]
    if most is None:
        return sorted(ranked, key=_order)
    return heapq.nsmallest(most, ranked, key=_order)


def diversified(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Put near-duplicates behind the rest, round by round; the order is kept otherwise."""
    words = [frozenset(token.text.lower() for s in text.sentences for token in s.tokens) for text in ranked]
    frequency = Counter(word for text in words for word in text)
    rarest_first = [sorted(text, key=lambda word: (frequency[word], word)) for text in words]
    order: list[int] = []
    waiting = list(range(len(ranked)))
    while waiting:
        placed_by_word: dict[str, list[int]] = {}
        late = []
        for i in waiting:
            # Two sets with so much in common share one of the rarest words of each: all but a part of SIMILAR of them.
            prefix = rarest_first[i][: len(words[i]) - math.ceil(SIMILAR * len(words[i])) + 1]
            near = {j for word in prefix for j in placed_by_word.get(word, ())}
            if any(len(words[i] & words[j]) >= SIMILAR * len(words[i] | words[j]) for j in near):
                late.append(i)
                continue
            order.append(i)
            for word in prefix:
                placed_by_word.setdefault(word, []).append(i)
        waiting = late
    return [ranked[i] for i in order]


def _order(ranked: Ranked) -> tuple[float, int]:
    return -ranked.score, ranked.place


def _scored(predictor: Predictor, texts: Iterable[str], by: Measure, per_token: bool) -> Iterator[Ranked]:
    wanted: dict[str, Any] = {"top_k": 2 if by == "margin" else 1, "filter_entropy": by == "filter"}
    analysed = (pair for chunk in chunks_of(texts) for pair in zip(chunk, predictor.analyse(chunk, **wanted)))
    for place, (text, sentences) in enumerate(analysed):
        yield Ranked(text, place, uncertainty(sentences, by, per_token), sentences)


def uncertainty(sentences: Sequence[Analysis], by: Measure, per_token: bool = False) -> float:
    """Compute the uncertainty of a text from its sentences; 0 of an empty one. That of the filter must be in them."""
    divisor = max(1, sum(len(sentence.tokens) for sentence in sentences)) if per_token else 1
    if by in ("entropy", "filter"):
        values = (s.entropy if by == "entropy" else s.filter_entropy for s in sentences)
        return math.fsum(values) / divisor
    if by == "least-confidence":
        return 1 - math.exp(math.fsum(_log(sentence.alternatives[0].probability) for sentence in sentences) / divisor)
    if per_token:
        return math.fsum(len(sentence.tokens) * _one_less_margin([sentence]) for sentence in sentences) / divisor
    return _one_less_margin(sentences)


def _one_less_margin(sentences: Sequence[Analysis]) -> float:
    logs = [[_log(alternative.probability) for alternative in sentence.alternatives] for sentence in sentences]
    best = math.fsum(first for first, *_ in logs)
    # The second best alternative of the text has that of one sentence in place of its best.
    falls = [second - first for first, second, *_ in (some for some in logs if len(some) > 1)]
    return 1 - (math.exp(best) - math.exp(best + max(falls, default=-math.inf)))


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf
