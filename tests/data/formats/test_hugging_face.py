"""Hugging Face datasets in memory, in folders and in parquet files."""

from __future__ import annotations

import sys

import pytest

from spansieve.data.example import DataError, Example, ReaderWarnings
from spansieve.data.formats import format_of, read_examples, write_examples

EXAMPLES = [
    Example.of("Ada Lovelace met Bob", [(0, 2, "PER"), (3, 4, "PER")], document="d"),
    Example.of("Yes"),
]
TOKENS = [["Ada", "came"], ["Yes"]]


@pytest.fixture
def datasets():
    return pytest.importorskip("datasets")


@pytest.mark.parametrize("name", ["folder", "file.parquet"])
@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
def test_written_and_read_again(tmp_path, datasets, name, scheme):
    write_examples(EXAMPLES, tmp_path / name, "hugging-face", scheme=scheme)
    assert format_of(tmp_path / name) == "hugging-face"
    assert read_examples(tmp_path / name) == EXAMPLES


def test_a_dataset_in_memory(datasets):
    labels = datasets.Sequence(datasets.ClassLabel(names=["O", "B-PER", "I-PER"]))
    features = datasets.Features(tokens=datasets.Sequence(datasets.Value("string")), ner_tags=labels)
    dataset = datasets.Dataset.from_dict({"tokens": TOKENS, "ner_tags": [[1, 0], [0]]}, features=features)
    expected = [Example.of("Ada came", [(0, 1, "PER")]), Example.of("Yes")]
    assert read_examples(dataset) == expected
    assert read_examples(datasets.DatasetDict(train=dataset), split="train") == expected
    with pytest.raises(DataError, match="dataset has the splits train; split must be one of them, got None"):
        read_examples(datasets.DatasetDict(train=dataset))
    strings = datasets.Dataset.from_dict({"words": TOKENS, "tags": [["B-PER", "O"], ["O"]]})
    assert read_examples(strings) == expected


def test_spans_in_a_column(datasets):
    spans = [[{"start": 0, "end": 1, "label": "PER"}, {"start": 0, "end": 2, "label": "X"}], []]
    dataset = datasets.Dataset.from_dict({"tokens": TOKENS, "entities": spans})
    assert read_examples(dataset) == [Example.of("Ada came", [(0, 1, "PER"), (0, 2, "X")]), Example.of("Yes")]
    dataset = datasets.Dataset.from_dict({"tokens": TOKENS, "entities": [[{"start": 0, "end": 9, "label": "X"}], []]})
    with pytest.raises(DataError, match="dataset row 1: a segment must lie within the 2 tokens"):
        read_examples(dataset)


def test_bare_numbers_need_names(datasets):
    dataset = datasets.Dataset.from_dict({"tokens": TOKENS, "ner_tags": [[1, 0], [0]]})
    with pytest.raises(DataError, match="dataset row 1: tags must be strings or class labels, got bare numbers"):
        read_examples(dataset)
    assert read_examples(dataset, names=["O", "B-PER"])[0].segments == ((0, 1, "PER"),)
    with pytest.raises(DataError, match="row 1: tags must lie between 0 and 0"):
        read_examples(dataset, names=["O"])


def test_a_missing_column_is_told(datasets):
    dataset = datasets.Dataset.from_dict({"tokens": TOKENS, "y": [[1, 0], [0]]})
    with pytest.raises(
        DataError, match="must have a column of tags, ner_tags or tags or ner or labels; it has tokens, y"
    ):
        read_examples(dataset)
    with pytest.raises(DataError, match="must have a column of tokens, 'x'; it has tokens, y"):
        read_examples(dataset, tokens="x")
    dataset = datasets.Dataset.from_dict({"tokens": TOKENS, "tags": [["O"], ["O"]]})
    with pytest.raises(DataError, match="row 1: tags must be one per token, 2, got 1"):
        read_examples(dataset)


def test_parquet_files_of_several_splits(tmp_path, datasets):
    for split in ("train", "test"):
        (tmp_path / "data").mkdir(exist_ok=True)
        write_examples(EXAMPLES, tmp_path / "data" / f"{split}-00000-of-00001.parquet")
    assert read_examples(tmp_path, split="test") == EXAMPLES
    with pytest.raises(DataError, match="has the splits test, train; split must be one of them, got None"):
        read_examples(tmp_path)
    damaged = tmp_path / "x.parquet"
    damaged.write_bytes(b"PAR1")
    with pytest.raises(DataError, match=r"x\.parquet must hold whole parquet files"):
        read_examples(damaged)


def test_what_tags_cannot_hold_is_noted(tmp_path, datasets):
    warnings = ReaderWarnings()
    nested = Example.of("Bank of China", [(0, 3, "ORG"), (2, 3, "LOC")])
    write_examples([nested], tmp_path / "a.parquet", warnings=warnings)
    assert warnings.counts == {"overlapping entities dropped, since tags are flat": 1}


def test_without_the_package_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"needs the package datasets, .* pip install datasets"):
        write_examples(EXAMPLES, tmp_path / "a.parquet")
