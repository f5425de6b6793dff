"""A model over many sentences: batched by length, answered in the order of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from spansieve.crf import Distribution
from spansieve.data.batching import batches_by_length, prepared_ahead
from spansieve.models.filtered import FilteredHead
from spansieve.models.found import (
    MOST_SENTENCES,
    MOST_TOKENS,
    Found,
    Probability,
    check_probability,
    readable_sentences,
)
from spansieve.models.local_scores import local_probabilities
from spansieve.models.sizing import sizes_of
from spansieve.models.tagger import Batch, Tagger


def predict_segments(
    tagger: Tagger,
    sentences: Sequence[Sequence[str]],
    with_probabilities: bool = False,
    look: Callable[[Sequence[int], Distribution], None] | None = None,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
) -> list[Found]:
    """The best set of segments of each sentence, the same whatever `batch_tokens` is: so many are read at once, those
    of one sentence at least. `look` sees each batch's indices and its distribution."""
    check_probability(probability)
    kind = probability if with_probabilities else None
    readable = readable_sentences(sentences)
    most_tokens = MOST_TOKENS if batch_tokens is None else batch_tokens
    if most_tokens < 1:
        raise ValueError(f"batch_tokens must be at least 1, got {most_tokens}")
    found: list[Found | None] = [None] * len(readable)
    was_training = tagger.training
    tagger.eval()
    try:
        batches = list(batches_by_length(sizes_of(tagger.encoder, readable), most_tokens, MOST_SENTENCES))

        def make(batch: list[int]) -> Batch:
            return tagger.batch([readable[i] for i in batch])

        # Who looks may ask for the k best, which come by way of gradients; inference mode knows none.
        with torch.inference_mode() if look is None else torch.no_grad():
            made = map(make, batches) if tagger.device.type == "cpu" else prepared_ahead(batches, make)
            for indices, batch in zip(batches, made):
                seen = None if look is None else partial(look, indices)
                for i, one in zip(indices, _found(tagger, batch.to(tagger.device), kind, seen)):
                    found[i] = one
    finally:
        tagger.train(was_training)
    return [one for one in found if one is not None]


def _found(
    tagger: Tagger, batch: Batch, probability: Probability | None, look: Callable[[Distribution], None] | None
) -> list[Found]:
    tokens = tagger._tokens(batch)
    distribution = tagger.head.distribution(tokens, batch.lengths)
    if look is not None:
        look(distribution)
    segments = tagger.segments(distribution)
    named = [tagger.named(one) for one in segments]
    if probability is None:
        return [Found(one, None) for one in named]
    shares = tagger.head.probabilities(distribution, segments)
    if probability == "with-filter" and isinstance(tagger.head, FilteredHead):
        by_filter = local_probabilities(tagger, tokens, batch.lengths, segments)
        shares = [[share * other for share, other in zip(*both)] for both in zip(shares, by_filter)]
    return [Found(*both) for both in zip(named, shares)]
