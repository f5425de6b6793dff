"""Exact-match precision, recall and F1: a predicted segment is right when gold has the same start, end and label.

The figures are those of conlleval and of seqeval's strict mode. Whatever has nothing to divide by is 0: the precision
of no predictions, the recall of no gold, the F1 of neither. Macro figures are means over the labels that gold or the
predictions have, so that a label which is only ever predicted, always wrongly, counts as 0. Within a sentence segments
are a set: one that is predicted twice is predicted once. They may overlap.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, fields
from typing import Any

from spansieve.data.overlap_resolution import depths
from spansieve.segments import NamedSegment

Segments = Collection[tuple[int, int, str]]  # of one sentence
LEVELS = ("all", "outer", "inner")  # of nested segments: those that lie within no other, and those that lie within one
LENGTH_BUCKETS = (10, 20, 30, 50)  # the longest sentence of each bucket; one more holds all that are longer


@dataclass(frozen=True)
class Counts:
    """How many segments gold has, how many were predicted, and how many of these are right."""

    true_positives: int = 0
    gold: int = 0
    predicted: int = 0

    @property
    def precision(self) -> float:
        return _ratio(self.true_positives, self.predicted)

    @property
    def recall(self) -> float:
        return _ratio(self.true_positives, self.gold)

    @property
    def f1(self) -> float:
        return _ratio(2 * self.true_positives, self.gold + self.predicted)

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(sum, zip(astuple(self), astuple(other))))

    def to_dict(self) -> dict[str, float | int]:
        return {"precision": self.precision, "recall": self.recall, "f1": self.f1, **asdict(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Counts:
        """Back from `to_dict`; the figures follow from the counts."""
        return cls(**{part.name: values[part.name] for part in fields(cls)})


@dataclass(frozen=True)
class Scores:
    """The counts of a corpus, as a whole and in parts; what is a figure follows from them.

    In `by_width` a segment counts with its own width; in `by_length` with the length of its sentence, in buckets named
    `1-10`, `11-20` and so on (empty where the lengths were not given).
    """

    micro: Counts = Counts()
    by_label: Mapping[str, Counts] = field(default_factory=dict)
    by_width: Mapping[int, Counts] = field(default_factory=dict)
    by_length: Mapping[str, Counts] = field(default_factory=dict)
    sentences: int = 0

    @property
    def precision(self) -> float:
        return self.micro.precision

    @property
    def recall(self) -> float:
        return self.micro.recall

    @property
    def f1(self) -> float:
        return self.micro.f1

    @property
    def macro_precision(self) -> float:
        return self._mean("precision")

    @property
    def macro_recall(self) -> float:
        return self._mean("recall")

    @property
    def macro_f1(self) -> float:
        return self._mean("f1")

    def _mean(self, figure: str) -> float:
        return _ratio(sum(getattr(counts, figure) for counts in self.by_label.values()), len(self.by_label))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: figures and the counts that they follow from."""
        macro = {"precision": self.macro_precision, "recall": self.macro_recall, "f1": self.macro_f1}
        parts: dict[str, Mapping[Any, Counts]]
        parts = {"by_label": self.by_label, "by_width": self.by_width, "by_length": self.by_length}
        plain = {name: {str(key): counts.to_dict() for key, counts in part.items()} for name, part in parts.items()}
        return {"sentences": self.sentences, "micro": self.micro.to_dict(), "macro": macro, **plain}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Scores:
        """Back from `to_dict`, by the counts."""
        return cls(
            Counts.from_dict(values["micro"]),
            {label: Counts.from_dict(counts) for label, counts in values["by_label"].items()},
            {int(width): Counts.from_dict(counts) for width, counts in values["by_width"].items()},
            {bucket: Counts.from_dict(counts) for bucket, counts in values["by_length"].items()},
            values["sentences"],
        )


