"""Agreement of annotators, against counts made by hand."""

from __future__ import annotations

import pytest

from spansieve.data.alignment import Document, examples_of_documents
from spansieve.data.example import Example
from spansieve.evaluation.agreement import agreement_of, kappa

TEXT = "Ada Lovelace lives in New York. Bob does not."


def of(*annotations):
    return examples_of_documents([Document(None, TEXT, annotations)])


def test_three_annotators():
    ada, bob = of((0, 12, "PER"), (22, 30, "LOC")), of((0, 12, "PER"), (26, 30, "LOC"))
    report = agreement_of({"ada": ada, "bob": bob, "chen": ada})
    assert [(p.first, p.second, p.texts) for p in report.pairs] == [
        ("ada", "bob", 1),
        ("ada", "chen", 1),
        ("bob", "chen", 1),
    ]
    assert [p.f1 for p in report.pairs] == [0.5, 1.0, 0.5]
    # 11 tokens: PER, PER, lives, in, New, York, ., Bob, does, not, .; they differ in New alone.
    observed, chance = 10 / 11, (2 * 2 + 2 * 1 + 7 * 8) / 121
    assert report.pairs[0].kappa == pytest.approx((observed - chance) / (1 - chance))
    assert report.pairs[1].kappa == 1
    (entry,) = report.disagreements
    assert entry["text"] == TEXT
    assert entry["entities"]["bob"] == [(26, 30, "LOC", "York")]
    assert entry["entities"]["ada"] == entry["entities"]["chen"] == [(22, 30, "LOC", "New York")]


def test_an_entity_within_a_token_does_not_hide_the_text():
    """Its annotator has another token, and another sentence perhaps, but the same text."""
    report = agreement_of({"a": of((0, 1, "PER")), "b": of((28, 34, "LOC"))})
    assert report.pairs[0].texts == 1
    assert report.pairs[0].f1 == 0
    assert report.pairs[0].kappa < 0


def test_tokens_without_a_text_and_texts_of_one_annotator():
    one = [Example.of("Ada lives", [(0, 1, "PER")]), Example.of("in Rome", [(1, 2, "LOC")]), Example.of("in Rome")]
    report = agreement_of({"a": one, "b": [one[2], one[1]]})
    assert report.pairs[0].texts == 2
    assert [entry["text"] for entry in report.disagreements] == ["in Rome", "in Rome"]
    with pytest.raises(ValueError, match="a and b must have a text in common, got none"):
        agreement_of({"a": one, "b": [Example.of("else")]})
    with pytest.raises(ValueError, match="at least two annotators of the same texts, got a"):
        agreement_of({"a": one})


def test_kappa_of_chance_and_of_nothing_to_differ_in():
    assert kappa([("A", "A"), ("A", "B"), ("B", "A"), ("B", "B")]) == 0
    assert kappa([("", "")] * 5) == 1
