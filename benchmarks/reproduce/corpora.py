"""The corpus of a table: three files, a folder in which they are recognised, or the generated sample."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from spansieve.data.example import DataError, Example, ReaderWarnings
from spansieve.data.formats import read_examples
from spansieve.data.overlap_resolution import flat_examples
from spansieve.training.run_folder import fingerprint

SAMPLE = "sample"
SPLITS = ("train", "dev", "test")
WORDS = {
    "train": {"train", "training"},
    "dev": {"dev", "development", "valid", "validation", "val", "testa"},
    "test": {"test", "testing", "testb"},
}


@dataclass(frozen=True, eq=False)
class Corpus:
    name: str
    train: Sequence[Example]
    dev: Sequence[Example]
    test: Sequence[Example]
    notes: tuple[str, ...] = ()  # what the readers could not represent, and what was left out
    other_tests: Mapping[str, Sequence[Example]] = field(default_factory=dict)  # by name, for the same models

    @cached_property
    def prints(self) -> dict[str, str]:
        """A fingerprint of the data of each split."""
        splits = {split: getattr(self, split) for split in SPLITS} | dict(self.other_tests)
        return {name: fingerprint(examples) for name, examples in splits.items()}

    def outermost(self) -> Corpus:
        """Without the segments that lie within others: no model but a nested one could find them."""
        pairs = [flat_examples(split) for split in (self.train, self.dev, self.test)]
        dropped = "/".join(f"{lost:,}" for _, lost in pairs)
        train, dev, test = (examples for examples, _ in pairs)
        note = f"only outermost segments, {dropped} nested ones in train/dev/test left out"
        return replace(self, train=train, dev=dev, test=test, notes=(*self.notes, note))

    def first(self, train: int, dev: int, test: int) -> Corpus:
        """The first sentences of each split."""
        note = f"only the first {train:,}/{dev:,}/{test:,} sentences of train/dev/test"
        return replace(
            self, train=self.train[:train], dev=self.dev[:dev], test=self.test[:test], notes=(*self.notes, note)
        )

    def describe(self) -> str:
        sizes = "/".join(f"{len(split):,}" for split in (self.train, self.dev, self.test))
        entities = "/".join(
            f"{sum(len(example.segments) for example in split):,}" for split in (self.train, self.dev, self.test)
        )
        labels = {segment.label for example in self.train for segment in example.segments}
        about = f"{self.name}: {sizes} sentences with {entities} entities in train/dev/test, {len(labels)} labels"
        return "; ".join((about, *self.notes))


def sample() -> Corpus:
    """The generated one, which needs no download."""
    from spansieve.data.sample import sample_corpus

    return Corpus(SAMPLE, *sample_corpus())


def read_corpus(files: Mapping[str, Path], name: str) -> Corpus:
    """From the file (or folder) of each split."""
    notes, read = [], []
    for split in SPLITS:
        found = ReaderWarnings()
        examples = read_examples(files[split], warnings=found)
        if not examples:
            raise DataError(f"{files[split]} must hold at least one sentence, got none")
        read.append(examples)
        if found:  # without folders, which are this machine's
            notes.append(f"{split}: {found}".replace(f"{files[split].parent}/", ""))
    train, dev, test = read
    return Corpus(name, train, dev, test, tuple(notes))


def files_in(folder: Path) -> dict[str, Path]:
    """The files (or folders) of the three splits, recognised by a word of their names: `eng.testa`, `dev.jsonl.gz`."""
    if not folder.is_dir():
        raise DataError(f"{folder} must be a folder with the files of train, dev and test")
    found = {split: [path for path in sorted(folder.iterdir()) if _is_of(split, path.name)] for split in SPLITS}
    for split, paths in found.items():
        if len(paths) != 1:
            names = ", ".join(path.name for path in paths) or "none"
            raise DataError(f"{folder} must hold one file whose name has {split} in it, got {names}; name all three")
    return {split: paths[0] for split, paths in found.items()}


def _is_of(split: str, name: str) -> bool:
    return not name.startswith(".") and bool(WORDS[split] & set(re.findall("[a-z]+", name.lower())))
