"""One file per backend, the same functions in each, chosen by where the tensors are."""

from __future__ import annotations

from typing import Any, NamedTuple


class Sums(NamedTuple):
    """What the sum over all structures gives. Torch tensors or NumPy arrays, as the kernel takes them."""

    log_partition: Any  # (B,), in the type of the scores or in float64
    marginals: Any  # like the scores: P(this part is in the structure); None when not asked for
    transition_counts: Any  # (B, Y, Y): expected number of times y' is followed by y; None when not asked for
