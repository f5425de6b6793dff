"""Somebody who does what a page says, block by block."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import shlex
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

import spansieve
from benchmarks.cli import main as benchmarks
from tests.cli.terminal import Terminal
from tests.docs.in_small import LESS, NEEDED, with_options
from tests.docs.machine import ray_cluster, served
from tests.docs.pages import Block
from tests.prediction.test_preannotation import by_label_studio
from tests.serving.running import running


class Reader:
    """Sits in the page's folder. Services and clusters that it started run until `things` are closed."""

    def __init__(self, terminal: Terminal, folder: Path, monkeypatch: pytest.MonkeyPatch, things: ExitStack) -> None:
        self.terminal, self.folder, self.monkeypatch, self.things = terminal, folder, monkeypatch, things
        self.benchmarks = Terminal(monkeypatch, terminal.capsys, benchmarks)
        self.options = NEEDED | LESS
        self.names: dict[str, Any] = {"__name__": "__page__"}
        self.address: str | None = None  # of the service that the page started
        self.answer: Any = None  # of the service, to the last request

    def does(self, block: Block) -> None:
        if block.title:
            self.writes(block)
        elif block.language == "python":
            (self.checks if ">>> " in block.code else self.executes)(block)
        elif block.language == "bash":
            for command in block.commands:
                self.types(self.here(with_options(command, self.options)), block)
        elif block.language == "json":
            self.compares(json.loads(block.code), block)
        elif block.language == "xml":
            ElementTree.fromstring(block.code)

    def here(self, text: str) -> str:
        """With the processor for a GPU, where there is none, and with the port that the service has taken."""
        if not torch.cuda.is_available():
            text = text.replace("--device cuda", "--device cpu").replace('"cuda"', '"cpu"')
        return text.replace("localhost:8000", self.address or "localhost:8000")

    # ---- Files and Python --------------------------------------------------------------------------------------------

    def writes(self, block: Block) -> None:
        assert block.title
        path = self.folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code, encoding="utf-8")
        if block.title.startswith("src/"):  # as if it stood in the package
            package = importlib.import_module(".".join(Path(block.title).parent.parts[1:]))
            self.monkeypatch.setattr(package, "__path__", [*package.__path__, str(path.parent)])

    def executes(self, block: Block) -> None:
        exec(compile("\n" * block.line + self.here(block.code), block.page, "exec"), self.names)

    def checks(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(block.code, self.names, str(block), block.page, block.line)
        told: list[str] = []
        found = doctest.DocTestRunner().run(test, out=told.append, clear_globs=False)
        assert found.attempted
        assert not found.failed, "".join(told)
        self.names = test.globs

    # ---- Commands ----------------------------------------------------------------------------------------------------

    def types(self, command: str, block: Block) -> None:
        """Our own run in this process, which has all that they import; whatever else, in a shell."""
        first, *words = shlex.split(command, comments=True)
        if first == "spansieve" and words[0] == "serve":
            self.address = self.things.enter_context(served(*words, "--port", "0"))
        elif first == "spansieve":
            if "auto" in words:
                self.monkeypatch.setenv("RAY_ADDRESS", self.things.enter_context(ray_cluster()))  # what `auto` finds
            answer = self.terminal(*words)
            assert answer.code == 0, (str(block), command, answer)
            if words[0] == "suggest":
                self.annotates(words[words.index("--output") + 1])
        elif [first, *words[:2]] == ["python", "-m", "benchmarks"]:
            answer = self.benchmarks(*words[2:])
            assert answer.code == 0, (str(block), command, answer)
        else:
            out = self.runs(command, block)
            if first == "curl":
                self.answer = json.loads(out)

    def runs(self, command: str, block: Block) -> str:
        command = re.sub(r"^make test\b", "make --dry-run test", command)  # which is where we are
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0, (str(block), command, done.stdout, done.stderr)
        assert "does not provide the extra" not in done.stderr, done.stderr  # to pip that is no error
        return done.stdout

    def annotates(self, tasks: str) -> None:
        """Says yes to all that was suggested, and exports it."""
        suggested = json.loads((self.folder / tasks).read_text(encoding="utf-8"))
        export = [by_label_studio(task, number) for number, task in enumerate(suggested, start=1)]
        (self.folder / "export.json").write_text(json.dumps(export), encoding="utf-8")

    def compares(self, shown: Any, block: Block) -> None:
        """What is no answer is a question, which the demo's model must take."""
        if "texts" in shown:
            with running(spansieve.load("runs/demo/model")) as service:
                told = service.client.post("/predict", json=shown)
            assert told.status_code == 200, told.text
        else:
            assert shape(shown) == shape(self.answer), str(block)


def shape(value: Any) -> Any:
    """The names in a JSON value, of a list those of its first entry."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else type(value) is list
