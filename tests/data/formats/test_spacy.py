"""spaCy's formats: binary documents, version 2 JSON, tags behind bars."""

from __future__ import annotations

import json
import sys

import pytest

from spansieve.data.alignment import Document, examples_of_documents
from spansieve.data.example import DataError, Example, ReaderWarnings
from spansieve.data.formats import format_of, read_examples, write_examples

EXAMPLES = [
    Example.of("Ada Lovelace met Bob . He left", [(0, 2, "PER"), (3, 4, "PER")], document="d"),
    Example.of("Yes"),
]


def test_documents_written_and_read_again(tmp_path):
    pytest.importorskip("spacy")
    write_examples(EXAMPLES, tmp_path / "a.spacy")
    again = read_examples(tmp_path / "a.spacy")
    assert [(e.tokens, e.segments, e.document) for e in again] == [(e.tokens, e.segments, e.document) for e in EXAMPLES]
    assert again[0].text == "Ada Lovelace met Bob . He left"


def test_overlapping_entities_go_to_the_spans(tmp_path):
    pytest.importorskip("spacy")
    nested = Example.of("Bank of China", [(0, 3, "ORG"), (2, 3, "LOC")])
    warnings = ReaderWarnings()
    write_examples([nested], tmp_path / "a.spacy", warnings=warnings)
    assert warnings.counts == {"overlapping entities only in spans['sc']": 1}
    assert read_examples(tmp_path / "a.spacy")[0].segments == ((0, 3, "ORG"),)
    assert read_examples(tmp_path / "a.spacy", spans_key="sc")[0].segments == nested.segments
    with pytest.raises(DataError, match="must have a group of spans named 'x' in each document, got one with sc"):
        read_examples(tmp_path / "a.spacy", spans_key="x")


def test_documents_that_spacy_made(tmp_path):
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    doc = nlp("Ada came.  \n Bob left. So what")
    doc.ents = [doc.char_span(13, 16, "PER")]
    binary = spacy.tokens.DocBin(docs=[doc])
    binary.to_disk(tmp_path / "a.spacy")
    examples = read_examples(tmp_path / "a.spacy")
    assert [example.tokens for example in examples] == [("Ada", "came", "."), ("Bob", "left", "."), ("So", "what")]
    assert examples[1].words(examples[1].segments[0]) == "Bob"
    assert len(read_examples(tmp_path / "a.spacy", split_sentences=False)) == 1


def test_a_damaged_file_is_told(tmp_path):
    pytest.importorskip("spacy")
    (tmp_path / "a.spacy").write_bytes(b"not a document")
    with pytest.raises(DataError, match=r"a\.spacy must be a whole file that spaCy's DocBin wrote"):
        read_examples(tmp_path / "a.spacy")


def test_without_spacy_the_error_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "a.spacy").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match=r"needs the package spacy, .* pip install 'spansieve\[spacy\]'"):
        read_examples(tmp_path / "a.spacy")


def test_version_2_json(tmp_path):
    def tokens(*pairs):
        return {"tokens": [{"orth": word, "ner": tag} for word, tag in pairs]}

    paragraph = {
        "raw": "Ada  Lovelace met Bob. Yes",
        "sentences": [
            tokens(("Ada", "B-PER"), (" ", "I-PER"), ("Lovelace", "L-PER"), ("met", "O"), ("Bob", "U-PER"), (".", "O")),
            tokens(("Yes", "-")),
        ],
    }
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"id": 3, "paragraphs": [paragraph, {"sentences": [tokens(("No", "O"))]}]}]))
    assert format_of(path) == "spacy-json"
    warnings = ReaderWarnings()
    examples = read_examples(path, warnings=warnings)
    assert [(" ".join(e.tokens), e.document) for e in examples] == [
        ("Ada Lovelace met Bob .", "3"),
        ("Yes", "3"),
        ("No", "3"),
    ]
    assert [examples[0].words(s) for s in examples[0].segments] == ["Ada  Lovelace", "Bob"]
    assert examples[2].text is None
    assert warnings.counts == {"tokens that were not annotated read as null": 1}
    path.write_text(json.dumps([{"paragraphs": [{"sentences": [{"tokens": [{"ner": "O"}]}]}]}]))
    with pytest.raises(DataError, match="record 1: each token must have its orth and ner as strings"):
        read_examples(path)


def test_tags_behind_bars(tmp_path):
    path = tmp_path / "a.iob"
    path.write_text("Ada|NNP|B-PER met|VBD|O Bob|NNP|B-PER |||O\n\nYes|UH|O\n")
    assert format_of(path) == "iob-lines"
    assert read_examples(path) == [Example.of("Ada met Bob |", [(0, 1, "PER"), (2, 3, "PER")]), Example.of("Yes")]
    path.write_text("Ada|B-PER\nmet\n")
    with pytest.raises(DataError, match=r"a\.iob line 2: every token must have its tag behind a bar.* got 'met'"):
        read_examples(path)


def test_characters_survive_the_way_through_a_document(tmp_path):
    pytest.importorskip("spacy")
    examples = examples_of_documents([Document(None, "Zoë’s 👍 isn't here. ذهب أحمد", [(0, 3, "PER")])])
    write_examples(examples, tmp_path / "a.spacy")
    assert [e.tokens for e in read_examples(tmp_path / "a.spacy")] == [e.tokens for e in examples]
