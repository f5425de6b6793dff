"""What is wrong is said, with the argument, the requirement and what came."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

from spansieve import Segment
from spansieve.crf import Candidates, FilteredSemiMarkov, Gold, LinearChain, SemiMarkov, TagConstraints
from spansieve.crf.kernels import reference
from spansieve.crf.kernels.cpu import tensors as cpu_tensors

KERNELS = [pytest.param(reference, id="reference"), pytest.param(cpu_tensors, id="cpu")]
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


# ---- Shapes and types ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: chain(torch.zeros(2, 4)), "scores must have shape (B, L, Y), got (2, 4)"),
        (lambda: semi(tag_scores()), "scores must have shape (B, L, K, Y), got (2, 4, 3)"),
        (lambda: dense(tag_scores()), "local_scores must have shape (B, L, K, Y), got (2, 4, 3)"),
        (lambda: dense(scores=tag_scores()), "global_scores must have shape (B, L, K, Y), got (2, 4, 3)"),
        (lambda: dense(torch.zeros(2, 4, 1, 3)), "must have one shape, got (2, 4, 1, 3) and (2, 4, 2, 3)"),
        (lambda: Candidates.from_local_scores(tag_scores(), [4, 2]), "local_scores must have shape (B, L, K, Y)"),
        (lambda: semi(torch.zeros(2, 4, 0, 3)), "at least one width and one label, got (2, 4, 0, 3)"),
        (lambda: semi(torch.zeros(2, 4, 2, 0)), "at least one width and one label, got (2, 4, 2, 0)"),
        (
            lambda: FilteredSemiMarkov(flat().candidates, torch.zeros(4, 1), TRANSITION),
            "scores must have shape (N,), got (4, 1)",
        ),
    ],
)
def test_wrong_shapes(make, message):
    with raises(message):
        make()


@pytest.mark.parametrize("make", MAKERS)
def test_scores_that_are_no_tensor(make):
    with raises("must be a torch.Tensor, got list", TypeError):
        make([[0.0]])


@pytest.mark.parametrize("make", MAKERS)
def test_whole_number_scores(make):
    scores = tag_scores() if make is chain else span_scores()
    with raises("must be floating point, got torch.int64", TypeError):
        make(scores.long())


def test_transition_that_is_no_tensor_or_whole_numbers():
    with raises("transition must be a torch.Tensor, got ndarray", TypeError):
        chain(transition=np.zeros((3, 3)))
    with raises("transition must be floating point, got torch.int64", TypeError):
        chain(transition=TRANSITION.long())


@pytest.mark.parametrize("make", MAKERS)
def test_transition_of_the_wrong_size(make):
    with raises("transition must have shape (Y, Y), got (3,)"):
        make(transition=torch.zeros(3))
    with raises("transition must be square, (Y, Y), got (3, 2)"):
        make(transition=torch.zeros(3, 2))
    with raises("transition must be (3, 3), as scores has 3 labels, got (4, 4)"):
        make(transition=torch.zeros(4, 4))


def test_transition_without_a_row_for_a_label():
    with raises("transition must have a row for each label up to 2, got 2"):
        FilteredSemiMarkov(flat().candidates, torch.zeros(4), torch.zeros(2, 2))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("lengths", "kind", "message"),
    [
        ([5, 2], ValueError, "lengths must lie between 0 and 4, the number of tokens, got 5"),
        ([4, -1], ValueError, "lengths must lie between 0 and 4, the number of tokens, got -1"),
        ([4], ValueError, "lengths must have shape (2,), one per sentence, got (1,)"),
        ([[4, 2]], ValueError, "lengths must have shape (2,), one per sentence, got (1, 2)"),
        ([4.0, 2.0], TypeError, "lengths must be integers, got torch.float32"),
        ([True, False], TypeError, "lengths must be integers, got torch.bool"),
    ],
)
def test_wrong_lengths(make, lengths, kind, message):
    with raises(message, kind):
        make(lengths=lengths)


def test_wrong_lengths_for_candidates():
    with raises("lengths must have shape (1,), one per sentence, got (2,)"):
        Candidates.from_lists([[(0, 1, 1)]], [4, 4])
    with raises("lengths must lie between 0 and"):
        Candidates.from_lists([[]], [-1])
    with raises("lengths must lie between 0 and 4, the number of tokens, got 5"):
        Candidates.from_local_scores(span_scores(), [5, 1])


# ---- Values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_scores_that_are_no_numbers(value, kernel):
    kept = with_entry(span_scores(), (0, 1, 0, 2), 2.0)
    for make in (
        lambda: chain(with_entry(tag_scores(), (0, 1, 2), value), kernel=kernel),
        lambda: semi(with_entry(span_scores(), (0, 1, 0, 2), value), kernel=kernel),
        lambda: dense(with_entry(span_scores(), (0, 1, 0, 2), value), kernel=kernel),
        lambda: dense(kept, with_entry(span_scores(), (0, 1, 0, 2), value), kernel=kernel),
        lambda: FilteredSemiMarkov(flat().candidates, torch.tensor([0.0, value, 0, 0]), TRANSITION, kernel=kernel),
        lambda: Candidates.from_local_scores(with_entry(span_scores(), (0, 1, 0, 2), value), [4, 2]),
        lambda: Candidates.for_training(with_entry(span_scores(), (0, 1, 0, 2), value), [4, 2], [[], []]),
    ):
        with raises(f"scores {BEYOND}"):
            make()


def test_a_local_score_of_null_that_is_no_number():
    with raises(f"scores {BEYOND}"):
        dense(with_entry(span_scores(), (0, 1, 0, 0), torch.nan))


def test_a_nan_among_many_scores():
    """Large tensors are looked through by other code than small ones."""
    with raises(f"scores {BEYOND}"):
        LinearChain(with_entry(torch.zeros(2, 2048, 3), (1, 2000, 0), torch.nan), TRANSITION, [1, 1])


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_transitions_that_are_no_numbers(make, value):
    with raises(f"transition {BEYOND}"):
        make(transition=with_entry(TRANSITION, (1, 2), value))


# ---- Candidates and gold ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("segment", "message"),
    [
        ((0, 1, 0), "segment (0, 1, 0) of sentence 1 must"),
        ((3, 5, 1), "segment (3, 5, 1) of sentence 1 must lie within its 4 tokens and not be empty"),
        ((-1, 2, 1), "segment (-1, 2, 1) of sentence 1 must lie within its 4 tokens and not be empty"),
        ((2, 2, 1), "segment (2, 2, 1) of sentence 1 must lie within its 4 tokens and not be empty"),
        ((3, 2, 1), "segment (3, 2, 1) of sentence 1 must lie within its 4 tokens and not be empty"),
        ((0, 1), "a segment must be (start, end, label), got (0, 1)"),
    ],
)
def test_candidates_and_gold_that_cannot_be(segment, message):
    with raises(message):
        Candidates.from_lists([[], [segment]], [4, 4])
    with raises(message):
        Candidates.for_training(span_scores(), [4, 4], [[], [segment]])
    with raises(message):
        dense(lengths=[4, 4], gold=[[], [segment]])


@pytest.mark.parametrize(
    "make",
    [
        lambda segments: Candidates.from_lists(segments, [4, 2]),
        lambda segments: Candidates.for_training(span_scores(), [4, 2], segments),
        lambda segments: dense(gold=segments),
    ],
)
def test_label_zero_is_null_and_neither_candidate_nor_gold(make):
    with raises("as 0 is null"):
        make([[(0, 1, 0)], []])


def test_a_candidate_given_twice():
    with raises("candidate (1, 3, 2) of sentence 1 must be given once, got it twice"):
        Candidates.from_lists([[(1, 3, 2)], [(1, 3, 2), (0, 1, 1), (1, 3, 2)]], [4, 4])


def test_wrong_number_of_scores_for_the_candidates():
    with raises("scores must be one per candidate, 4, got 3"):
        FilteredSemiMarkov(flat().candidates, torch.zeros(3), TRANSITION)


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ([[(0, 3, 1)], []], "segment (0, 3, 1) of sentence 0 is 3 wide, but the widest scored is 2"),
        ([[], [(1, 3, 1)]], "segment (1, 3, 1) of sentence 1 must lie within its 2 tokens and not be empty"),
        ([[(0, 1, 3)], []], "label of segment (0, 1, 3) of sentence 0 must lie between"),
        ([[(0, 1, -1)], []], "label of segment (0, 1, -1) of sentence 0 must lie between"),
        ([[]], "gold must be one sequence of segments per sentence, 2, got 1"),
    ],
)
def test_gold_that_the_model_cannot_have(gold, message):
    with raises(message):
        dense(gold=gold)
    with raises(message):
        Candidates.for_training(span_scores(), [4, 2], gold)


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


# ---- Arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [chain, semi, dense, flat])
@pytest.mark.parametrize("count", [0, -1])
def test_at_least_one_is_asked_for(make, count):
    with raises(f"k must be at least 1, got {count}"):
        make().top_k(count)
    with raises(f"n must be at least 1, got {count}"):
        make().sample(count)


def test_constraints_for_another_number_of_tags():
    with raises("constraints must be for 3 tags, as scores has, got 1"):
        chain(constraints=TagConstraints.from_tags(["O"]))


def test_ready_gold_beyond_the_sentence():
    scores = torch.zeros(1, 4, 2, 3)
    gold = Gold.from_segments([[(2, 4, 1)]], scores.shape)
    with pytest.raises(ValueError, match="must lie within its 1 tokens"):
        FilteredSemiMarkov.from_scores(scores, scores, torch.zeros(3, 3), [1], gold=gold)


def test_ready_gold_that_is_no_structure():
    scores, transition = torch.zeros(1, 4, 2, 3), torch.zeros(3, 3)
    with pytest.raises(ValueError, match="must cover its 4 tokens"):
        SemiMarkov(scores, transition, [4]).log_prob(Gold.from_segments([[(0, 1, 0)]], scores.shape))
    with pytest.raises(ValueError, match="must be 4, one per token, got 1"):
        LinearChain(scores[:, :, 0], transition, [4]).log_prob(Gold.from_tags([[0]], (1, 4, 3)))


@pytest.mark.parametrize("nonsense", [(1, 2, -1), (-4, 3, 1), (5, 1, 1)])
def test_what_is_no_segment_is_no_candidate(nonsense):
    candidates = Candidates.from_lists([[(0, 2, 1), (1, 2, 1)]], [4])
    distribution = FilteredSemiMarkov(candidates, torch.tensor([1.0, 10.0]), torch.zeros(2, 2))
    with pytest.raises(ValueError, match="is no candidate"):
        distribution.score([[nonsense]])


def test_a_fraction_is_no_position():
    with pytest.raises(TypeError, match="integer"):
        Candidates.from_lists([[(0.5, 2, 1)]], [4])


def test_an_empty_batch_is_ordinary():
    scores, transition = torch.zeros(0, 4, 2, 3), torch.zeros(3, 3, requires_grad=True)
    for distribution in (
        FilteredSemiMarkov.from_scores(scores, scores, transition, []),
        SemiMarkov(scores, transition, []),
        LinearChain(scores[:, :, 0], transition, []),
        FilteredSemiMarkov(Candidates.from_lists([], []), torch.zeros(0), transition),
    ):
        assert distribution.mode == []
        assert distribution.log_partition.shape == (0,)
        distribution.log_partition.sum().backward()
    assert (transition.grad == 0).all()
