"""What another processor may print is taken for what is shown, and nothing else is."""

from __future__ import annotations

import pytest

from tests.docs.shown_output import has_form, is_answer, is_printed

SENTENCES = "Ada [PER 0.99] met\nYork [LOC 0.66] fell\n"
LINES = "0 3 PER Ada 0.99\n0.97 [('Ada', 'PER')]\n0.03 [('Ada', 'LOC')]\n['Ada']\n"


@pytest.mark.parametrize(
    "printed",
    [
        f"before\n{SENTENCES}between\nafter",
        "Ada [PER 0.94] met\nYork [LOC 0.51] fell",
        "Ada [PER 1.00] met\nYork fell",  # of which the model is not sure
        "Ada [PER 1.00] met\nYork [PER 0.70] fell [LOC 0.55]",
    ],
)
def test_marked_sentences_of_another_processor(printed):
    assert is_printed(SENTENCES, printed)
    assert has_form(SENTENCES, printed)


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "Ada [PER 0.99] met",
        "York [LOC 0.66] fell\nAda [PER 0.99] met",
        "Ada [LOC 0.99] met\nYork [LOC 0.66] fell",
        "Ada [PER 0.80] met\nYork [LOC 0.66] fell",
        "Ada met\nYork [LOC 0.66] fell",
        "Ada [PER 0.99] met\nYork [LOC 0.66] fell [PER 1.00]",
        "Ada [PER 0.99] met.\nYork [LOC 0.66] fell",
    ],
)
def test_marked_sentences_that_are_not_those_shown(printed):
    assert not is_printed(SENTENCES, printed)


def test_sentences_of_any_model_have_the_form():
    assert has_form(SENTENCES, "Ada met [LOC 0.50]\nYork fell")
    assert not has_form(SENTENCES, "Ada met")


@pytest.mark.parametrize(
    ("old", "new", "is_same"),
    [
        ("0.99", "0.97", True),
        ("0.97 [", "0.91 [", True),
        ("0.03 [('Ada', 'LOC')]", "0.01 []", True),
        ("0.99", "0.85", False),
        ("0 3 PER", "0 4 PER", False),
        ("['Ada']", "['York']", False),
        ("0.97 [('Ada', 'PER')]", "0.97 [('Ada', 'LOC')]", False),
        ("0.03 [", "reading [", False),
    ],
)
def test_lines_with_probabilities(old, new, is_same):
    assert old in LINES
    assert is_printed(LINES, LINES.replace(old, new)) == is_same


def test_lines_of_any_model_have_the_form():
    assert has_form(LINES, "12 20 LOC New York 0.50\n0.55 []\n[]")
    assert not has_form(LINES, "12 20 LOC\n")
    assert not has_form(LINES, "")


def test_answers():
    shown = {"entities": [{"start": 0, "label": "PER", "probability": 0.99}], "sentences": None}
    assert is_answer(shown, {"entities": [{"start": 0, "label": "PER", "probability": 0.9312}], "sentences": None})
    for start, label, probability in ((1, "PER", 0.99), (0, "LOC", 0.99), (0, "PER", 0.5), (0, "PER", None)):
        entity = {"start": start, "label": label, "probability": probability}
        assert not is_answer(shown, {"entities": [entity], "sentences": None})
    assert not is_answer(shown, {"entities": [], "sentences": None})
    assert not is_answer(shown, shown | {"more": 1})
