"""Files of pretrained word vectors, each known by its content.

GloVe          a word and its numbers on each line, no header; plain or gzip
fastText       the same after a line with the counts of words and dimensions, as word2vec's text files have it
word2vec       binary: that header, then words and float32 numbers
spaCy          a pipeline's folder or package with vectors in its vocabulary
model2vec      a folder with a matrix of subword vectors and their tokenizer
"""

from __future__ import annotations

import gzip
import io
import warnings
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import numpy as np

from spansieve.nn.word_vectors import MAX_DIMENSIONS, WordVectors

WANTED = (
    "vectors must be a GloVe, fastText or word2vec file, a spaCy pipeline with vectors, or a model2vec folder (with "
    "model.safetensors and tokenizer.json)"
)
MAX_WORD = 10_000  # bytes
MAX_LINE = MAX_WORD + 64 * MAX_DIMENSIONS
BLOCK = 10_000  # lines that are parsed at once


def read_vectors(path: str | Path, max_vectors: int | None = None) -> WordVectors:
    """Read word vectors, the first `max_vectors` of them: files have the most frequent words first. Raises ValueError
    with the line where a file is no such, or damaged."""
    place = Path(path)
    try:
        if place.is_dir():
            return _of_folder(place, max_vectors)
        if place.is_file():
            with place.open("rb") as file:
                is_gzip = file.peek(2)[:2] == b"\x1f\x8b"
                with gzip.open(file) if is_gzip else file as opened:
                    return _of_file(io.BufferedReader(opened, 1 << 20), place, max_vectors)
        if str(path).isidentifier() and (spec := find_spec(str(path))) and spec.submodule_search_locations:
            found = next(Path(spec.submodule_search_locations[0]).glob("*/vocab/vectors"), None)
            if found is not None:
                return _of_spacy(found.parent, max_vectors)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{place} is damaged or cut short: {error}") from error
    raise ValueError(f"{WANTED}; there is no {path}")


# ---- Files -----------------------------------------------------------------------------------------------------------


def _of_file(file: IO[bytes], path: Path, most: int | None) -> WordVectors:
    first = file.readline(MAX_LINE)
    fields = first.split()
    if not fields:
        raise ValueError(f"{path} line 1: {WANTED}; it is empty")
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        count, size = map(int, fields)
        _check_size(size, path)
        start = file.peek(MAX_LINE)[:MAX_LINE].split(b"\n", 1)[0]  # type: ignore[attr-defined]
        if len(start.split()) == size + 1 and _numbers(start, size) is not None:
            words, vectors = _text(file, path, size, count, most, 2)
        else:
            words, vectors = _binary(file, path, size, count, most)
        wanted = count if most is None else min(count, most)
        if len(words) != wanted:
            raise ValueError(f"{path} is cut short: its first line says {count:,} words, got {len(words):,}")
    else:
        size = len(fields) - 1
        if size < 1 or _numbers(first, size) is None:
            shown = first[:40].decode("utf-8", "replace").strip()
            raise ValueError(f"{path} line 1: {WANTED}; it begins with {shown!r}")
        _check_size(size, path)
        file.seek(0)
        words, vectors = _text(file, path, size, None, most, 1)
    return WordVectors.of_words(words, vectors)


def _check_size(size: int, path: Path) -> None:
    if not 1 <= size <= MAX_DIMENSIONS:
        raise ValueError(f"{path} line 1: vectors must have 1 to {MAX_DIMENSIONS:,} dimensions, got {size:,}")


def _text(
    file: IO[bytes], path: Path, size: int, count: int | None, most: int | None, number: int
) -> tuple[list[str], np.ndarray]:
    """Read lines of a word and its numbers, the first of which is line `number` of the file."""
    words: list[str] = []
    blocks = [np.zeros((0, size), np.float32)]
    limit = min((n for n in (count, most) if n is not None), default=None)
    while limit is None or len(words) < limit:
        lines: list[bytes] = []
        while len(lines) < (BLOCK if limit is None else min(BLOCK, limit - len(words))):
            line = file.readline(MAX_LINE)
            if not line:
                break
            lines.append(line.rstrip(b"\r\n "))
        if not lines:
            break
        numbers = []
        for line in lines:
            word, _, values = line.partition(b" ")
            if line.count(b" ") != size:  # a word may have spaces in it, but no numbers after them
                parts = line.rsplit(None, size)
                word, values = parts[0] if parts else b"", b" ".join(parts[1:])
                if len(parts) != size + 1 or (b" " in word and _numbers(word, word.count(b" ")) is not None):
                    where = f"{path} line {number + len(words)}"
                    raise ValueError(f"{where}: must be a word and {size:,} numbers, got {len(line.split())} fields")
            words.append(word.decode("utf-8", "replace"))
            numbers.append(values)
        block = _floats(b" ".join(numbers), len(lines) * size)
        if block is None or not np.isfinite(block).all():
            parsed = (_floats(text, size) for text in numbers)
            bad = next(i for i, values in enumerate(parsed) if values is None or not np.isfinite(values).all())
            where = f"{path} line {number + len(words) - len(lines) + bad}"
            shown = numbers[bad][:60].decode("utf-8", "replace")
            raise ValueError(f"{where}: must be a word and {size:,} finite numbers, got {shown!r}")
        blocks.append(block.reshape(-1, size))
    return words, np.concatenate(blocks)


