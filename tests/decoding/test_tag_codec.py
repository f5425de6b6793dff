"""The forward and backward sums of a linear chain."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from spansieve.decoding.tag_codec import Chain


def test_what_is_tiny_at_first_counts_when_later_scores_make_up_for_it():
    """Less than a double can hold beside the best tag, and the only way to the tag that wins."""
    scores = np.array([[[0.0, -900.0, -1_000.0], [0.0, -5.0, 0.0], [-2_000.0, 3.0, 2_000.0]]])
    transition = np.array([[0.0, 0.0, -np.inf], [-np.inf, 0.0, -np.inf], [0.0, -900.0, 0.0]])
    chain = Chain.from_scores(scores, transition, np.array([3]))
    paths = list(product(range(3), repeat=3))
    totals = np.array([scores[0, range(3), p].sum() + transition[p[0], p[1]] + transition[p[1], p[2]] for p in paths])
    assert chain.log_partition[0] == pytest.approx(np.logaddexp.reduce(totals))
    for i, tag in product(range(3), range(3)):
        through = np.logaddexp.reduce([total for path, total in zip(paths, totals) if path[i] == tag])
        assert chain.forward[0, i, tag] + chain.backward[0, i, tag] == pytest.approx(through)
