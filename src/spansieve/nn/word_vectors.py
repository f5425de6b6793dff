"""Pretrained word vectors: a word in, its vector out, or zeros where there is none.

A table of 8-bit rows, each with its scale, and the hashes of the words that have one, in order: a word is found by
bisection, so that nothing has to be built when a model is loaded. Vectors of subwords have a tokenizer instead, and
the vector of a word is the mean of its subwords'.

Axes: N words, R rows, U distinct words, D dimensions of a vector.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

VECTORS, TOKENIZER = "vectors.safetensors", "tokenizer.json"  # in the folder of an encoder
MAX_CACHED = 200_000  # words whose rows are kept at hand
MAX_DIMENSIONS = 10_000
MAX_HEADER = 1 << 16  # bytes, of a file of four arrays
NONE = np.zeros(0, np.int64)


class WordVectors:
    """Pretrained vectors of words, or of subwords where there is a tokenizer."""

    def __init__(
        self, hashes: np.ndarray, rows: np.ndarray, table: np.ndarray, scales: np.ndarray, tokenizer: Any = None
    ) -> None:
        """`hashes` (N,) are those of `hash_of`, in order, and `rows` (N,) has the row of each; `table` (R, D) has
        8-bit numbers and `scales` (R,) what a row's are multiplied by. With a tokenizer, its ids are the rows."""
        _check(hashes.ndim == 1 and hashes.dtype == np.uint64, f"hashes must be (N,) uint64, got {_form(hashes)}")
        _check(table.ndim == 2 and table.dtype == np.int8, f"table must be (R, D) int8, got {_form(table)}")
        _check(0 < table.shape[1] <= MAX_DIMENSIONS, f"a vector must have 1 to {MAX_DIMENSIONS:,} dimensions")
        _check(rows.shape == hashes.shape and rows.dtype == np.int32, f"rows must be (N,) int32, got {_form(rows)}")
        is_scales = scales.shape == table.shape[:1] and scales.dtype == np.float32
        _check(is_scales and bool(np.isfinite(scales).all()), f"scales must be (R,) float32, got {_form(scales)}")
        _check(bool((hashes[1:] > hashes[:-1]).all()), "hashes must be in order, each once")
        _check(not len(rows) or 0 <= rows.min() <= rows.max() < len(table), "rows must be those of the table")
        self.hashes, self.rows, self.table, self.scales, self.tokenizer = hashes, rows, table, scales, tokenizer
        self._known: dict[str, np.ndarray] = {}

    @classmethod
    def of_words(cls, words: Sequence[str], vectors: np.ndarray, rows: np.ndarray | None = None) -> WordVectors:
        """Take vectors (R, D): of each word its own or, with `rows` (N,), that one. Of equal words the first counts."""
        hashes = np.fromiter(map(hash_of, words), np.uint64, len(words))
        hashes, first = np.unique(hashes, return_index=True)
        own = np.arange(len(words)) if rows is None else rows
        return cls(hashes, own[first].astype(np.int32), *quantised(vectors))

    @property
    def size(self) -> int:
        return self.table.shape[1]

    def __len__(self) -> int:
        return len(self.table) if self.tokenizer else len(self.hashes)

    def __contains__(self, word: str) -> bool:
        return len(self.rows_of(word)) > 0

    def __call__(self, words: Sequence[str]) -> np.ndarray:
        """Look up the vectors of words, (U, D): of the word as it is written, else of another form of it."""
        found = [self.rows_of(word) for word in words]
        counts = np.fromiter(map(len, found), np.int64, len(found))
        flat = np.concatenate([NONE, *found])
        values = self.table[flat] * self.scales[flat, None]
        vectors = np.zeros((len(words), self.size), np.float32)
        if counts.max(initial=0) > 1:
            values = np.add.reduceat(values, (counts.cumsum() - counts)[counts > 0])
            values /= counts[counts > 0, None]
        vectors[counts > 0] = values
        return vectors

    def rows_of(self, word: str) -> np.ndarray:
        """Find the rows whose mean is the vector of a word; there are none for a word without any."""
        rows = self._known.get(word)
        if rows is None:
            if len(self._known) > MAX_CACHED:
                self._known.clear()
            rows = self._known[word] = self._found(word)
        return rows

    def _found(self, word: str) -> np.ndarray:
        if self.tokenizer is not None:
            encoded = self.tokenizer.encode(word, add_special_tokens=False)
            unknown = getattr(self.tokenizer.model, "unk_token", None)
            ids = [i for i, token in zip(encoded.ids, encoded.tokens) if token != unknown and i < len(self.table)]
            return np.array(ids, np.int64)
        for form in forms_of(word):
            wanted = np.uint64(hash_of(form))
            place = int(self.hashes.searchsorted(wanted))
            if place < len(self.hashes) and self.hashes[place] == wanted:
                return self.rows[place : place + 1].astype(np.int64)
        return NONE

    # ---- On disk -----------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save  # which a machine that only predicts need not have

        arrays = {"hashes": self.hashes, "rows": self.rows, "table": self.table, "scales": self.scales}
        (folder / VECTORS).write_bytes(save({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
        if self.tokenizer is not None:
            (folder / TOKENIZER).write_text(self.tokenizer.to_str(), encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, folder: Path) -> WordVectors:
        arrays, tokenizer = _mapped(folder / VECTORS), None
        if (folder / TOKENIZER).is_file():
            from tokenizers import Tokenizer

            tokenizer = Tokenizer.from_str((folder / TOKENIZER).read_text(encoding="utf-8"))
        missing = {"hashes", "rows", "table", "scales"} - arrays.keys()
        _check(not missing, f"{folder / VECTORS} must have {', '.join(sorted(missing))}")
        return cls(arrays["hashes"], arrays["rows"], arrays["table"], arrays["scales"], tokenizer)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_known": {}}


def _mapped(path: Path) -> dict[str, np.ndarray]:
    """Map the arrays of a safetensors file into memory, of which only the rows that are looked up are read."""
    types = {"U64": np.uint64, "I32": np.int32, "I8": np.int8, "F32": np.float32}
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        _check(size <= MAX_HEADER, f"{path} must have a header of at most {MAX_HEADER:,} bytes, got {size:,}")
        header = json.loads(file.read(size))
    arrays = {}
    for name, about in header.items():
        (begin, end), shape, kind = about["data_offsets"], tuple(about["shape"]), np.dtype(types[about["dtype"]])
        _check(end - begin == prod(shape) * kind.itemsize and begin >= 0, f"{path} has a {name} of another size")
        is_empty = begin == end
        place = np.zeros(shape, kind) if is_empty else np.memmap(path, kind, "r", 8 + size + begin, shape)
        arrays[name] = np.asarray(place)
    return arrays


def hash_of(word: str) -> int:
    """Hash a word to 64 bits, the same on every machine: among a million words no two are likely to share one."""
    return int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def forms_of(word: str) -> list[str]:
    """The forms under which a word is looked for, the first that is found counts.

    >>> forms_of("LONDON"), forms_of("London"), forms_of("1996")
    (['LONDON', 'london', 'London'], ['London', 'london'], ['1996', '0000'])
    """
    lower = word.lower()
    digits = "".join("0" if character.isdigit() else character for character in lower)
    return list(dict.fromkeys((word, lower, word.capitalize(), digits)))


def quantised(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Round vectors (R, D) to 8-bit numbers and a scale for each row; all together their entries have mean square 1."""
    vectors = np.asarray(vectors, np.float32)
    overall = np.sqrt(np.mean(np.square(vectors, dtype=np.float64))) if vectors.size else 0.0
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    table = np.rint(vectors * (127 / np.maximum(largest, np.float32(1e-30)))[:, None]).astype(np.int8)
    return table, (largest / 127 / (overall or 1.0)).astype(np.float32)


def _form(array: np.ndarray) -> str:
    return f"{array.shape} {array.dtype}"


def _check(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(f"word vectors: {message}")
