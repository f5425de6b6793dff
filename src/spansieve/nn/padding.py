"""Rows of unequal length as one array."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def padded(flat: ArrayLike, lengths: np.ndarray, fill: int = 0) -> np.ndarray:
    """Rows of these lengths, which follow one another in `flat`, as one array (B, L).

    >>> padded([1, 2, 3], np.array([2, 0, 1])).tolist()
    [[1, 2], [0, 0], [3, 0]]
    """
    rows = np.full((len(lengths), lengths.max(initial=0)), fill, np.int64)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = flat
    return rows
