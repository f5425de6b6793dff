"""The commands and the code of the pages on learning from less and on chunking run as they stand there, and the service
takes the constraints of their page."""

from __future__ import annotations

import doctest
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from spansieve import config
from spansieve.data.formats import read_examples, write_examples
from tests.prediction.test_suggesting import by_label_studio
from tests.serving.running import running
from tests.serving.tiny import trained
from tests.training import runs

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["learning-from-less.md", "chunking.md"]


def commands(page: str) -> list[str]:
    blocks = re.findall(r"```bash\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@pytest.fixture
def typed(terminal, tmp_path, monkeypatch):
    """Types a line in a folder of its own, where a built-in encoder is soon written to disk."""
    monkeypatch.chdir(tmp_path)
    small = tmp_path / "small.toml"
    shipped = config.presets()["builtin"].read_text()
    small.write_text(shipped.replace("[model.builtin]", "[model.builtin]\nrows = 64"))
    monkeypatch.setattr(config, "presets", lambda: {"builtin": small})

    def typed(line: str) -> None:
        if not line.startswith("spansieve "):
            subprocess.run(line, shell=True, check=True)
            return
        answer = terminal(*shlex.split(line)[1:])
        assert answer.code == 0, (line, answer)

    return typed


@pytest.mark.parametrize("page", PAGES)
def test_code(page):
    found = doctest.testfile(str(DOCS / page), module_relative=False)
    assert found.attempted > 4
    assert found.failed == 0


def test_the_loop(typed, tmp_path):
    write_examples(runs.TRAIN[::2], tmp_path / "train.jsonl")
    write_examples(runs.TRAIN, tmp_path / "dev.jsonl")
    (tmp_path / "unlabelled.txt").write_text("\n".join(" ".join(example.tokens) for example in runs.DEV) + "\n")
    for line in commands("learning-from-less.md"):
        typed(line)
        if "suggest" in line:  # an annotator says yes to all of it
            tasks = json.loads((tmp_path / "tasks.json").read_text())
            export = [by_label_studio(task, number) for number, task in enumerate(tasks, start=1)]
            (tmp_path / "export.json").write_text(json.dumps(export))
    assert len(tasks) == len(runs.DEV)
    assert len(read_examples(tmp_path / "train-2.jsonl")) == len(runs.TRAIN[::2]) + len(runs.DEV)
    assert (tmp_path / "runs" / "second" / "model" / "config.json").exists()


def test_chunking(typed, corpus):
    for line in commands("chunking.md"):
        typed(line)
    assert (corpus / "runs" / "chunks" / "model" / "config.json").exists()


def test_constraints_over_http():
    (body,) = re.findall(r"```json\n(.*?)```", (DOCS / "constraints.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    with running(trained()) as served:
        answer = served.client.post("/predict", json=json.loads(body))
    assert answer.status_code == 200, answer.text
    entities = answer.json()["results"][0]["entities"]
    assert [(e["text"], e["label"]) for e in entities if e["probability"] == 1.0] == [("York", "PER")]
    assert not any((e["start"], e["end"]) == (0, 12) for e in entities)


@pytest.mark.parametrize("page", PAGES)
def test_files_and_commands_that_are_named_exist(page, terminal):
    text = (DOCS / page).read_text(encoding="utf-8")
    for name in re.findall(r"`((?:results|examples|docs)/[\w./-]+)`", text):
        assert (DOCS.parent / name).exists(), name
    named = re.findall(r"^    spansieve benchmark (\S+)", text, flags=re.MULTILINE)
    assert named
    for name in named:
        assert terminal("benchmark", name, "--help").code == 0
