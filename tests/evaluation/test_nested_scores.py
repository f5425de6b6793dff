"""Scores of outer and inner segments."""

from __future__ import annotations

from spansieve.evaluation.nested_scores import evaluate_levels

GOLD = [[(0, 4, "ORG"), (1, 2, "LOC"), (5, 6, "PER")], [(0, 1, "LOC")]]


def counts(scores):
    return (scores.micro.true_positives, scores.micro.gold, scores.micro.predicted)


def test_gold_against_itself():
    levels = evaluate_levels(GOLD, GOLD)
    assert {name: counts(one) for name, one in levels.items()} == {
        "all": (4, 4, 4),
        "outer": (3, 3, 3),
        "inner": (1, 1, 1),
    }


def test_a_level_is_that_among_its_own():
    """Without its container an inner segment is an outer one: right in all, wrong in both levels."""
    levels = evaluate_levels(GOLD, [[(1, 2, "LOC"), (5, 6, "PER")], [(0, 2, "LOC"), (0, 1, "LOC")]])
    assert counts(levels["all"]) == (3, 4, 4)
    assert counts(levels["outer"]) == (1, 3, 3)
    assert counts(levels["inner"]) == (0, 1, 1)


def test_two_labels_on_one_span_are_both_outer():
    levels = evaluate_levels([[(0, 2, "A"), (0, 2, "B")]], [[(0, 2, "A")]])
    assert counts(levels["outer"]) == (1, 2, 1)
    assert counts(levels["inner"]) == (0, 0, 0)
