"""Entities as a data frame."""

from __future__ import annotations

import sys

import pytest

import spansieve
from spansieve import Entity
from spansieve.data.formats import read_examples
from spansieve.prediction.text_predictor import chunks_of, listed

TEXTS = ["Ada met Bob.", "Nothing.", "Nothing."]
FOUND = [[Entity(0, 3, "PER", "Ada", 0.9), Entity(8, 11, "PER", "Bob", 0.8)], [], []]


def test_one_row_per_entity_and_one_for_a_text_without(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = spansieve.to_dataframe(TEXTS, FOUND)
    assert list(frame.columns) == ["doc", "text", "start", "end", "label", "entity", "probability"]
    assert frame["doc"].tolist() == [0, 0, 1, 2]
    kept = frame.dropna(subset="label")
    assert kept[["start", "end", "label", "entity", "probability"]].values.tolist() == [list(e[:5]) for e in FOUND[0]]
    assert str(frame["start"].dtype) == "Int64"  # a missing value makes no 3.0 of a 3
    frame.to_csv(tmp_path / "found.csv", index=False)
    examples = read_examples(tmp_path / "found.csv")
    assert [(e.text, e.document, len(e.segments)) for e in examples] == [
        (TEXTS[0], "0", 2), (TEXTS[1], "1", 0), (TEXTS[2], "2", 0)
    ]  # fmt: skip
    column = pandas.Series(TEXTS, index=[7, 8, 9])
    assert spansieve.to_dataframe(column, FOUND)["doc"].tolist() == [7, 7, 8, 9]


def test_one_text(tmp_path):
    pytest.importorskip("pandas")
    assert spansieve.to_dataframe(TEXTS[0], FOUND[0])["entity"].tolist() == ["Ada", "Bob"]
    assert spansieve.to_dataframe(TEXTS[1], [])["label"].isna().all()
    assert len(spansieve.to_dataframe([], [])) == 0


def test_as_many_predictions_as_texts():
    pytest.importorskip("pandas")
    with pytest.raises(ValueError, match="predictions must be one list per text, 3, got 1"):
        spansieve.to_dataframe(TEXTS, FOUND[:1])


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setattr("spansieve.data.formats.files.import_module", _missing)
    with pytest.raises(ImportError, match="this needs the package pandas, got none installed; pip install pandas"):
        spansieve.to_dataframe(TEXTS, FOUND)


def _missing(name):
    raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("read", [listed, lambda texts: list(chunks_of(texts))])
@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_text_is_told_with_its_row(read, missing):
    with pytest.raises(TypeError, match=r"a text must be a string, got (NoneType None|float nan) in row 1, counted"):
        read(["Ada", missing])
