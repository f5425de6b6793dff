"""Files of word vectors: each kind is known by its content, and what is wrong is said with its line."""

from __future__ import annotations

import gzip
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.pre_tokenizers import Whitespace

from spansieve.nn.vector_files import MAX_LINE, read_vectors
from spansieve.nn.word_vectors import WordVectors

WORDS = ["the", "London", "new york", "é", "1996"]
VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 4)).astype(np.float32)


def text_lines(words=WORDS, vectors=VECTORS) -> list[bytes]:
    return [f"{w} {' '.join(f'{x:.6g}' for x in v)}\n".encode() for w, v in zip(words, vectors)]


def binary(words=WORDS, vectors=VECTORS, newline: bytes = b"\n") -> bytes:
    rows = [w.replace(" ", "_").encode() + b" " + struct.pack(f"<{len(v)}f", *v) + newline for w, v in zip(words, vectors)]
    return f"{len(words)} {len(vectors[0])}\n".encode() + b"".join(rows)


def check(found: WordVectors, words=WORDS, vectors=VECTORS) -> None:
    """The vectors are those of the file but for one factor, as far as 8 bits go."""
    factor = np.sqrt(np.mean(np.square(vectors)))
    np.testing.assert_allclose(found(words) * factor, vectors, atol=np.abs(vectors).max() / 127)


@pytest.mark.parametrize("name", ["vectors", "vectors.vec", "vectors.bin"])  # whatever it is called
@pytest.mark.parametrize("is_zipped", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        b"".join(text_lines()),
        b"".join(text_lines()).replace(b"\n", b" \n"),
        b"".join(text_lines()).replace(b"\n", b"\r\n"),
        b"5 4\n" + b"".join(text_lines()),
    ],
    ids=["glove", "space at the end", "windows", "header"],
)
def test_text_is_read(tmp_path: Path, content: bytes, is_zipped: bool, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(content) if is_zipped else content)
    check(read_vectors(tmp_path / name))


@pytest.mark.parametrize("newline", [b"\n", b""])
def test_binary_is_read(tmp_path: Path, newline: bytes) -> None:
    (tmp_path / "vectors.txt").write_bytes(binary(newline=newline))
    check(read_vectors(tmp_path / "vectors.txt"), [w.replace(" ", "_") for w in WORDS])


@pytest.mark.parametrize("content", [b"".join(text_lines()), b"5 4\n" + b"".join(text_lines()), binary()])
def test_the_first_words_are_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "vectors").write_bytes(content)
    found = read_vectors(tmp_path / "vectors", 2)
    assert len(found) == 2 and "London" in found and "1996" not in found


def test_more_than_a_block_of_lines(tmp_path: Path) -> None:
    words = [f"w{i}" for i in range(25_000)]
    vectors = np.random.default_rng(1).normal(size=(len(words), 2)).astype(np.float32)
    (tmp_path / "v").write_bytes(b"".join(text_lines(words, vectors)))
    check(read_vectors(tmp_path / "v"), words, vectors)
    lines = text_lines(words, vectors)
    lines[20_001] = b"w20001 0.5 x\n"
    (tmp_path / "v").write_bytes(b"".join(lines))
    with pytest.raises(ValueError, match=r"v line 20002: must be a word and 2 finite numbers, got '0.5 x'"):
        read_vectors(tmp_path / "v")


BAD = {
    "empty": (b"", "line 1.*it is empty"),
    "blank": (b"\n\n", "line 1.*it is empty"),
    "no numbers": (b"hello world\nmore\n", "line 1.*begins with 'hello world'"),
    "a picture": (b"\x89PNG\r\n\x1a\n\0\0\0", "line 1"),
    "a zip": (b"PK\x03\x04glove.6B.zip", "line 1"),
    "mixed dimensions": (b"a 1 2\nb 1 2 3\nc 1\n", "line 2: must be a word and 2 numbers, got 4 fields"),
    "cut short": (b"a 1 2\nb 1", "line 2: must be a word and 2 numbers, got 2 fields"),
    "an empty line": (b"a 1 2\n\nb 1 2\n", "line 2"),
    "nan": (b"a 1 2\nb 1 nan\n", "line 2: must be a word and 2 finite numbers"),
    "infinite": (b"a 1 2\nb 1 1e99\n", "line 2"),
    "a header of more": (b"3 2\na 1 2\nb 1 2\n", "first line says 3 words, got 2"),
    "a header of other dimensions": (b"2 3\na 1 2\nb 1 2\n", "cut short at word"),
    "an enormous header": (b"99999999999999 2\na 1 2\n", "first line says"),
    "enormous dimensions": (b"2 99999999999\na 1 2\n", "1 to 10,000 dimensions, got 99,999,999,999"),
    "a long line": (b"a " + b"1 " * MAX_LINE, "1 to 10,000 dimensions"),
    "binary, cut short": (binary()[:-9], "cut short at word 5 of the 5"),
    "binary, nan": (binary(vectors=np.full((5, 4), np.nan, np.float32)), "word 1: must have finite numbers"),
    "gzip, cut short": (gzip.compress(b"".join(text_lines()))[:-12], "damaged or cut short"),
    "gzip, damaged": (gzip.compress(b"".join(text_lines()))[:20] + b"\0" * 40, "damaged or cut short"),
}


