"""The best set of spans without overlaps, of spans that any library has scored.

Models that score each span alone (GLiNER, SpanMarker, spaCy's `spancat`) leave you with spans that overlap. The usual
way out is greedy: the best span first, and whatever it overlaps is gone. `best_disjoint` finds the set with the highest
sum, in O(N log N), on NumPy arrays and without torch.

    python examples/resolve_overlaps.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from spansieve.crf import best_disjoint

TEXT = "Lima offices of the United Nations Development Programme closed in March."
SPANS = [  # as GLiNER's `predict_entities` returns them with `flat_ner=False`
    {"start": 0, "end": 4, "label": "place", "score": 0.83},
    {"start": 0, "end": 12, "label": "place", "score": 0.55},
    {"start": 0, "end": 34, "label": "organisation", "score": 0.90},
    {"start": 20, "end": 34, "label": "organisation", "score": 0.71},
    {"start": 20, "end": 56, "label": "organisation", "score": 0.88},
    {"start": 67, "end": 72, "label": "date", "score": 0.93},
]
THRESHOLD = 0.5


def resolved(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The spans to keep. What a span scores above the threshold is what it is worth: one below it is never kept."""
    starts, ends = ([span[side] for span in spans] for side in ("start", "end"))
    is_kept = best_disjoint(starts, ends, [span["score"] - THRESHOLD for span in spans])
    return [span for span, keep in zip(spans, is_kept) if keep]


def greedy(spans: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What most libraries do."""
    kept: list[dict[str, Any]] = []
    for span in sorted(spans, key=lambda span: -span["score"]):
        if all(span["end"] <= other["start"] or other["end"] <= span["start"] for other in kept):
            kept.append(span)
    return sorted(kept, key=lambda span: span["start"])


def main() -> None:
    for name, spans in (("greedy", greedy(SPANS)), ("exact", resolved(SPANS))):
        print(f"{name}: {sum(span['score'] - THRESHOLD for span in spans):.2f} above the threshold")
        for span in spans:
            print(f"  {span['label']:13} {TEXT[span['start'] : span['end']]}")

    # Many texts at once: `sentences` says which spans belong together.
    chance = np.random.default_rng(0)
    sentences, starts = chance.integers(0, 10_000, 1_000_000), chance.integers(0, 500, 1_000_000)
    ends, scores = starts + chance.integers(1, 20, len(starts)), chance.random(len(starts))
    began = time.perf_counter()
    is_kept = best_disjoint(starts, ends, scores, sentences)
    print(f"{is_kept.sum():,} of {len(starts):,} spans kept in {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
