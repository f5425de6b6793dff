"""One file per backend, the same functions in each, chosen by where the tensors are."""

from __future__ import annotations

from typing import Any, NamedTuple

NO_BUDGET = 1 << 62  # stands for no limit in compiled code


class ScoreError(ValueError):
    """Scores are no numbers, or leave nothing possible."""


class Sums(NamedTuple):
    """The sums over all structures, which forward-backward gives. Tensors or NumPy arrays, as the kernel takes them."""

    log_partition: Any  # (B,), in the type of the scores or in float64
    marginals: Any  # like the scores: P(this part is in the structure); None when not wanted
    transition_counts: Any  # (B, Y, Y): expected number of times y' is followed by y; None when not wanted


class RequiredDepths(NamedTuple):
    """How deep in required segments each token lies, and the content of each label of a container.

    A token may lie in no further segment only right below a container whose content is as deep as the token: between
    any other and the token a required segment is missing.
    """

    token: Any  # (B, L) NumPy: in how many required segments the token is
    content: Any  # (Y,) NumPy: in how many of them is what lies right below a container with this label


class FilterLimits(NamedTuple):
    """How much of what stands above null a filter keeps. The paper's keeps the best label of each span."""

    labels_per_span: int = 1  # the best so many labels of a span, as far as they stand above null
    budget: int | None = None  # candidates of a sentence: the best so many, by how far they stand above null

    def within(self, num_labels: int) -> FilterLimits:
        """Bound the limits by what there can be: compiled code computes sizes from them, which must not wrap."""
        budget = None if self.budget is None or self.budget >= NO_BUDGET else self.budget
        return FilterLimits(min(self.labels_per_span, num_labels), budget)


PLAIN_FILTER = FilterLimits()
