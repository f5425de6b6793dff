"""Annotations of characters become segments of tokens without loss."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spansieve.data.alignment import Document, documents_of_examples, examples_of_documents
from spansieve.data.example import DataError, Example, ReaderWarnings

TEXTS = st.text(st.sampled_from("abé \n.A1-’🙂ع北"), min_size=1, max_size=40)


def characters(examples):
    return {
        (e.offsets[s.start][0], e.offsets[s.end - 1][1], s.label) for e in examples for s in e.segments
    }  # fmt: skip


@given(TEXTS, st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.sampled_from("XY")), max_size=5))
def test_every_entity_keeps_its_characters_but_for_blanks_around_them(text, drawn):
    spans = {(min(a, b, len(text)), min(max(a, b), len(text)), label) for a, b, label in drawn}
    examples = examples_of_documents([Document(None, text, spans)])
    expected = set()
    for start, end, label in spans:
        words = text[start:end]
        if words.strip():
            expected.add((start + len(words) - len(words.lstrip()), end - len(words) + len(words.rstrip()), label))
    assert characters(examples) == expected
    for example in examples:
        assert [text[start:end] for start, end in example.offsets] == list(example.tokens)


def test_a_token_is_cut_where_an_entity_begins_or_ends():
    warnings = ReaderWarnings()
    (example,) = examples_of_documents(
        [Document(None, "pre-Soviet times", [(4, 10, "GPE")], "here")], warnings=warnings
    )
    assert example.tokens == ("pre-", "Soviet", "times")
    assert example.segments == ((1, 2, "GPE"),)
    assert str(warnings) == "1 × tokens cut where an entity begins or ends within them (here)"


def test_what_is_left_out_is_noted():
    warnings = ReaderWarnings()
    examples_of_documents(
        [Document(None, "a  b", [(1, 3, "X"), (2, 2, "X"), (0, 1, "Y"), (0, 1, "Y")])], warnings=warnings
    )
    assert dict(warnings) == {
        "entities of nothing but blanks left out": 1,
        "entities without characters left out": 1,
        "entities given twice read once": 1,
    }


@pytest.mark.parametrize("span", [(0, 9, "X"), (-1, 2, "X"), (2, 1, "X")])
def test_an_entity_outside_the_text_is_refused(span):
    with pytest.raises(DataError, match=r"f.ann: an entity must lie within the 4 characters of its text, got"):
        examples_of_documents([Document(None, "Anna", [span], "f.ann")])


def test_a_text_of_blanks_has_no_sentences():
    assert examples_of_documents([Document(None, " \n ", [])]) == []


def test_sentences_become_their_document_again():
    text = "Ada came. Bob left."
    examples = examples_of_documents([Document("d", text, [(0, 3, "PER"), (10, 13, "PER")])])
    assert len(examples) == 2
    assert list(documents_of_examples(examples)) == [Document("d", text, [(0, 3, "PER"), (10, 13, "PER")])]


def test_sentences_without_text_are_joined():
    examples = [
        Example.of("Ada came", [(0, 1, "PER")], document="d"),
        Example.of("Bob left", [(0, 2, "X")], document="d"),
    ]
    warnings = ReaderWarnings()
    (document,) = documents_of_examples(examples, warnings)
    assert document.text == "Ada came\n\nBob left"
    assert [document.text[start:end] for start, end, _ in document.annotations] == ["Ada", "Bob left"]
    assert warnings.counts["texts made by joining tokens with blanks"] == 2
    unnamed = [Example.of("a b", [(1, 2, "X")]), Example.of(""), Example.of("c", [(0, 1, "X")])]
    assert [d.text for d in documents_of_examples(unnamed)] == ["a b", "", "c"]
    (document,) = documents_of_examples(unnamed, join_unnamed=True)
    assert [document.text[start:end] for start, end, _ in document.annotations] == ["b", "c"]
