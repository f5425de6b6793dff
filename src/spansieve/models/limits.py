"""How much the filter of a configured model keeps."""

from __future__ import annotations

from spansieve.config import Head, ModelConfig
from spansieve.crf.kernels import FilterLimits

# Their filter alone decides on a span's label: a second one would never be chosen, or would tie with the first.
ONE_LABEL_PER_SPAN: frozenset[Head] = frozenset(("filter-only", "global-selection", "nested-filter-only"))


def filter_limits(config: ModelConfig) -> FilterLimits:
    """Return the limits that a model's filter has, those that its head sets included."""
    labels_per_span = 1 if config.head in ONE_LABEL_PER_SPAN else config.labels_per_span
    return FilterLimits(labels_per_span, config.budget)
