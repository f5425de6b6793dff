"""Error analysis of a filtered model: whether gold is lost to its width, to its filter, or to its path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from spansieve.data.example import Example
from spansieve.decoding.prediction import Prediction, Probability
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import graph_counter, predict_segments
from spansieve.segments import NamedSegment


@dataclass(frozen=True)
class GoldOutcomes:
    """The error analysis of gold segments: found, or where they were lost. Each counts once, so that they add up."""

    gold: int
    unknown: int  # a label that the training data does not have
    width: int  # wider than max_width
    filter: int  # not a candidate, or one with another label
    path: int  # a candidate, but not on the best path
    found: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


def predict_with_outcomes(
    tagger: Tagger,
    examples: Sequence[Example],
    with_probabilities: bool = False,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
) -> tuple[list[Prediction], GoldOutcomes | None]:
    """Predict, and analyse the errors of a filtered model, in one pass."""
    counts, count = graph_counter(tagger, examples)
    sentences = [example.tokens for example in examples]
    predictions = predict_segments(tagger, sentences, with_probabilities, count, batch_tokens, probability)
    if count is None:
        return predictions, None
    kept = sum(batch.gold_kept for batch in counts)
    return predictions, _outcomes(tagger, examples, [prediction.segments for prediction in predictions], kept)


def _outcomes(
    tagger: Tagger, examples: Sequence[Example], predicted: Sequence[Sequence[NamedSegment]], kept: int
) -> GoldOutcomes:
    gold = [segment for example in examples for segment in {*example.segments}]
    known = [segment for example in examples for segment in tagger.known_segments(example)]
    fitting = sum(tagger.head.fits(segment) for segment in known)
    right = sum(len({*example.segments} & {*segments}) for example, segments in zip(examples, predicted))
    return GoldOutcomes(
        gold=len(gold),
        unknown=len(gold) - len(known),
        width=len(known) - fitting,
        filter=fitting - kept,
        path=kept - right,
        found=right,
    )
