"""The files of a corpus are recognised by their names, and refused where they cannot be told."""

from __future__ import annotations

import pytest

from benchmarks.reproduce import corpora
from spansieve.data.example import DataError
from tests.benchmarks.reproduce.conftest import TEST
from tests.training import runs


@pytest.mark.parametrize(
    "names",
    [
        ("eng.train", "eng.testa", "eng.testb"),
        ("train.jsonl.gz", "dev.jsonl.gz", "test.jsonl.gz"),
        ("wnut17train.conll", "emerging.dev.conll", "emerging.test.annotated"),
        ("training", "validation", "test"),
    ],
)
def test_files_are_told_by_their_names(tmp_path, names):
    for name in (*names, "README.md", ".test.swp"):
        (tmp_path / name).touch()
    assert [path.name for path in corpora.files_in(tmp_path).values()] == list(names)


def test_a_corpus_is_read(towns):
    corpus = corpora.read_corpus(corpora.files_in(towns), "towns")
    assert [len(corpus.train), len(corpus.dev), len(corpus.test)] == [len(runs.TRAIN), len(runs.DEV), len(TEST)]
    assert corpus.test[3].segments == TEST[3].segments
    assert corpus.describe() == "towns: 18/9/9 sentences with 36/18/18 entities in train/dev/test, 2 labels"
    part = corpus.first(5, 4, 3)
    assert [len(part.train), len(part.dev), len(part.test)] == [5, 4, 3]
    assert "only the first 5/4/3 sentences" in part.describe()


def test_notes_name_no_folders(towns):
    (towns / "towns.train.conll").write_text("Ada B-PER\nhere O\n\nRome I-LOC\n\nBob I-PER\nStone I-LOC\n\n")
    corpus = corpora.read_corpus(corpora.files_in(towns), "towns")
    assert "train: " in corpus.describe()
    assert "towns.train.conll line" in corpus.describe()
    assert str(towns) not in corpus.describe()


@pytest.mark.parametrize(("more", "message"), [("train.txt", "got towns.train.conll, train.txt"), (None, "got none")])
def test_what_cannot_be_told_is_refused(towns, more, message):
    if more is None:
        (towns / "test.jsonl").unlink()
    else:
        (towns / more).touch()
    with pytest.raises(DataError, match=message):
        corpora.files_in(towns)
