"""Scores: equal to conlleval's and to seqeval's strict ones, through BIO tags."""

from __future__ import annotations

import json
import warnings
from collections import Counter

import pytest
from hypothesis import given
from seqeval.metrics.v1 import precision_recall_fscore_support
from seqeval.scheme import IOB2

from spansieve import evaluation
from spansieve.evaluation import Counts, Scores, evaluate
from spansieve.evaluation.scores import bucket_of, evaluate_levels
from tests.evaluation.segmentations import LABELS, bio, corpora

GOLD = [[(0, 2, "PER"), (4, 5, "LOC")], [], [(1, 2, "ORG")]]
PREDICTED = [[(0, 2, "PER"), (3, 5, "LOC")], [(0, 1, "PER")], [(1, 2, "LOC")]]


def conlleval_counts(gold: list[list[str]], predicted: list[list[str]]) -> dict[str, tuple[int, int, int]]:
    """Correct, gold and predicted chunks by type, as conlleval finds them: one walk over the tags, chunk by chunk.

    A chunk begins at a B, or at an I that has nothing of its type to continue, and is over before the next beginning,
    an O, or another type. It is correct when both sides begin and end it at the same tokens, with the same type.
    """
    correct, in_gold, in_predicted = Counter(), Counter(), Counter()
    for truth, guess in zip(gold, predicted):
        open_type = None  # of a chunk that both sides have begun together and gone on with so far
        last_truth = last_guess = "O"
        for tag, other in zip([*truth, "O"], [*guess, "O"]):
            truth_ends, guess_ends = _ends(last_truth, tag), _ends(last_guess, other)
            if open_type is not None and (truth_ends or guess_ends):
                correct[open_type] += truth_ends and guess_ends
                open_type = None
            truth_begins, guess_begins = _begins(last_truth, tag), _begins(last_guess, other)
            if truth_begins and guess_begins and tag[2:] == other[2:]:
                open_type = tag[2:]
            in_gold[tag[2:]] += truth_begins
            in_predicted[other[2:]] += guess_begins
            last_truth, last_guess = tag, other
    return {label: (correct[label], in_gold[label], in_predicted[label]) for label in LABELS}


def _begins(before: str, tag: str) -> bool:
    return tag != "O" and (tag[0] == "B" or before == "O" or before[2:] != tag[2:])


def _ends(before: str, tag: str) -> bool:
    return before != "O" and (tag == "O" or tag[0] == "B" or before[2:] != tag[2:])


