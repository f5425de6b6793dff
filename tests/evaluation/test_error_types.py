"""Error types, against every way to pair gold and predictions."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import assume, given
from hypothesis import strategies as st

from spansieve.evaluation import analyse_errors, evaluate
from spansieve.evaluation.error_types import closeness
from spansieve.segments import NamedSegment
from tests.evaluation.segmentations import corpora

SEGMENTS = st.tuples(st.integers(0, 5), st.integers(1, 3), st.sampled_from("AB"))
OVERLAPPING = st.sets(SEGMENTS.map(lambda s: NamedSegment(s[0], s[0] + s[1], s[2])), max_size=4)


def matchings(pairs: list[tuple]) -> list[tuple]:
    """Every set of pairs in which no segment is twice."""
    sets = (chosen for size in range(len(pairs) + 1) for chosen in combinations(pairs, size))
    return [c for c in sets if len({g for g, _ in c}) == len({p for _, p in c}) == len(c)]


def is_stable(matching: tuple, pairs: list[tuple]) -> bool:
    """Whether no two segments are closer to each other than both are to those that they are paired with."""
    of = {segment: pair for pair in matching for segment in pair}
    return all(any(s in of and closeness(*of[s]) <= closeness(*pair) for s in pair) for pair in pairs)


@given(OVERLAPPING, OVERLAPPING)
def test_pairs_are_those_of_the_enumeration(gold, predicted):
    missing, wrong = gold - predicted, predicted - gold
    pairs = [(g, p) for g in missing for p in wrong if {*range(*g[:2])} & {*range(*p[:2])}]
    assert len({closeness(*pair) for pair in pairs}) == len(pairs)
    assume(len(pairs) < 10)  # 512 sets
    (expected,) = [matching for matching in matchings(pairs) if is_stable(matching, pairs)]
    errors = analyse_errors([gold], [sorted(predicted)]).errors
    assert {(e.gold, e.predicted) for e in errors if e.gold and e.predicted} == set(expected)
    assert Counter(e.gold for e in errors if e.gold) == Counter(missing)
    assert Counter(e.predicted for e in errors if e.predicted) == Counter(wrong)
    for error in errors:
        assert error.kind == kind_by_words(error.gold, error.predicted)


def kind_by_words(gold, predicted) -> str:
    if predicted is None:
        return "missed"
    if gold is None:
        return "invented"
    same_tokens, same_label = range(*gold[:2]) == range(*predicted[:2]), gold.label == predicted.label
    return {(True, False): "wrong label", (False, True): "wrong boundary", (False, False): "both"}[
        same_tokens, same_label
    ]


@given(corpora())
def test_counts_add_up_to_the_scores(corpus):
    _, gold, predicted = corpus
    scores, analysis = evaluate(gold, predicted), analyse_errors(gold, predicted)
    kinds = analysis.by_kind
    pairs = kinds["wrong label"] + kinds["wrong boundary"] + kinds["both"]
    assert kinds["missed"] + pairs == scores.micro.gold - scores.micro.true_positives
    assert kinds["invented"] + pairs == scores.micro.predicted - scores.micro.true_positives
    assert sum(kinds.values()) == len(analysis.errors)
    for label, counts in scores.by_label.items():
        assert sum(n for (g, _), n in analysis.confusion.items() if g == label) == counts.gold
        assert sum(n for (_, p), n in analysis.confusion.items() if p == label) == counts.predicted
        same_label = analysis.by_label.get(label, {}).get("wrong boundary", 0)
        assert analysis.confusion[label, label] == counts.true_positives + same_label


def test_by_hand():
    gold = [[(0, 2, "PER"), (3, 5, "ORG"), (6, 9, "LOC"), (10, 11, "LOC")], [(0, 4, "ORG"), (4, 6, "ORG")]]
    predicted = [[(0, 2, "ORG"), (3, 6, "ORG"), (8, 10, "PER"), (12, 13, "PER")], [(3, 6, "ORG")]]
    probabilities = [[0.9, 0.8, 0.7, 0.6], [0.5]]
    analysis = analyse_errors(gold, predicted, probabilities)
    told = [
        (e.sentence, e.kind, e.gold and e.gold[:2], e.predicted and e.predicted[:2], e.probability)
        for e in analysis.errors
    ]
    assert told == [
        (0, "wrong label", (0, 2), (0, 2), 0.9),
        (0, "wrong boundary", (3, 5), (3, 6), 0.8),
        (0, "both", (6, 9), (8, 10), 0.7),
        (0, "missed", (10, 11), None, None),
        (0, "invented", None, (12, 13), 0.6),
        (1, "missed", (0, 4), None, None),  # the other one has two of three tokens in common with what was predicted
        (1, "wrong boundary", (4, 6), (3, 6), 0.5),
    ]
    assert analysis.confusion["PER", "ORG"] == 1
    assert analysis.confusion["LOC", "PER"] == 1
    assert analysis.by_label["ORG"] == {"missed": 1, "invented": 0, "wrong label": 0, "wrong boundary": 2, "both": 0}
