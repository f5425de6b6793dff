"""A reader who does what a page says, block by block."""

from __future__ import annotations

import doctest
import importlib
import json
import re
import shlex
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
import torch
import yaml

import spansieve
from benchmarks.cli import main as benchmarks
from tests.cli.terminal import Terminal
from tests.docs.in_small import LESS, NEEDED, with_options
from tests.docs.machine import ray_cluster, served
from tests.docs.pages import Block
from tests.docs.shown_output import has_form, is_answer, is_printed
from tests.integrations.test_hub import connected
from tests.prediction.test_preannotation import by_label_studio
from tests.serving.container import Container
from tests.serving.running import running


class Reader:
    """Works in the page's folder. Services and clusters that it started run until `things` are closed.

    Where all is small, what is shown is compared by its form alone: its models are not those of the page.
    """

    def __init__(
        self,
        terminal: Terminal,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        things: ExitStack,
        is_small: bool = True,
    ) -> None:
        self.terminal, self.folder, self.monkeypatch, self.things = terminal, folder, monkeypatch, things
        self.is_small = is_small
        self.benchmarks = Terminal(monkeypatch, terminal.capsys, benchmarks)
        self.options = NEEDED | LESS if is_small else NEEDED
        self.names: dict[str, Any] = {"__name__": "__page__"}
        self.address: str | None = None  # of the service that the page started
        self.answer: Any = None  # of the service, to the last request
        self.printed = ""  # by the last block of code

    def does(self, block: Block) -> None:
        if block.title:
            self.writes(block)
            if block.language == "yaml":
                self.probes(yaml.safe_load(block.code))
        elif block.language == "python":
            (self.checks if ">>> " in block.code else self.executes)(block)
        elif block.language == "bash":
            commands = [self.here(with_options(command, self.options)) for command in block.commands]
            self.printed = "".join([self.types(command, block) for command in commands])
        elif block.language == "text":
            is_shown = has_form if self.is_small else is_printed
            assert is_shown(block.code, self.printed), (str(block), self.printed)
        elif block.language == "json":
            self.compares(json.loads(block.code), block)
        elif block.language == "xml":
            ElementTree.fromstring(block.code)

    def here(self, text: str) -> str:
        """With the processor for a GPU, where there is none, and with the port that the service has taken."""
        if not torch.cuda.is_available():
            text = text.replace("--device cuda", "--device cpu").replace('"cuda"', '"cpu"')
        address = self.address or "http://localhost:8000"
        return text.replace("http://localhost:8000", address).replace("localhost:8000", address)

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
        self.terminal.capsys.readouterr()
        exec(compile("\n" * block.line + self.here(block.code), block.page, "exec"), self.names)
        self.printed = self.terminal.capsys.readouterr().out

    def checks(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(block.code, self.names, str(block), block.page, block.line)
        report: list[str] = []
        found = doctest.DocTestRunner().run(test, out=report.append, clear_globs=False)
        assert found.attempted
        assert not found.failed, "".join(report)
        self.names = test.globs

    # ---- Commands ----------------------------------------------------------------------------------------------------

    def types(self, command: str, block: Block) -> str:
        """What a command prints. Ours run in this process, which has all that they import; all others, in a shell."""
        first, *words = shlex.split(command, comments=True)
        if first == "spansieve" and words[0] == "serve":
            self.address = self.things.enter_context(served(*words, "--port", "0"))
            return ""
        if first == "docker":
            return self.contains(words)
        if first == "node" and shutil.which("node") is None:
            return self.printed  # the client runs in a browser, too: tests/serving/browser/test_client.py
        if first == "spansieve":
            if words[0] == "push":
                connected(self.folder / "hub", self.monkeypatch)
            if "auto" in words:
                self.monkeypatch.setenv("RAY_ADDRESS", self.things.enter_context(ray_cluster()))  # what `auto` finds
            answer = self.terminal(*words)
            expected = re.search(r"# exit code (\d+)", command)
            assert answer.code == (int(expected[1]) if expected else 0), (str(block), command, answer)
            if words[0] == "suggest":
                self.annotates(words[words.index("--output") + 1])
            return answer.out
        if [first, *words[:2]] == ["python", "-m", "benchmarks"]:
            answer = self.benchmarks(*words[2:])
            assert answer.code == 0, (str(block), command, answer)
            return answer.out
        printed = self.runs(command, block)
        if first == "curl":
            self.answer = json.loads(printed)
        return printed

    def contains(self, words: list[str]) -> str:
        """Build and run the container of the page's folder, as far as that goes without an engine."""
        if words[0] == "build":
            self.container = Container(self.folder)
            self.container.build()
        else:
            assert words == ["run", "--publish", "8000:8000", "entities"]
            self.address, _ = self.things.enter_context(self.container.running())
            assert self.container.is_healthy(self.address)
        return ""

    def probes(self, deployment: Any) -> None:
        """Ask what Kubernetes would, of the service that runs, and look at the command that it would start."""
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        (port,) = container["ports"]
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[kind]["httpGet"]["port"] == port["containerPort"] == 8000
            assert httpx.get(f"{self.address}{container[kind]['httpGet']['path']}").status_code == 200
        assert container["args"][:5] == json.loads(self.container.of("CMD")[0])
        assert self.terminal(*container["args"][1:], "--help").code == 0

    def runs(self, command: str, block: Block) -> str:
        command = re.sub(r"^make test\b", "make --dry-run test", command)  # which is where we are
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0, (str(block), command, done.stdout, done.stderr)
        assert "does not provide the extra" not in done.stderr, done.stderr  # to pip that is no error
        return done.stdout

    def annotates(self, tasks: str) -> None:
        """Accept all that was suggested, and export it."""
        suggested = json.loads((self.folder / tasks).read_text(encoding="utf-8"))
        export = [by_label_studio(task, number) for number, task in enumerate(suggested, start=1)]
        (self.folder / "export.json").write_text(json.dumps(export), encoding="utf-8")

    def compares(self, shown: Any, block: Block) -> None:
        """Compare an answer with that of the service. What is no answer is a request, which the model must take."""
        if "texts" in shown:
            with running(spansieve.load("runs/demo/model")) as service:
                response = service.client.post("/predict", json=shown)
            assert response.status_code == 200, response.text
        elif self.is_small:
            assert shape(shown) == shape(self.answer), str(block)
        else:
            assert is_answer(shown, self.answer), (str(block), self.answer)


def shape(value: Any) -> Any:
    """The names in a JSON value, of a list those of its first entry."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else type(value) is list
