"""Formats told apart by name and content."""

from __future__ import annotations

import pytest

from spansieve.data.example import DataError
from spansieve.data.formats import FORMATS, format_of


@pytest.mark.parametrize(
    ("name", "content", "format"),
    [
        ("a.conll", "Ada B-PER\n", "conll"),
        ("a.unheard", "Ada B-PER\n", "conll"),
        ("a.conll", "[ O\nAda B-PER\n", "conll"),
        ("a.conll", '{ O\n', "conll"),
        ("a.conll", "", "conll"),
        ("a.txt", "1|t|Title\n", "pubtator"),
        ("a.tsv", "#FORMAT=WebAnno TSV 3.2\n", "webanno"),
        ("a.txt", "#begin document (a); part 000\n", "ontonotes"),
        ("a.v4_gold_conll", "", "ontonotes"),
        ("a.iob", "Ada|B-PER came|O\n", "iob-lines"),
        ("a.csv", "Ada,B-PER\n", "csv"),
        ("A.CSV", "text,start,end,label\n", "csv"),
        ("a.tsv", "text\tstart\tend\tlabel\n", "tsv"),
        ("a.tsv", "Sentence #\tWord\tTag\n", "tsv"),
        ("a.tsv", "Ada\tB-PER\n", "conll"),
        ("a.jsonl", '{"text": "a", "entities": [], "relations": []}\n', "doccano"),
        ("a.sgm", "<DOC>", "ace"),
        ("a.json", "[]", "jsonl"),
        ("a.jsonl", '{"tokens": ["a"]', "jsonl"),
        ("a.txt", '{"tokens": []}\n', "jsonl"),
        ("a.jsonl", '{"text": "a", "entities": [[0, 1, "X"]]}\n', "jsonl"),
        ("a.jsonl", '{"tokens": ["a"], "labels": ["O"]}\n', "jsonl"),
    ],
)  # fmt: skip
def test_a_file(tmp_path, name, content, format):
    (tmp_path / name).write_text(content)
    assert format_of(tmp_path / name) == format


def test_a_first_record_wider_than_the_opening(tmp_path, monkeypatch):
    monkeypatch.setattr("spansieve.data.formats.OPENING", 20)
    (tmp_path / "a.json").write_text('[{"id": 1, "padding": "long enough", "paragraphs": []}]')
    assert format_of(tmp_path / "a.json") == "spacy-json"


def test_a_text_with_its_standoff(tmp_path):
    (tmp_path / "a.txt").write_text("Ada B-PER\n")
    assert format_of(tmp_path / "a.txt") == "conll"
    (tmp_path / "a.ann").write_text("")
    assert format_of(tmp_path / "a.txt") == "brat"
    assert format_of(tmp_path) == "brat"


def test_a_folder_of_nothing_known_is_told(tmp_path):
    (tmp_path / "train.conll").write_text("Ada B-PER\n")
    with pytest.raises(DataError, match="give the files one by one otherwise"):
        format_of(tmp_path)


def test_every_format_says_what_it_is():
    assert all(format.name == name and format.about for name, format in FORMATS.items())
