"""Parts of a corpus: whole documents, the fractions asked for, the same for the same seed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spansieve.data.batching import described_part, split_examples
from spansieve.data.example import Example


def sentence(number: int, **where) -> Example:
    return Example.of(f"sentence {number}", **where)


@given(
    st.lists(st.integers(0, 6) | st.none(), min_size=12, max_size=60),
    st.lists(st.integers(1, 9), min_size=2, max_size=4),
    st.integers(0, 3),
)
def test_parts_are_all_there_is_and_no_document_is_in_two(documents, weights, seed):
    examples = [sentence(n, document=None if d is None else f"d{d}") for n, d in enumerate(documents)]
    keys = [example.document or example.tokens for example in examples]
    fractions = [weight / sum(weights) for weight in weights]
    if len(set(keys)) < len(fractions):
        return
    parts = split_examples(examples, fractions, seed)
    assert parts == split_examples(examples, fractions, seed)
    assert sorted(e.tokens for part in parts for e in part) == sorted(e.tokens for e in examples)
    assert all(parts)
    for part in parts:
        numbers = [examples.index(example) for example in part]
        assert numbers == sorted(numbers)
    owners = [{e.document or e.tokens for e in part} for part in parts]
    assert sum(map(len, owners)) == len(set().union(*owners))


@pytest.mark.parametrize("fractions", [[0.9, 0.1], [0.1, 0.9], [0.5, 0.25, 0.25], [0.98, 0.01, 0.01]])
def test_single_sentences_have_the_fractions(fractions):
    parts = split_examples([sentence(number) for number in range(400)], fractions)
    assert [len(part) for part in parts] == [round(fraction * 400) for fraction in fractions]


def test_another_seed_draws_others():
    examples = [sentence(number) for number in range(50)]
    assert split_examples(examples, [0.8, 0.2], 0) != split_examples(examples, [0.8, 0.2], 1)


def test_sentences_of_one_text_and_equal_ones_stay_together():
    text = "One . Two ."
    of_text = [Example.of(["One", "."], text=text, offsets=[(0, 3), (4, 5)]),
               Example.of(["Two", "."], text=text, offsets=[(6, 9), (10, 11)])]  # fmt: skip
    for seed in range(8):
        parts = split_examples([*of_text, sentence(1), sentence(1), sentence(2)], [0.6, 0.4], seed)
        assert all(sum(e.text == text for e in part) in (0, 2) for part in parts)
        assert all(part.count(sentence(1)) in (0, 2) for part in parts)


def test_every_part_has_a_document_even_if_the_first_is_large():
    examples = [sentence(n, document="large" if n < 50 else "small") for n in range(52)]
    assert sorted(map(len, split_examples(examples, [0.9, 0.1]))) == [2, 50]


def test_what_cannot_be_split_is_told():
    with pytest.raises(ValueError, match="2 parts need as many documents, which are not divided, got 1 in 9 sentences"):
        split_examples([sentence(n, document="a") for n in range(9)], [0.9, 0.1])
    for fractions in ([1.0], [0.5, 0.6], [1.0, 0.0], [1.5, -0.5]):
        with pytest.raises(ValueError, match="fractions must be at least two, all above 0 and 1 in sum, got"):
            split_examples([sentence(n) for n in range(9)], fractions)


def test_the_report_counts_documents_where_they_are_fewer():
    examples = [Example.of("Ada", [(0, 1, "PER")], document="a"), sentence(1, document="a")]
    assert described_part("x", examples) == "x: 2 sentences of 1 documents with 1 entities"
    assert described_part("y", [sentence(1)]) == "y: 1 sentences with 0 entities"
