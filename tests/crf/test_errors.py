"""What is wrong is said, with the argument, the requirement and what came."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spansieve.crf import Candidates, FilteredSemiMarkov, Gold, LinearChain, SemiMarkov, TagConstraints
from tests.crf.small import (
    BEYOND,
    KERNELS,
    MAKERS,
    TRANSITION,
    chain,
    dense,
    flat,
    raises,
    semi,
    span_scores,
    tag_scores,
    with_entry,
)

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
        ([True, False], TypeError, "lengths must be integers, got torch.bool; mask.sum(1) has the lengths of a mask"),
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


def test_a_label_is_no_string():
    with raises("three integers, got 'PER' in (0, 2, 'PER'); give a label by its number", TypeError):
        dense(gold=[[(0, 2, "PER")], []])
    with raises("a tag must be an integer, got 'O' in ['O', 'B-PER']; give a label by its number", TypeError):
        chain().log_prob([["O", "B-PER"], []])


def test_segments_of_one_sentence_in_place_of_a_batch():
    with raises("segments must be one list per sentence, got (0, 2, 1) for one", TypeError):
        dense(gold=[(0, 2, 1), (2, 4, 1)])


def test_gold_that_overlaps():
    with raises("gold of sentence 1 must not overlap, got segment (0, 2, 1) and segment (1, 2, 2); NestedLayer"):
        dense(gold=[[], [(1, 2, 2), (0, 2, 1)]])


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
