"""Numbers from outside reach compiled code bounded: no size wraps, and no index leads out of an array."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from spansieve.crf import Candidates, FilteredSemiMarkov, NestedSegments
from spansieve.crf.kernels import FilterLimits, cpu, reference
from spansieve.crf.kernels.cpu import torch_api
from tests.batches import random_batch

LARGE = [2**31, 2**53, 2**60, 2**61, 2**62, 2**63, 2**64, 10**30]


def scores(num_labels: int = 3) -> tuple[torch.Tensor, ...]:
    batch = random_batch(0, lengths=(8, 5), max_width=3, num_labels=num_labels)
    return tuple(torch.from_numpy(array) for array in (batch.local_scores, batch.scores, batch.transition))


@pytest.mark.parametrize("number", LARGE)
@pytest.mark.parametrize("name", ["labels_per_span", "budget"])
@pytest.mark.parametrize("kernel", [reference, torch_api])
@pytest.mark.parametrize("skip", [False, True])
def test_no_more_labels_or_candidates_than_there_are(name, number, kernel, skip):
    local_scores, global_scores, transition = scores()
    inputs = (local_scores, global_scores, transition, [8, 5])
    enough = {"labels_per_span": 3, "budget": 3 * 3 * 8}[name]
    expected, actual = (
        FilteredSemiMarkov.from_scores(*inputs, skip=skip, kernel=kernel, **{name: value}) for value in (enough, number)
    )
    assert actual.mode == expected.mode
    assert torch.equal(actual.log_partition, expected.log_partition)
    nested = [NestedSegments.from_scores(*inputs, kernel=kernel, **{name: value}) for value in (enough, number)]
    assert nested[0].mode == nested[1].mode


@pytest.mark.parametrize("number", LARGE)
def test_the_kernels_bound_their_limits_themselves(number):
    """As a decoder calls them."""
    local_scores, global_scores, transition = (tensor.numpy() for tensor in scores())
    lengths = np.array([8, 5])
    inputs = (local_scores, global_scores, transition, lengths)
    for limits in (FilterLimits(number), FilterLimits(1, number), FilterLimits(number, number)):
        bounded = limits.within(3)
        kept, expected = (cpu.segments_from_scores(*inputs, limits=each) for each in (limits, bounded))
        assert all(map(np.array_equal, kept.graph, expected.graph))
        assert np.array_equal(*(cpu.kept_scores(*inputs, limits=each) for each in (limits, bounded)))
        assert cpu.is_dense_cheaper(local_scores, lengths, limits) == cpu.is_dense_cheaper(
            local_scores, lengths, bounded
        )


@pytest.mark.parametrize("limits", [{"labels_per_span": 1.5}, {"labels_per_span": "2"}, {"budget": 2.0}])
def test_limits_that_are_no_integers(limits):
    local_scores, *_ = scores()
    with pytest.raises(TypeError, match=r"must be an integer, got"):
        Candidates.from_local_scores(local_scores, [8, 5], **limits)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"start": [-5, 2]}, "must lie within its 4 tokens"),
        ({"end": [2, 2**40]}, "must lie within its 4 tokens"),
        ({"label": [1, -7]}, "label of segment"),
        ({"label": [1, 2**40]}, "transition must have a row for each label"),
        ({"offsets": [0, 2**40]}, "offsets of candidates must rise"),
        ({"offsets": [1, 2]}, "offsets of candidates must rise"),
        ({"offsets": [0, 1, 2]}, "offsets of candidates must rise"),
        ({"lengths": [2]}, "must lie within its 2 tokens"),
        ({"start": [2, 0], "end": [4, 2]}, "must be distinct and sorted"),
    ],
)
@pytest.mark.parametrize("kind", [FilteredSemiMarkov, NestedSegments])
def test_candidates_that_no_filter_makes(changes, message, kind):
    """The dataclass takes any arrays; the distributions do not."""
    candidates = Candidates.from_lists([[(0, 2, 1), (2, 4, 1)]], [4])
    wrong = replace(candidates, **{name: torch.tensor(values) for name, values in changes.items()})
    with pytest.raises(ValueError, match=message):
        kind(wrong, torch.zeros(2), torch.zeros(3, 3))


def test_lengths_and_labels_beyond_any_sentence():
    with pytest.raises(ValueError, match=r"lengths must lie between 0 and"):
        Candidates.from_lists([[(0, 2**60, 1)]], [2**61])
    with pytest.raises(ValueError, match=r"must have smaller positions and labels|row for each label"):
        FilteredSemiMarkov(Candidates.from_lists([[(0, 2, 2**60)]], [4]), torch.zeros(1), torch.zeros(3, 3))
