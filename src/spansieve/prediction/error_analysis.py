"""Error analysis of a filtered model: whether gold is lost to its width, to its filter, or to its path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from spansieve.crf import Distribution
from spansieve.data.example import Example
from spansieve.models.filtered import FilteredHead, GraphCounts
from spansieve.models.found import Found, Probability
from spansieve.models.predicting import predict_segments
from spansieve.models.tagger import Tagger
from spansieve.segments import NamedSegment


@dataclass(frozen=True)
class Fates:
    """The error analysis of gold segments: found, or where they were lost. Each counts once, so that they add up."""

    gold: int
    unknown: int  # a label that the training data does not have
    width: int  # wider than max_width
    filter: int  # not a candidate, or one with another label
    path: int  # a candidate, but not on the best path
    found: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


def predict_with_fates(
    tagger: Tagger,
    examples: Sequence[Example],
    with_probabilities: bool = False,
    batch_tokens: int | None = None,
    probability: Probability = "given-candidates",
) -> tuple[list[Found], Fates | None]:
    """Predict, and analyse the errors of a filtered model, in one pass."""
    head, counts = tagger.head, [GraphCounts()]

    def look(indices: Sequence[int], distribution: Distribution) -> None:
        assert isinstance(head, FilteredHead)
        counts.append(head.graph_counts(distribution, [tagger.known_segments(examples[i]) for i in indices]))

    is_filtered = isinstance(head, FilteredHead)
    found = predict_segments(
        tagger,
        [example.tokens for example in examples],
        with_probabilities,
        look if is_filtered else None,
        batch_tokens,
        probability,
    )
    kept = sum(one.gold_kept for one in counts)
    return found, _fates(tagger, examples, [one.segments for one in found], kept) if is_filtered else None


def _fates(tagger: Tagger, examples: Sequence[Example], found: Sequence[Sequence[NamedSegment]], kept: int) -> Fates:
    gold = [segment for example in examples for segment in {*example.segments}]
    known = [segment for example in examples for segment in tagger.known_segments(example)]
    fitting = sum(tagger.head.fits(segment) for segment in known)
    right = sum(len({*example.segments} & {*segments}) for example, segments in zip(examples, found))
    return Fates(
        gold=len(gold),
        unknown=len(gold) - len(known),
        width=len(known) - fitting,
        filter=fitting - kept,
        path=kept - right,
        found=right,
    )
