"""Where a filtered model loses gold: to its width, to its filter, or to its path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from spansieve.crf import Distribution
from spansieve.data.example import Example
from spansieve.models.filtered import FilteredHead, GraphCounts
from spansieve.models.predicting import predict_segments
from spansieve.models.tagger import Tagger
from spansieve.segments import NamedSegment, Segment


@dataclass(frozen=True)
class Fates:
    """What becomes of the gold segments. Each has one fate, so that they add up."""

    gold: int
    unknown: int  # a label that the training data does not have
    width: int  # wider than max_width
    filter: int  # not a candidate, or one with another label
    path: int  # a candidate, but not on the best path
    found: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


def predict_with_fates(tagger: Tagger, examples: Sequence[Example]) -> tuple[list[list[NamedSegment]], Fates | None]:
    """The segments found in each sentence and, of a filtered model, what became of gold. One pass."""
    head, counts = tagger.head, [GraphCounts()]

    def look(indices: Sequence[int], distribution: Distribution) -> None:
        assert isinstance(head, FilteredHead)
        counts.append(head.graph_counts(distribution, [_known(tagger, examples[i]) for i in indices]))

    is_filtered = isinstance(head, FilteredHead)
    found = predict_segments(tagger, [example.tokens for example in examples], look=look if is_filtered else None)
    segments = [one.segments for one in found]
    kept = sum(one.gold_kept for one in counts)
    return segments, _fates(tagger, examples, segments, kept) if is_filtered else None


def _fates(tagger: Tagger, examples: Sequence[Example], found: Sequence[Sequence[NamedSegment]], kept: int) -> Fates:
    gold = [segment for example in examples for segment in {*example.segments}]
    known = [segment for example in examples for segment in _known(tagger, example)]
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


def _known(tagger: Tagger, example: Example) -> list[Segment]:
    labels = tagger.labels
    return [Segment(s.start, s.end, labels.id(s.label)) for s in {*example.segments} if s.label in labels.names]
