"""Pretrained word vectors: what is found of a word, and how the built-in encoder reads them."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from spansieve.config import BuiltinConfig, ConfigError, EncoderConfig, ModelConfig
from spansieve.nn.builtin_encoder import BuiltinEncoder
from spansieve.nn.word_vectors import VECTORS, WordVectors, quantised

WORDS = ["the", "London", "paris", "0000", "é"]
TABLE = np.random.default_rng(0).normal(size=(len(WORDS), 3)).astype(np.float32)
SMALL = BuiltinConfig(rows=50, feature_size=4, size=6)


def vectors() -> WordVectors:
    return WordVectors.of_words(WORDS, TABLE)


@pytest.mark.parametrize(
    ("written", "found"), [("the", 0), ("The", 0), ("THE", 0), ("London", 1), ("LONDON", 1), ("PARIS", 2), ("1996", 3)]
)
def test_a_word_is_found_in_another_form(written: str, found: int) -> None:
    np.testing.assert_array_equal(vectors()([written]), vectors()([WORDS[found]]))


def test_a_word_that_is_not_there_has_zeros() -> None:
    assert not vectors()(["london-based", "", "\ud800", "x" * 100_000]).any()
    assert vectors()([]).shape == (0, 3)


def test_the_first_of_equal_words_counts() -> None:
    found = WordVectors.of_words(["a", "b", "a"], TABLE[:3])
    np.testing.assert_allclose(found(["a"])[0] / found(["b"])[0], TABLE[0] / TABLE[1], rtol=0.1)
    assert len(found) == 2


@given(st.lists(st.lists(st.floats(-1e6, 1e6, width=32), min_size=3, max_size=3), min_size=1, max_size=5))
def test_eight_bits_are_near_the_row(rows: list[list[float]]) -> None:
    given_rows = np.array(rows, np.float32)
    table, scales = quantised(given_rows)
    overall = np.sqrt(np.mean(np.square(given_rows, dtype=np.float64))) or 1.0
    largest = np.abs(given_rows).max(axis=1, keepdims=True)
    assert (np.abs(table * scales[:, None] * overall - given_rows) <= 0.51 / 127 * largest + 1e-12).all()


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    vectors().save(tmp_path)
    for found in (WordVectors.load(tmp_path), pickle.loads(pickle.dumps(vectors()))):
        np.testing.assert_array_equal(found([*WORDS, "none"]), vectors()([*WORDS, "none"]))


@pytest.mark.parametrize(
    "change",
    [
        {"hashes": np.zeros(5, np.uint64)},
        {"hashes": np.arange(5)},
        {"rows": np.full(5, 5, np.int32)},
        {"rows": np.full(5, -1, np.int32)},
        {"rows": np.zeros(4, np.int32)},
        {"table": TABLE},
        {"table": np.zeros((5, 0), np.int8)},
        {"scales": np.full(5, np.nan, np.float32)},
        {"scales": np.ones(4, np.float32)},
    ],
)
def test_arrays_that_do_not_fit_are_refused(change: dict[str, np.ndarray]) -> None:
    made = vectors()
    arrays = {"hashes": made.hashes, "rows": made.rows, "table": made.table, "scales": made.scales}
    with pytest.raises(ValueError, match="word vectors: "):
        WordVectors(**(arrays | change))


# ---- In the encoder --------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lines = [f"{word} {' '.join(map(str, row))}" for word, row in zip(WORDS, TABLE)]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "vectors.txt"


def encoder(path: Path, folder: Path | None = None, **settings) -> BuiltinEncoder:
    torch.manual_seed(0)
    return BuiltinEncoder(replace(SMALL, vectors=str(path), **settings), folder).eval()


def test_the_encoder_reads_the_vector_of_a_word(path: Path) -> None:
    """The same weights with another vector give another result, and without one the same as with zeros."""
    made = encoder(path)
    features = made.features([["London", "none"]])
    other = features | {"word_vectors": features["word_vectors"].clone()}
    other["word_vectors"][0] = 0
    assert not torch.allclose(made(features), made(other))
    assert not features["word_vectors"][1].any()


@pytest.mark.parametrize("train_vectors", [False, True])
def test_a_correction_is_learned_where_it_is_asked_for(path: Path, train_vectors: bool) -> None:
    made = encoder(path, train_vectors=train_vectors)
    made(made.features([["London"]])).square().sum().backward()
    learned = [name for name, parameter in made.named_parameters() if "corrections" in name and parameter.grad.any()]
    assert learned == (["corrections.weight"] if train_vectors else [])


def test_the_folder_of_a_model_is_enough(path: Path, tmp_path: Path) -> None:
    made = encoder(path)
    made.save(tmp_path)
    path.unlink()
    assert (tmp_path / VECTORS).is_file()
    again = encoder(path, tmp_path)
    torch.testing.assert_close(again(again.features([["Paris", "the"]])), made(made.features([["Paris", "the"]])))


def test_vectors_are_for_the_builtin_encoder() -> None:
    with pytest.raises(ConfigError, match=r"builtin.vectors needs encoder.name='builtin', got 'some-bert'"):
        ModelConfig(encoder=EncoderConfig(name="some-bert"), builtin=replace(SMALL, vectors="glove.txt"))
