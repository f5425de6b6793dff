from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from benchmarks.reproduce import all_corpora
from spansieve.data.formats import FORMATS, write_examples
from spansieve.models.heads import HEADS
from tests.cli.conftest import terminal as terminal
from tests.docs.in_small import smaller
from tests.docs.machine import make_clone
from tests.docs.pages import ROOT
from tests.docs.reader import Reader
from tests.single_thread import one_thread as one_thread
from tests.training import runs
from tests.training.encoders import tiny_encoder

ENCODERS = ("bert-base-cased", "aubmindlab/bert-base-arabertv2", "minilm")
CORPORA = {"conll2003": ("eng.train", "eng.testa", "eng.testb"), "ace": ("train", "dev", "test")}


@pytest.fixture(scope="package")
def furnished(tmp_path_factory, one_thread):
    """What the pages take for granted: a model, data, texts and encoders, under the names that they use."""
    folder = tmp_path_factory.mktemp("furnished")
    for name, examples in (("train", runs.TRAIN), ("dev", runs.DEV), ("test", runs.DEV), ("data", runs.DEV)):
        write_examples(examples, folder / f"{name}.conll")
        write_examples(examples, folder / f"{name}.jsonl")
    for corpus, names in CORPORA.items():
        (folder / corpus).mkdir()
        for name, split in zip(names, ("train", "dev", "test")):
            shutil.copy(folder / f"{split}.conll", folder / corpus / name)
    for corpus in (*(entry.name for entry in all_corpora.CORPORA), "cleanconll2003"):
        shutil.copytree(folder / "ace", folder / "corpora" / corpus)
    texts = [" ".join(example.tokens) for example in runs.DEV]
    for name in ("letters.txt", "unlabelled.txt", "book.txt"):
        (folder / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    (folder / "letters").mkdir()
    shutil.copy(folder / "letters.txt", folder / "letters")
    (folder / "documents").mkdir()
    rows = [json.dumps({"text": text}) for text in texts]
    (folder / "documents" / "rows.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    words = sorted({token.lower() for example in runs.TRAIN for token in example.tokens})
    lines = [f"{word} {len(word)} {i}" for i, word in enumerate(words)]
    (folder / "glove.6B.100d.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for encoder in ENCODERS:
        tiny_encoder(folder / encoder)
    result = runs.run(tmp_path_factory.mktemp("trained") / "run", training__epochs=6, **runs.STILL)
    for run in ("demo", "mine"):
        shutil.copytree(result.model, folder / "runs" / run / "model")
    return folder


@pytest.fixture
def reader(terminal, furnished, tmp_path, monkeypatch):
    with _reader(terminal, furnished, tmp_path, monkeypatch, is_small=True) as made:
        yield made


@pytest.fixture
def reader_with_time(terminal, furnished, tmp_path, monkeypatch):
    """One who trains as the page says, so that the demo's model is the one that pages show."""
    with _reader(terminal, furnished, tmp_path, monkeypatch, is_small=False) as made:
        yield made


@contextmanager
def _reader(terminal, furnished, tmp_path, monkeypatch, is_small):
    import spansieve.integrations.spacy  # noqa: F401  # where the package is installed, its entry point does this

    folder, presets = tmp_path / "page", tmp_path / "presets" if is_small else None
    shutil.copytree(furnished, folder)
    make_clone(folder, presets)
    for module, name, value in smaller(presets):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))  # the clone has benchmarks/, which start processes of it
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("PIP_NO_INDEX", "PIP_DRY_RUN"):  # what is to be installed must be there
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("PIP_NO_BUILD_ISOLATION", "0")  # what builds a clone, too; 0 is pip's way to say no isolation
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.chdir(folder)
    known, heads = dict(FORMATS), dict(HEADS)
    monkeypatch.syspath_prepend(str(folder))  # a page may import a file that it shows
    with TemporaryDirectory(prefix="ray") as ray, ExitStack() as things:
        monkeypatch.setenv("RAY_TMPDIR", ray)  # others who look for a cluster do not find this one, nor it theirs
        yield Reader(terminal, folder, monkeypatch, things, is_small)
    FORMATS.clear()
    FORMATS.update(known)
    HEADS.clear()
    HEADS.update(heads)