def _numbers(line: bytes, size: int) -> np.ndarray | None:
    """The numbers at the end of a line, or None where they are no numbers."""
    return _floats(b" ".join(line.split()[-size:]), size)


def _floats(text: bytes, count: int) -> np.ndarray | None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # of text that is no number, before NumPy 2.3
        try:
            values = np.fromstring(text, np.float32, sep=" ")
        except (ValueError, DeprecationWarning):
            return None
    return values if len(values) == count else None


def _binary(file: IO[bytes], path: Path, size: int, count: int, most: int | None) -> tuple[list[str], np.ndarray]:
    words: list[str] = []
    rows: list[bytes] = []
    for number in range(1, (count if most is None else min(count, most)) + 1):
        word = bytearray()
        while (character := file.read(1)) not in (b" ", b""):
            word += character
            if len(word) > MAX_WORD:
                raise ValueError(f"{path} word {number:,}: {WANTED}; it is longer than {MAX_WORD:,} bytes")
        row = file.read(4 * size)
        if len(row) < 4 * size:
            raise ValueError(f"{path} is cut short at word {number:,} of the {count:,} that its first line says")
        words.append(bytes(word).lstrip(b"\n").decode("utf-8", "replace"))
        rows.append(row)
    vectors = np.frombuffer(b"".join(rows), "<f4").reshape(-1, size)
    is_bad = ~np.isfinite(vectors).all(axis=1)
    if is_bad.any():
        raise ValueError(f"{path} word {int(is_bad.argmax()) + 1:,}: must have finite numbers: {WANTED}")
    return words, vectors


# ---- Folders ---------------------------------------------------------------------------------------------------------


def _of_folder(folder: Path, most: int | None) -> WordVectors:
    for vocabulary in (folder / "vocab", folder):
        if (vocabulary / "vectors").is_file():
            return _of_spacy(vocabulary, most)
    found = next(folder.glob("*/vocab/vectors"), None)  # of a package, in the folder of its version
    if found is not None:
        return _of_spacy(found.parent, most)
    if (folder / "model.safetensors").is_file() and (folder / "tokenizer.json").is_file():
        return _of_model2vec(folder)
    names = ", ".join(sorted(path.name for path in folder.iterdir())[:5]) or "nothing"
    raise ValueError(f"{WANTED}; {folder} has {names}")


def _of_spacy(vocabulary: Path, most: int | None) -> WordVectors:
    try:
        from spacy.vocab import Vocab
    except ImportError as error:
        raise ValueError(f"to read spaCy's vectors, spaCy must be installed: pip install spacy ({error})") from error
    try:
        vocab = Vocab().from_disk(vocabulary)
    except Exception as error:  # spaCy's own errors have no common kind
        raise ValueError(f"{vocabulary} is no vocabulary that spaCy can read: {error}") from error
    vectors = vocab.vectors
    if not vectors.size or getattr(vectors, "mode", "default") not in ("default", "VectorsMode.default"):
        raise ValueError(f"{vocabulary} must have a table of word vectors, got none: such as that of en_core_web_md")
    limit = len(vectors.data) if most is None else most
    pairs = [(key, row) for key, row in vectors.key2row.items() if row < limit and key in vocab.strings]
    words = [vocab.strings[key] for key, _ in pairs]
    return WordVectors.of_words(words, np.asarray(vectors.data[:limit]), np.array([row for _, row in pairs], np.int64))


def _of_model2vec(folder: Path) -> WordVectors:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    try:
        arrays = load_file(folder / "model.safetensors")
        tokenizer = Tokenizer.from_str((folder / "tokenizer.json").read_text(encoding="utf-8"))
    except (SafetensorError, OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{folder} is no model2vec folder: {error}") from error
    except Exception as error:  # tokenizers raises nothing more precise
        raise ValueError(f"{folder / 'tokenizer.json'} is no tokenizer: {error}") from error
    table = arrays.get("embeddings", arrays.get("embedding.weight"))
    if table is None or table.ndim != 2 or len(table) < tokenizer.get_vocab_size():
        shown = {name: array.shape for name, array in arrays.items()}
        count = tokenizer.get_vocab_size()
        raise ValueError(f"{folder} must have embeddings of the {count:,} subwords of its tokenizer, got {shown}")
    if not np.isfinite(table).all():
        raise ValueError(f"{folder} must have embeddings of finite numbers")
    none = np.zeros(0, np.uint64)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    vectors = WordVectors.of_words([], table)
    return WordVectors(none, none.astype(np.int32), vectors.table, vectors.scales, tokenizer)
