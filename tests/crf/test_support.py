"""Structures that a model cannot have are refused by name, and what is impossible stays impossible."""

from __future__ import annotations

import pytest
import torch

from spansieve import Segment
from spansieve.crf import FilteredSemiMarkov
from tests.crf.small import (
    KERNELS,
    TRANSITION,
    chain,
    flat,
    raises,
    semi,
    span_scores,
    tag_scores,
    with_entry,
)

# ---- Structures outside the support ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([(0, 2, 2), (2, 3, 2), (3, 4, 1)], "segmentation 0 is outside the support: segment (0, 2, 2) is no candidate"),
        ([(0, 9, 1)], "segmentation 0 is outside the support: segment (0, 9, 1) is no candidate"),
        ([(2, 3, 2), (3, 4, 1)], "segment (2, 3, 2) cannot stand at the start"),
        ([(0, 2, 1), (3, 4, 1)], "segment (3, 4, 1) cannot stand after the segment before it"),
        ([(0, 2, 1), (1, 2, 2)], "segment (1, 2, 2) cannot stand after the segment before it: the two overlap"),
        ([(0, 2, 1), (2, 3, 2)], "segmentation 0 is outside the support: it leaves room for another candidate"),
        ([], "segmentation 0 is outside the support: it leaves room for another candidate"),
    ],
)
def test_what_is_no_path(segments, message, kernel):
    """Not a candidate; not maximal at the start, between, or at the end; overlapping; empty."""
    distribution = flat(kernel=kernel)
    assert distribution.log_prob([[(3, 4, 1), (0, 2, 1), (2, 3, 2)], []]).isfinite().all()  # in any order
    with raises(message):
        distribution.log_prob([segments, []])
    with raises(message):
        distribution.score([segments, []])


def test_with_skip_only_overlaps_and_strangers_are_no_path():
    distribution = flat(skip=True)
    for segments in ([], [(2, 3, 2)], [(0, 2, 1), (3, 4, 1)]):
        assert distribution.log_prob([segments, []]).isfinite().all()
    with raises("segment (1, 2, 2) cannot stand after the segment before it"):
        distribution.log_prob([[(0, 2, 1), (1, 2, 2)], []])
    with raises("segment (0, 4, 1) is no candidate"):
        distribution.log_prob([[(0, 4, 1)], []])


def test_a_sentence_without_candidates_has_the_empty_path_alone():
    with raises("segmentation 1 is outside the support: segment (0, 1, 1) is no candidate"):
        flat().log_prob([[(0, 2, 1), (2, 3, 2), (3, 4, 1)], [(0, 1, 1)]])


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ([[0, 1, 2], [0, 0]], "tags of sentence 0 must be 4, one per token, got 3"),
        ([[0, 1, 2, 0], [0, 0, 0]], "tags of sentence 1 must be 2, one per token, got 3"),
        ([[0, 1, 3, 0], [0, 0]], "tag 3 at token 2 of sentence 0: the tag must lie between 0 and 2"),
        ([[0, 1, 2, 0], [0, -1]], "tag -1 at token 1 of sentence 1: the tag must lie between 0 and 2"),
    ],
)
def test_wrong_tags(tags, message):
    with raises(message):
        chain().log_prob(tags)


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([(1, 2, 0), (2, 4, 0)], "segment (1, 2, 0) of sentence 0 must start at 0, where the segments before it end"),
        ([(0, 1, 0), (2, 4, 0)], "segment (2, 4, 0) of sentence 0 must start at 1, where the segments before it end"),
        ([(0, 2, 0), (1, 3, 0)], "segment (1, 3, 0) of sentence 0 must start at 2, where the segments before it end"),
        ([(0, 2, 0)], "segments of sentence 0 must cover its 4 tokens, got the first 2"),
        ([], "segments of sentence 0 must cover its 4 tokens, got the first 0"),
        ([(0, 3, 0), (3, 4, 0)], "segment (0, 3, 0) of sentence 0 is 3 wide, but the widest scored is 2"),
        ([(0, 2, 0), (2, 4, 3)], "label of segment (2, 4, 3) of sentence 0 must lie between 0 and 2"),
        ([(0, 2, 0), (2, 4, -1)], "label of segment (2, 4, -1) of sentence 0 must lie between 0 and 2"),
        ([(0, 2, 0), (2, 4, 0), (4, 5, 0)], "segment (4, 5, 0) of sentence 0 must lie within its 4 tokens"),
    ],
)
def test_segments_that_do_not_cover_the_sentence(segments, message):
    cover = [Segment(0, 2, 1)]
    assert semi().log_prob([[(0, 2, 0), (2, 3, 0), (3, 4, 2)], cover]).isfinite().all()
    with raises(message):
        semi().log_prob([segments, cover])


@pytest.mark.parametrize("make", [chain, semi, flat])
def test_wrong_number_of_structures(make):
    with raises("structures must be one per sentence, 2, got 1"):
        make().log_prob([[]])


# ---- Impossible scores -----------------------------------------------------------------------------------------------


def test_a_structure_with_an_impossible_part():
    possible = [[0, 0, 1, 2], [0, 0]]
    scores = with_entry(tag_scores(), (1, 0, 0), -torch.inf)
    with raises("structure 1 is outside the support: a part of it has a score of -inf"):
        chain(scores).log_prob(possible)
    with raises("structure 0 is outside the support: a transition of it has a score of -inf"):
        chain(transition=with_entry(TRANSITION, (1, 2), -torch.inf)).log_prob(possible)


def test_wide_null_segments_are_impossible_with_unit_null():
    with raises("structure 1 is outside the support: a part of it has a score of -inf"):
        semi(unit_null=True).log_prob([[(i, i + 1, 0) for i in range(4)], [(0, 2, 0)]])


def test_a_path_with_an_impossible_candidate():
    distribution = flat()
    scores = torch.zeros(4)
    scores[0] = -torch.inf
    distribution = FilteredSemiMarkov(distribution.candidates, scores, TRANSITION)
    with raises("structure 0 is outside the support: a part of it has a score of -inf"):
        distribution.log_prob([[(0, 2, 1), (2, 3, 2), (3, 4, 1)], []])


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_mode_where_nothing_is_possible(kernel):
    """The sums and the largest score say so without raising."""
    nowhere = with_entry(tag_scores(), (1, 0), -torch.inf)
    candidates = flat().candidates
    for distribution, b in (
        (chain(nowhere, kernel=kernel), 1),
        (semi(with_entry(span_scores(), (1, 0), -torch.inf), kernel=kernel), 1),
        (FilteredSemiMarkov(candidates, torch.full((4,), -torch.inf), TRANSITION, kernel=kernel), 0),
    ):
        assert distribution.log_partition[b] == distribution.max_score[b] == -torch.inf
        with raises(f"sentence {b} has no possible structure: all have a score of -inf"):
            _ = distribution.mode
