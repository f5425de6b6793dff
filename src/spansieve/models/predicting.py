"""A model over many sentences: batched by length, answered in the order of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from spansieve.crf import Distribution
from spansieve.data.batching import batches_by_length, prepared_ahead
from spansieve.models.tagger import Batch, Tagger
from spansieve.segments import NamedSegment

MOST_TOKENS = 4_000  # in a batch, padding included
MOST_SENTENCES = 256


class Found(NamedTuple):
    """What the model sees in a sentence."""

    segments: list[NamedSegment]
    probabilities: list[float] | None  # of each segment, where they were asked for


def predict_segments(
    tagger: Tagger,
    sentences: Sequence[Sequence[str]],
    with_probabilities: bool = False,
    look: Callable[[Sequence[int], Distribution], None] | None = None,
) -> list[Found]:
    """The best set of segments of each sentence. `look` sees each batch's indices and its distribution."""
    _check_sentences(sentences)
    found: list[Found | None] = [None] * len(sentences)
    was_training = tagger.training
    tagger.eval()
    try:
        batches = list(batches_by_length([len(s) for s in sentences], MOST_TOKENS, MOST_SENTENCES))

        def make(batch: list[int]) -> Batch:
            return tagger.batch([sentences[i] for i in batch])

        with torch.inference_mode():
            made = map(make, batches) if tagger.device.type == "cpu" else prepared_ahead(batches, make)
            for indices, batch in zip(batches, made):
                distribution = tagger.distribution(batch.to(tagger.device))
                if look is not None:
                    look(indices, distribution)
                segments = tagger.segments(distribution)
                probabilities = tagger.head.probabilities(distribution, segments) if with_probabilities else None
                for row, i in enumerate(indices):
                    found[i] = Found(tagger.named(segments[row]), None if probabilities is None else probabilities[row])
    finally:
        tagger.train(was_training)
    return [one for one in found if one is not None]


def _check_sentences(sentences: Sequence[Sequence[str]]) -> None:
    for sentence in sentences:
        if isinstance(sentence, str):  # its characters would be the tokens
            raise TypeError(f"a sentence must be a sequence of tokens, got {sentence!r}")
        if not {str}.issuperset(map(type, sentence)):
            for token in sentence:
                if not isinstance(token, str):
                    raise TypeError(f"a token must be a string, got {token!r}")
