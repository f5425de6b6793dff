from __future__ import annotations

import json
import shutil

import pytest

from spansieve import config
from spansieve.data.formats import write_examples
from tests.cli.conftest import terminal as terminal
from tests.single_thread import one_thread as one_thread
from tests.training import runs


@pytest.fixture(scope="package")
def furnished(tmp_path_factory, one_thread):
    """What the pages take for granted: a model, data and texts, under the names that they use."""
    folder = tmp_path_factory.mktemp("furnished")
    for name, examples in (("train", runs.TRAIN), ("dev", runs.DEV), ("test", runs.DEV), ("data", runs.DEV)):
        write_examples(examples, folder / f"{name}.conll")
    write_examples(runs.TRAIN, folder / "train.jsonl")
    write_examples(runs.DEV, folder / "dev.jsonl")
    texts = [" ".join(example.tokens) for example in runs.DEV]
    for name in ("letters.txt", "unlabelled.txt", "book.txt"):
        (folder / name).write_text("\n".join(texts) + "\n", encoding="utf-8")
    (folder / "documents").mkdir()
    rows = [json.dumps({"text": text}) for text in texts]
    (folder / "documents" / "rows.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    result = runs.run(tmp_path_factory.mktemp("trained") / "run", training__epochs=6, **runs.STILL)
    for run in ("demo", "mine"):
        shutil.copytree(result.model, folder / "runs" / run / "model")
    return folder


@pytest.fixture
def small_presets(tmp_path, monkeypatch):
    """The shipped presets, with a built-in encoder that is soon written to disk."""
    small = {}
    for name, path in config.presets().items():
        text = path.read_text(encoding="utf-8")
        sizes = "[model.builtin]\nrows = 64\n"
        text = text.replace("[model.builtin]\n", sizes) if "[model.builtin]" in text else f"{text}\n{sizes}"
        small[name] = tmp_path / "presets" / path.name
        small[name].parent.mkdir(exist_ok=True)
        small[name].write_text(text, encoding="utf-8")
    monkeypatch.setattr(config, "presets", lambda: small)
