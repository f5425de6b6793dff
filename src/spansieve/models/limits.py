"""How much the filter of a configured model keeps."""

from __future__ import annotations

from spansieve.config import ModelConfig
from spansieve.crf.kernels import FilterLimits


def filter_limits(config: ModelConfig) -> FilterLimits:
    """A filter alone keeps one label per span: nobody comes after it who could choose among several."""
    is_alone = config.head in ("filter-only", "nested-filter-only")
    return FilterLimits(1 if is_alone else config.labels_per_span, config.budget)
