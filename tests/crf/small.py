"""Small distributions of each kind, for tests to spoil."""

from __future__ import annotations

import re

import pytest
import torch

from spansieve.crf import Candidates, FilteredSemiMarkov, LinearChain, SemiMarkov
from spansieve.crf.kernels import reference
from spansieve.crf.kernels.cpu import torch_api

KERNELS = [pytest.param(reference, id="reference"), pytest.param(torch_api, id="cpu")]
TRANSITION = torch.zeros(3, 3)
BEYOND = "must be numbers below +inf (-inf: impossible), got NaN or +inf"


def raises(message: str, kind: type[Exception] = ValueError):
    """The message, letter by letter."""
    return pytest.raises(kind, match=re.escape(message))


def tag_scores() -> torch.Tensor:
    return torch.zeros(2, 4, 3)


def span_scores() -> torch.Tensor:
    """Null is best everywhere."""
    scores = torch.zeros(2, 4, 2, 3)
    scores[..., 0] = 1.0
    return scores


def with_entry(tensor: torch.Tensor, place: tuple[int, ...], value: float) -> torch.Tensor:
    tensor = tensor.clone()
    tensor[place] = value
    return tensor


def chain(scores=None, transition=TRANSITION, lengths=(4, 2), **options) -> LinearChain:
    return LinearChain(tag_scores() if scores is None else scores, transition, lengths, **options)


def semi(scores=None, transition=TRANSITION, lengths=(4, 2), **options) -> SemiMarkov:
    return SemiMarkov(span_scores() if scores is None else scores, transition, lengths, **options)


def dense(local_scores=None, scores=None, transition=TRANSITION, lengths=(4, 2), **options) -> FilteredSemiMarkov:
    local_scores = span_scores() if local_scores is None else local_scores
    scores = span_scores() if scores is None else scores
    return FilteredSemiMarkov.from_scores(local_scores, scores, transition, lengths, **options)


def flat(skip: bool = False, kernel=None) -> FilteredSemiMarkov:
    """The first sentence has a choice at each of two places; the second has no candidate."""
    candidates = Candidates.from_lists([[(0, 2, 1), (1, 2, 2), (3, 4, 1), (2, 3, 2)], []], [4, 2])
    return FilteredSemiMarkov(candidates, torch.zeros(4), TRANSITION, skip, kernel=kernel)


MAKERS = [pytest.param(make, id=make.__name__) for make in (chain, semi, dense)]
