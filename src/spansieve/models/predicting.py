"""A model over many sentences: batched by length, returned in the order of the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch

from spansieve.crf import Distribution
from spansieve.data.batching import batches_of_groups
from spansieve.models.constraints import Constraints, Rules, alike, checked_constraints
from spansieve.models.deciding import decide, support_of
from spansieve.models.found import (
    MOST_SENTENCES,
    MOST_TOKENS,
    Found,
    Probability,
    check_probability,
    readable_sentences,
)
from spansieve.models.scoring import Scored, scored_batches
from spansieve.models.sizing import sizes_of
from spansieve.models.tagger import Tagger


def predict_segments(
    tagger: Tagger,
    sentences: Sequence[Sequence[str]],
    with_probabilities: bool = False,
    look: Callable[[Sequence[int], Distribution], None] | None = None,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
    constraints: Sequence[Constraints | None] | None = None,
) -> list[Found]:
    """The best set of segments of each sentence, the same whatever `batch_tokens` is: so many are read at once, those
    of one sentence at least. `look` is called with each batch's indices and distribution. `constraints` are in
    tokens."""
    check_probability(probability)
    readable = readable_sentences(sentences)
    rules = list(map(support_of(tagger).rules, checked_constraints(constraints, len(readable)), readable))
    most_tokens = MOST_TOKENS if batch_tokens is None else batch_tokens
    if most_tokens < 1:
        raise ValueError(f"batch_tokens must be at least 1, got {most_tokens}")
    found: list[Found | None] = [None] * len(readable)
    was_training = tagger.training
    tagger.eval()
    try:
        # `look` may compute the k-best, which come by way of gradients; inference mode has none.
        with torch.inference_mode() if look is None else torch.no_grad():
            batches = batches_of_groups(sizes_of(tagger.encoder, readable), alike(rules), most_tokens, MOST_SENTENCES)
            for scored in scored_batches(tagger, readable, batches):
                seen = None if look is None else partial(look, scored.indices)
                those = [rules[i] for i in scored.indices]
                wanted = (with_probabilities, probability)
                for i, one in zip(scored.indices, _found(tagger, scored, those, wanted, seen)):
                    found[i] = one
    finally:
        tagger.train(was_training)
    return [one for one in found if one is not None]


def _found(
    tagger: Tagger,
    scored: Scored,
    rules: Sequence[Rules],
    wanted: tuple[bool, Probability],
    look: Callable[[Distribution], None] | None,
) -> list[Found]:
    decided = decide(tagger, scored, rules, *wanted)
    if look is not None:
        look(decided.distribution)
    named = [tagger.named(one) for one in decided.segments]
    shares: Sequence[list[float] | None] = decided.probabilities or [None] * len(named)
    return [Found(*both) for both in zip(named, shares)]
