"""What is in a corpus, split by split: the numbers to look at before training on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from typing import Any

from spansieve.data.example import Example
from spansieve.data.overlap_resolution import flat

QUANTILES = {"least": 0.0, "median": 0.5, "90 %": 0.9, "99 %": 0.99, "most": 1.0}


@dataclass(frozen=True)
class SplitReport:
    """The statistics of one split. A pair of segments overlaps when they share a token; it is nested when one holds the
    other."""

    sentences: int
    tokens: int
    entities: int
    labels: dict[str, int]  # the most frequent first
    widths: dict[int, int]  # how many entities have each width
    lengths: dict[str, int]  # the quantiles of the sentences' lengths
    empty_sentences: int  # without tokens
    one_token_sentences: int
    sentences_without_entities: int
    overlapping_pairs: int
    nested_pairs: int
    lost_when_flat: int  # the entities that `flat` drops
    repeated_sentences: int  # those seen before in the split
    lost_to_max_width: dict[str, int] = field(default_factory=dict)  # by label, where a max_width was given
    warnings: dict[str, int] = field(default_factory=dict)  # of its reader, and how often


@dataclass(frozen=True)
class SharedSentences:
    """A leak between splits: `count` sentences of `second` are in `first` too, token for token."""

    first: str
    second: str
    count: int


@dataclass(frozen=True)
class DataReport:
    splits: dict[str, SplitReport]
    shared_sentences: list[SharedSentences]  # of each two splits that have some
    labels_not_in_first: dict[str, list[str]]  # by split: a model trained on the first split cannot know them
    max_width: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)


def report_of(
    splits: Mapping[str, Sequence[Example]],
    max_width: int | None = None,
    warnings: Mapping[str, Mapping[str, int]] | None = None,
) -> DataReport:
    """A report of one or more splits, the training split first.

    `max_width`: also count the entities that are wider. `warnings`: by split, those of its reader.
    """
    if max_width is not None and max_width < 1:
        raise ValueError(f"max_width must be at least 1, got {max_width}")
    reports = {
        name: _split_report(examples, max_width, dict((warnings or {}).get(name, {})))
        for name, examples in splits.items()
    }
    seen = {name: {example.tokens for example in examples} for name, examples in splits.items()}
    shared = [
        SharedSentences(first, second, count)
        for first, second in combinations(splits, 2)
        if (count := sum(example.tokens in seen[first] for example in splits[second]))
    ]
    known = set(next(iter(reports.values())).labels) if reports else set()
    unknown = {name: sorted(report.labels.keys() - known) for name, report in reports.items()}
    return DataReport(reports, shared, {name: labels for name, labels in unknown.items() if labels}, max_width)


def _split_report(examples: Sequence[Example], max_width: int | None, warnings: dict[str, int]) -> SplitReport:
    segments = [segment for example in examples for segment in example.segments]
    overlapping = [example for example in examples if example.has_overlaps()]
    # They are sorted by their starts.
    pairs = [(a, b) for example in overlapping for a, b in combinations(example.segments, 2) if b.start < a.end]
    wide = [segment.label for segment in segments if max_width is not None and segment.width > max_width]
    return SplitReport(
        sentences=len(examples),
        tokens=sum(map(len, examples)),
        entities=len(segments),
        labels=dict(Counter(segment.label for segment in segments).most_common()),
        widths=dict(sorted(Counter(segment.width for segment in segments).items())),
        lengths=_quantiles([len(example) for example in examples]),
        empty_sentences=sum(len(example) == 0 for example in examples),
        one_token_sentences=sum(len(example) == 1 for example in examples),
        sentences_without_entities=sum(not example.segments for example in examples),
        overlapping_pairs=len(pairs),
        nested_pairs=sum(second.end <= first.end or second.start == first.start for first, second in pairs),
        lost_when_flat=sum(len(flat(example)[1]) for example in examples),
        repeated_sentences=len(examples) - len({example.tokens for example in examples}),
        lost_to_max_width=dict(Counter(wide).most_common()),
        warnings=warnings,
    )


def _quantiles(lengths: list[int]) -> dict[str, int]:
    if not lengths:
        return dict.fromkeys(QUANTILES, 0)
    lengths = sorted(lengths)
    return {name: lengths[round(quantile * (len(lengths) - 1))] for name, quantile in QUANTILES.items()}
