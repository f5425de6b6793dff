"""Hugging Face datasets: a folder that `save_to_disk` wrote, parquet files, or a `datasets.Dataset` in memory.

Needs the datasets package, which loads when the first is read or written. Tags may be class labels or strings; spans
may be objects with start, end and label, counted in tokens, end exclusive.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings
from spansieve.data.formats.conll import TaggedSentence, examples_of_tags, tags_of_example
from spansieve.data.formats.files import errors_at, files_of, list_in, package, package_errors
from spansieve.data.formats.jsonl import TOKEN_KEYS, document_name, entity_span

TAG_COLUMNS = ("ner_tags", "tags", "ner", "labels")
SPAN_COLUMNS = ("entities", "spans")


def read_dataset(
    source: Any,
    *,
    split: str | None = None,
    tokens: str | None = None,
    tags: str | None = None,
    spans: str | None = None,
    names: Iterable[str] | None = None,
    scheme: str = "auto",
    warnings: ReaderWarnings = IGNORED,
) -> list[Example]:
    """The examples of a dataset in memory, a folder or a parquet file.

    `split`: which of a dict of datasets, or of parquet files by the beginning of their names. `tokens`, `tags` and
    `spans`: names of columns, by default the usual ones. `names`: the tags by number, where a column has bare numbers.
    """
    location = str(source) if isinstance(source, (str, Path)) else "dataset"
    with package_errors(f"{location} must hold whole parquet files or datasets"):
        dataset = _loaded(source, split, location)
        columns = dataset.column_names
        rows = [(f"{location} row {number}", row) for number, row in enumerate(dataset, start=1)]
    token_column = _chosen(location, columns, tokens, TOKEN_KEYS, "tokens")
    for where, row in rows:
        list_in(row, token_column, where, str)
    span_column = spans or (None if tags else next((c for c in SPAN_COLUMNS if c in columns), None))
    if span_column is not None:
        _chosen(location, columns, span_column, (), "spans")
        return [_spans_example(where, row, token_column, span_column) for where, row in rows]
    tag_column = _chosen(location, columns, tags, TAG_COLUMNS, "tags")
    feature = dataset.features[tag_column]
    tag_names = list(names) if names is not None else getattr(getattr(feature, "feature", feature), "names", None)
    sentences = []
    for where, row in rows:
        words, own = row[token_column], _named(where, row[tag_column], tag_names)
        if len(words) != len(own):
            raise DataError(f"{where}: tags must be one per token, {len(words)}, got {len(own)}")
        sentences.append(TaggedSentence(where, document_name(row), words, [own]))
    return examples_of_tags(location, sentences, scheme, False, warnings)


def write_dataset(
    examples: Iterable[Example], path: str | Path, *, scheme: str = "BIO", warnings: ReaderWarnings = IGNORED
) -> None:
    """Write columns `tokens`, `ner_tags` (class labels) and `doc`: a parquet file by its suffix, else a folder."""
    datasets = package("datasets", "datasets")
    rows: dict[str, list[Any]] = {"tokens": [], "ner_tags": [], "doc": []}
    for number, example in enumerate(examples, start=1):
        rows["tokens"].append(list(example.tokens))
        rows["ner_tags"].append(tags_of_example(example, scheme, f"sentence {number}", warnings))
        rows["doc"].append(example.document)
    names = ["O", *sorted({tag for tags in rows["ner_tags"] for tag in tags} - {"O"})]
    features = datasets.Features(
        tokens=datasets.Sequence(datasets.Value("string")),
        ner_tags=datasets.Sequence(datasets.ClassLabel(names=names)),
        doc=datasets.Value("string"),
    )
    dataset = datasets.Dataset.from_dict(rows, features=features)
    if str(path).endswith(".parquet"):
        dataset.to_parquet(str(path))
    else:
        dataset.save_to_disk(str(path))


def _loaded(source: Any, split: str | None, location: str) -> Any:
    datasets = package("datasets", "datasets")
    if isinstance(source, (str, Path)):
        source = _from_disk(datasets, Path(source), split)
    if isinstance(source, dict):
        if split not in source:
            raise DataError(f"{location} has the splits {', '.join(source)}; split must be one of them, got {split!r}")
        return source[split]
    return source


def _from_disk(datasets: Any, path: Path, split: str | None) -> Any:
    if path.is_dir() and any((path / name).exists() for name in ("dataset_dict.json", "state.json")):
        return datasets.load_from_disk(str(path))
    files = [file for file in files_of(path, ".parquet") if path.is_file() or file.name.startswith(split or "")]
    if len(_splits(files)) != 1:
        splits = ", ".join(_splits(files_of(path, ".parquet")))
        raise DataError(f"{path} has the splits {splits}; split must be one of them, got {split!r}")
    parquet = package("pyarrow.parquet", "datasets")
    tables = [parquet.read_table(file) for file in files]
    return datasets.concatenate_datasets([datasets.Dataset(table) for table in tables])


def _splits(files: list[Path]) -> list[str]:
    return sorted({file.name.split("-")[0].removesuffix(".parquet") for file in files})


def _chosen(location: str, columns: list[str], wanted: str | None, usual: tuple[str, ...], what: str) -> str:
    chosen = next((column for column in ((wanted,) if wanted else usual) if column in columns), None)
    if chosen is None:
        looked_for = repr(wanted) if wanted else " or ".join(usual)
        raise DataError(f"{location} must have a column of {what}, {looked_for}; it has {', '.join(columns)}")
    return chosen


def _named(location: str, tags: list[Any], names: list[str] | None) -> list[str]:
    if all(isinstance(tag, str) for tag in tags):
        return tags
    if names is None:
        raise DataError(f"{location}: tags must be strings or class labels, got bare numbers; give their names")
    if not all(0 <= tag < len(names) for tag in tags):
        raise DataError(f"{location}: tags must lie between 0 and {len(names) - 1}, got {tags}")
    return [names[tag] for tag in tags]


def _spans_example(location: str, row: dict[str, Any], token_column: str, span_column: str) -> Example:
    spans = row[span_column] or []
    if isinstance(spans, dict):  # older versions store a list of objects as an object of lists
        spans = [dict(zip(spans, values)) for values in zip(*spans.values())]
    segments = {entity_span(location, span) for span in spans}
    with errors_at(location):
        return Example.of(row[token_column], sorted(segments), document=document_name(row))