@pytest.mark.parametrize("content, message", BAD.values(), ids=BAD)
def test_what_is_wrong_is_said(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "vectors.txt").write_bytes(content)
    with pytest.raises(ValueError, match=f"vectors.txt.*{message}"):
        read_vectors(tmp_path / "vectors.txt")


def test_damage_is_an_error_or_read_whole(tmp_path: Path) -> None:
    """Files with bytes changed or cut off at random: an error, or as many words as there are lines."""
    numbers = random.Random(0)
    for content in (b"".join(text_lines()), b"5 4\n" + b"".join(text_lines()), binary(), gzip.compress(binary())):
        for _ in range(60):
            damaged = bytearray(content[: numbers.randrange(1, len(content))] if numbers.random() < 0.5 else content)
            for _ in range(numbers.randrange(4)):
                damaged[numbers.randrange(len(damaged))] = numbers.randrange(256)
            (tmp_path / "v").write_bytes(bytes(damaged))
            try:
                found = read_vectors(tmp_path / "v")
            except ValueError as error:
                assert str(tmp_path / "v") in str(error)
            else:
                assert len(found) >= 1


def test_a_path_that_is_none() -> None:
    with pytest.raises(ValueError, match="vectors must be a GloVe.*there is no nowhere/glove.txt"):
        read_vectors("nowhere/glove.txt")
    with pytest.raises(ValueError, match="there is no en_core_web_none"):
        read_vectors("en_core_web_none")


def test_a_folder_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match="has notes.txt"):
        read_vectors(tmp_path)


# ---- Folders ---------------------------------------------------------------------------------------------------------


def test_spacy_vectors_are_read(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    for word, vector in zip(WORDS[:3], VECTORS):
        nlp.vocab.set_vector(word, vector)
    nlp.vocab.vectors.add(nlp.vocab.strings.add("LONDON"), row=nlp.vocab.vectors.key2row[nlp.vocab.strings["London"]])
    nlp.to_disk(tmp_path / "pipeline")
    found = read_vectors(tmp_path / "pipeline")
    rows = found(["the", "London", "LONDON", "none of them"])
    np.testing.assert_array_equal(rows[1], rows[2])
    assert rows[:3].any(axis=1).all() and not rows[3].any()


def test_a_pipeline_without_vectors_is_refused(tmp_path: Path) -> None:
    spacy = pytest.importorskip("spacy")
    spacy.blank("en").to_disk(tmp_path / "pipeline")
    with pytest.raises(ValueError, match="must have a table of word vectors"):
        read_vectors(tmp_path / "pipeline")


def write_model2vec(folder: Path, table: np.ndarray) -> None:
    vocabulary = {"[UNK]": 0, "lon": 1, "##don": 2, "the": 3}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    save_file({"embeddings": table}, folder / "model.safetensors")


def test_model2vec_pools_subwords_of_any_word(tmp_path: Path) -> None:
    write_model2vec(tmp_path / "m", VECTORS[:4])
    found = read_vectors(tmp_path / "m")
    factor = np.sqrt(np.mean(np.square(VECTORS[:4])))
    wanted = np.stack([VECTORS[1:3].mean(0), VECTORS[3], np.zeros(4, np.float32)])
    np.testing.assert_allclose(found(["london", "the", "zzz"]) * factor, wanted, atol=0.02)
    found.save(tmp_path)
    np.testing.assert_array_equal(WordVectors.load(tmp_path)(["london", "the"]), found(["london", "the"]))


@pytest.mark.parametrize("table", [VECTORS[:2], VECTORS[0], np.full((4, 2), np.inf, np.float32)])
def test_model2vec_of_another_form_is_refused(tmp_path: Path, table: np.ndarray) -> None:
    write_model2vec(tmp_path / "m", table)
    with pytest.raises(ValueError, match="must have embeddings of"):
        read_vectors(tmp_path / "m")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_model2vec_that_is_damaged_is_refused(tmp_path: Path, name: str) -> None:
    write_model2vec(tmp_path / "m", VECTORS[:4])
    (tmp_path / "m" / name).write_bytes(b"{}")
    with pytest.raises(ValueError, match="is no "):
        read_vectors(tmp_path / "m")
