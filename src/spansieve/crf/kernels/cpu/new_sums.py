"""Arrays for the sums over all structures, as the kernels fill them."""

from __future__ import annotations

import numpy as np

from spansieve.crf.kernels import Sums


def new_sums(scores, num_sentences, num_labels, with_marginals) -> Sums:
    """Allocate the sums in the type of the scores; without marginals, for log Z alone."""
    shape = scores.shape if with_marginals else (0,) * scores.ndim
    return Sums(
        np.empty(num_sentences, scores.dtype),
        np.zeros(shape, scores.dtype),
        np.zeros((num_sentences if with_marginals else 0, num_labels, num_labels), scores.dtype),
    )


def asked_for(sums: Sums, with_marginals) -> Sums:
    return sums if with_marginals else Sums(sums.log_partition, None, None)