def evaluate(gold: Sequence[Segments], predicted: Sequence[Segments], lengths: Sequence[int] | None = None) -> Scores:
    """Score the predicted segments of each sentence against its gold ones; `lengths` in tokens give `by_length` too.

    >>> scores = evaluate([[(0, 2, "PER"), (4, 5, "LOC")]], [[(0, 2, "PER"), (3, 5, "LOC")]])
    >>> scores.precision, scores.by_label["PER"].f1, scores.macro_f1
    (0.5, 1.0, 0.5)
    """
    label: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    width: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
    bucket: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for index, (truth, guess) in enumerate(segment_sets(gold, predicted, lengths)):
        for column, segments in enumerate((truth & guess, truth, guess)):
            for segment in segments:
                label[segment.label][column] += 1
                width[segment.width][column] += 1
            if lengths is not None:
                bucket[bucket_of(lengths[index])][column] += len(segments)
    by_label = {name: Counts(*columns) for name, columns in sorted(label.items())}
    return Scores(
        sum(by_label.values(), Counts()),
        by_label,
        {number: Counts(*columns) for number, columns in sorted(width.items())},
        {name: Counts(*bucket[name]) for name in map(bucket_of, (*LENGTH_BUCKETS, math.inf)) if name in bucket},
        len(gold),
    )


def evaluate_levels(gold: Sequence[Segments], predicted: Sequence[Segments]) -> dict[str, Scores]:
    """The scores of all segments, of the outer ones and of the inner ones. A segment's level is that among its own:
    of gold among gold, of predictions among predictions.

    >>> levels = evaluate_levels([[(0, 3, "ORG"), (2, 3, "LOC")]], [[(2, 3, "LOC")]])
    >>> [round(levels[name].f1, 2) for name in LEVELS]
    [0.67, 0.0, 0.0]
    """
    scores = {"all": evaluate(gold, predicted)}
    for name, is_inner in (("outer", False), ("inner", True)):
        scores[name] = evaluate([_at(s, is_inner) for s in gold], [_at(s, is_inner) for s in predicted])
    return scores


def segment_sets(
    gold: Sequence[Segments], predicted: Sequence[Segments], lengths: Sequence[int] | None = None
) -> Iterator[tuple[set[NamedSegment], set[NamedSegment]]]:
    """Gold and predicted segments of each sentence, once each."""
    for name, given in (("predicted", predicted), ("lengths", lengths)):
        if given is not None and len(given) != len(gold):
            raise ValueError(f"{name} must have one entry per sentence of gold, {len(gold)}, got {len(given)}")
    for index, (truth, guess) in enumerate(zip(gold, predicted)):
        length = None if lengths is None else lengths[index]
        yield _as_set("gold", index, truth, length), _as_set("predicted", index, guess, length)


def bucket_of(length: float) -> str:
    """The bucket that a sentence of this length is in.

    >>> bucket_of(10), bucket_of(11), bucket_of(51)
    ('1-10', '11-20', '51+')
    """
    lowest = 1
    for highest in LENGTH_BUCKETS:
        if length <= highest:
            return f"{lowest}-{highest}"
        lowest = highest + 1
    return f"{lowest}+"


def _at(segments: Segments, is_inner: bool) -> list[NamedSegment]:
    named = [NamedSegment(*segment) for segment in segments]
    return [segment for segment, depth in zip(named, depths(named)) if (depth > 0) == is_inner]


def _as_set(name: str, sentence: int, segments: Segments, length: int | None) -> set[NamedSegment]:
    distinct = {NamedSegment(*segment) for segment in segments}
    for segment in distinct:
        if not 0 <= segment.start < segment.end:
            raise ValueError(f"{name}[{sentence}] must have segments that end after they start, got {tuple(segment)}")
        if not isinstance(segment.label, str):
            raise TypeError(
                f"{name}[{sentence}] must have names for labels, got {tuple(segment)}; LabelSet.name gives them"
            )
        if length is not None and segment.end > length:
            raise ValueError(
                f"{name}[{sentence}] must have segments within its {length} tokens, got {tuple(segment)}; "
                "are these the segments of another sentence, or of subwords?"
            )
    return distinct


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