def seqeval(gold: list[list[str]], predicted: list[list[str]], average: str | None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return precision_recall_fscore_support(gold, predicted, scheme=IOB2, average=average, zero_division=0)


# ---- Equal to the yardsticks -----------------------------------------------------------------------------------------


@given(corpora())
def test_counts_are_those_of_conlleval(corpus):
    lengths, gold, predicted = corpus
    tags = [[bio(segments, length) for segments, length in zip(side, lengths)] for side in (gold, predicted)]
    scores = evaluate(gold, predicted)
    for label, counts in conlleval_counts(*tags).items():
        assert scores.by_label.get(label, Counts()) == Counts(*counts)


@given(corpora())
def test_figures_are_those_of_seqeval(corpus):
    lengths, gold, predicted = corpus
    tags = [[bio(segments, length) for segments, length in zip(side, lengths)] for side in (gold, predicted)]
    scores = evaluate(gold, predicted)
    if not scores.by_label:
        return  # seqeval cannot average over no labels
    assert seqeval(*tags, "micro")[:3] == pytest.approx((scores.precision, scores.recall, scores.f1))
    macro = (scores.macro_precision, scores.macro_recall, scores.macro_f1)
    assert seqeval(*tags, "macro")[:3] == pytest.approx(macro)
    for figure, values in zip(("precision", "recall", "f1"), seqeval(*tags, None)):
        assert list(values) == pytest.approx([getattr(counts, figure) for counts in scores.by_label.values()])


# ---- What is counted -------------------------------------------------------------------------------------------------


def test_a_segment_is_right_with_its_ends_and_its_label():
    scores = evaluate(GOLD, PREDICTED, lengths=[6, 1, 40])
    assert scores.micro == Counts(1, 3, 4)
    assert scores.by_label == {"LOC": Counts(0, 1, 2), "ORG": Counts(0, 1, 0), "PER": Counts(1, 1, 2)}
    assert scores.by_width == {1: Counts(0, 2, 2), 2: Counts(1, 1, 2)}
    assert scores.by_length == {"1-10": Counts(1, 2, 3), "31-50": Counts(0, 1, 1)}
    assert scores.sentences == 3


def test_nothing_to_divide_by_is_zero():
    nothing = evaluate([[], []], [[], []])
    assert nothing == Scores(sentences=2)
    assert (nothing.f1, nothing.macro_f1, nothing.precision, nothing.recall) == (0, 0, 0, 0)
    assert evaluate([], []) == Scores()
    missed = evaluate([[(0, 1, "A")]], [[]])
    assert (missed.precision, missed.recall, missed.f1) == (0, 0, 0)


def test_a_label_that_is_only_predicted_counts_in_macro():
    scores = evaluate([[(0, 1, "A")]], [[(0, 1, "A"), (2, 3, "B")]])
    assert scores.macro_f1 == 0.5


def test_twice_predicted_is_predicted_once():
    assert evaluate([[(0, 1, "A")]], [[(0, 1, "A"), (0, 1, "A")]]).precision == 1


def test_segments_may_overlap():
    nested = [(0, 3, "A"), (1, 2, "A"), (1, 2, "B")]
    assert evaluate([nested], [nested[:2]]).micro == Counts(2, 3, 2)


@given(corpora())
def test_parts_add_up_to_the_whole(corpus):
    lengths, gold, predicted = corpus
    scores = evaluate(gold, predicted, lengths)
    for parts in (scores.by_label, scores.by_width, scores.by_length):
        assert sum(parts.values(), Counts()) == scores.micro


@given(corpora())
def test_scores_survive_json(corpus):
    lengths, gold, predicted = corpus
    scores = evaluate(gold, predicted, lengths)
    assert Scores.from_dict(json.loads(json.dumps(scores.to_dict()))) == scores


def test_json_has_figures_and_counts():
    values = evaluate(GOLD, PREDICTED).to_dict()
    assert values["micro"] == {
        "precision": 0.25,
        "recall": pytest.approx(1 / 3),
        "f1": pytest.approx(2 / 7),
        "true_positives": 1,
        "gold": 3,
        "predicted": 4,
    }
    assert set(values) == {"sentences", "micro", "macro", "by_label", "by_width", "by_length"}


def test_buckets_follow_one_another():
    names = [bucket_of(length) for length in range(1, 70)]
    assert list(dict.fromkeys(names)) == ["1-10", "11-20", "21-30", "31-50", "51+"]


# ---- What is refused -------------------------------------------------------------------------------------------------


def test_one_entry_per_sentence():
    with pytest.raises(ValueError, match="predicted must have one entry per sentence of gold, 3, got 2"):
        evaluate(GOLD, PREDICTED[:2])
    with pytest.raises(ValueError, match="lengths must have one entry per sentence of gold, 3, got 1"):
        evaluate(GOLD, PREDICTED, lengths=[6])


@pytest.mark.parametrize("segment", [(2, 2, "A"), (3, 1, "A"), (-1, 2, "A")])
def test_segments_end_after_they_start(segment):
    with pytest.raises(ValueError, match=r"predicted\[1\] must have segments that end after they start"):
        evaluate([[], []], [[], [segment]])


def test_segments_lie_within_the_sentence():
    with pytest.raises(ValueError, match=r"gold\[0\] must have segments within its 4 tokens, got \(4, 5, 'LOC'\)"):
        evaluate(GOLD, PREDICTED, lengths=[4, 2, 2])


def test_labels_are_names():
    with pytest.raises(TypeError, match=r"predicted\[0\] must have names for labels, got \(0, 1, 3\); LabelSet.name"):
        evaluate([[]], [[(0, 1, 3)]])


def test_the_package_offers_its_members():
    for name in evaluation.__all__:
        assert getattr(evaluation, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'unheard_of'"):
        _ = evaluation.unheard_of


# ---- Outer and inner segments ------------------------------------------------------------------------------------

NESTED = [[(0, 4, "ORG"), (1, 2, "LOC"), (5, 6, "PER")], [(0, 1, "LOC")]]


def counts(scores):
    return (scores.micro.true_positives, scores.micro.gold, scores.micro.predicted)


def test_gold_against_itself():
    levels = evaluate_levels(NESTED, NESTED)
    assert {name: counts(one) for name, one in levels.items()} == {
        "all": (4, 4, 4),
        "outer": (3, 3, 3),
        "inner": (1, 1, 1),
    }


def test_a_level_is_that_among_its_own():
    """Without its container an inner segment is an outer one: right in all, wrong in both levels."""
    levels = evaluate_levels(NESTED, [[(1, 2, "LOC"), (5, 6, "PER")], [(0, 2, "LOC"), (0, 1, "LOC")]])
    assert counts(levels["all"]) == (3, 4, 4)
    assert counts(levels["outer"]) == (1, 3, 3)
    assert counts(levels["inner"]) == (0, 1, 1)


def test_two_labels_on_one_span_are_both_outer():
    levels = evaluate_levels([[(0, 2, "A"), (0, 2, "B")]], [[(0, 2, "A")]])
    assert counts(levels["outer"]) == (1, 2, 1)
    assert counts(levels["inner"]) == (0, 0, 0)
