"""How sure a model is of whole sentences: its k-best readings with their probabilities, and the entropy.

Given the candidates, where the model filters: what the filter left out has no probability at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spansieve.crf import Distribution
from spansieve.data.tokenizer import Token
from spansieve.models.found import Found
from spansieve.models.predicting import predict_segments
from spansieve.models.readings import readings_of
from spansieve.models.tagger import Tagger
from spansieve.prediction.text_predictor import entities_of
from spansieve.segments import Entity


class Reading(NamedTuple):
    """A whole set of entities, and the probability that these and no others are there."""

    entities: list[Entity]
    probability: float


class Analysis(NamedTuple):
    """A sentence, or whatever was read as one sequence, `text[start:end]`."""

    start: int
    end: int
    tokens: list[Token]
    entities: list[Entity]  # each with the probability of its own
    readings: list[Reading]  # best first; the first has the same entities
    entropy: float  # in nats, of the distribution over all readings


class Analysed(NamedTuple):
    """The analysis of a sentence, in tokens."""

    found: Found
    readings: list[Found]  # each with the one probability of the whole
    entropy: float


def analyse_tokens(
    tagger: Tagger, sentences: Sequence[Sequence[str]], top_k: int, batch_tokens: int | None = None
) -> list[Analysed]:
    if top_k < 1:
        raise ValueError(f"top_k must be at least 1, got {top_k}")
    readings: list[list[Found]] = [[] for _ in sentences]
    entropies = [0.0] * len(sentences)

    def look(indices: Sequence[int], distribution: Distribution) -> None:
        best = readings_of(tagger.head, distribution, top_k)
        for i, found, entropy in zip(indices, best, distribution.entropy().tolist()):
            readings[i] = [Found(tagger.named(segments), [share]) for segments, share in found]
            entropies[i] = max(0.0, entropy)

    found = predict_segments(tagger, sentences, with_probabilities=True, look=look, batch_tokens=batch_tokens)
    return [Analysed(*parts) for parts in zip(found, readings, entropies)]


def analysis_of(text: str, tokens: list[Token], analysed: Analysed) -> Analysis:
    """The analysis of a sentence, in characters, from that in tokens."""
    readings = []
    for segments, share in analysed.readings:
        assert share is not None
        readings.append(Reading(entities_of(text, tokens, Found(segments, None)), share[0]))
    entities = entities_of(text, tokens, analysed.found)
    return Analysis(tokens[0].start, tokens[-1].end, tokens, entities, readings, analysed.entropy)
