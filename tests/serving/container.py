"""The steps of the Dockerfile, done here as far as that goes without a container engine.

pip finds what is to be installed here or fails, as on the pages; users and folders of the image are not made; commands
run in a process that can import what the Dockerfile installs and nothing else, in which /model is the folder `model`
beside the Dockerfile.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SECONDS_TO_END = 60
# The program `python` of the image. What is not installed there cannot be imported.
PYTHON = """
import json, runpy, sys
sys.argv[0] = "python"
absent = set(json.loads({absent!r}))

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"the image has no {{name}}", name=name)

sys.meta_path.insert(0, Absent())
mode, what = sys.argv[1:3]
sys.argv[0:3] = [what]
if mode == "-c":
    exec(what)
else:
    runpy.run_module(what, run_name="__main__", alter_sys=True)
"""


class Instruction(NamedTuple):
    word: str  # RUN, COPY, …
    rest: str


def instructions(dockerfile: str) -> list[Instruction]:
    lines = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", dockerfile, flags=re.MULTILINE)).splitlines()
    return [Instruction(*line.split(maxsplit=1)) for line in lines if line.strip()]


class Container:
    """What a Dockerfile would make of its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps = instructions((folder / "Dockerfile").read_text(encoding="utf-8"))
        self.installed: set[str] = {"pip"}
        self.user = "root"

    def of(self, word: str) -> list[str]:
        return [step.rest for step in self.steps if step.word == word]

    def build(self) -> None:
        arguments = dict(one.split("=", 1) for one in self.of("ARG"))
        for word, rest in self.steps:
            if word == "COPY":
                *_, source, _target = shlex.split(rest)
                assert (self.folder / source).exists(), source
            elif word == "USER":
                self.user = rest
            elif word == "RUN":
                self._run(re.sub(r"\$(\w+)", lambda found: arguments[found[1]], rest))

    def _run(self, command: str) -> None:
        words = shlex.split(command)
        if words[:2] == ["pip", "install"]:
            names = [word for word in words[2:] if not word.startswith("--")]
            self.installed |= set(names) if "--no-deps" in words else with_dependencies(names)
            command_line = [sys.executable, "-m", *words[:2], "--dry-run", "--no-index", *words[2:]]
        elif words[0] == "spansieve":
            command_line = self.command(words)
        else:
            assert words[0] == "useradd", command
            return
        done = subprocess.run(command_line, capture_output=True, text=True, env=self.environment)
        assert done.returncode == 0, (command, done.stdout, done.stderr)

    @property
    def environment(self) -> dict[str, str]:
        """With what ENV sets, but for the cache of kernels: those of this machine are compiled already."""
        pairs = [pair.split("=", 1) for line in self.of("ENV") for pair in shlex.split(line)]
        return os.environ | {name: value for name, value in pairs if name != "NUMBA_CACHE_DIR"}

    def command(self, words: list[str]) -> list[str]:
        """A command of the image as one of this machine."""
        absent = sorted(set(metadata.packages_distributions()) - modules_of(self.installed) - {"spansieve"})
        program = PYTHON.format(absent=json.dumps(absent))
        own = ["-m", *words] if words[0] == "spansieve" else words[1:]
        assert words[0] in ("spansieve", "python"), words
        return [sys.executable, "-c", program, *(self._here(word) for word in own)]

    def _here(self, word: str) -> str:
        return str(self.folder / "model") if word == "/model" else word

    @contextmanager
    def running(self, *more: str) -> Iterator[tuple[str, list[str]]]:
        """Run CMD, at a free port: the address, and the lines of its log so far."""
        words = [*json.loads(self.of("CMD")[0]), *more, "--port", "0", "--threads", "1"]
        process = subprocess.Popen(self.command(words), stderr=subprocess.PIPE, text=True, env=self.environment)
        log: list[str] = []
        is_up = threading.Event()

        def read() -> None:
            assert process.stderr is not None
            for line in process.stderr:
                log.append(line.rstrip("\n"))
                if "serving " in line:
                    is_up.set()
            is_up.set()

        reader = threading.Thread(target=read)
        reader.start()
        try:
            assert is_up.wait(120)
            found = next(
                (one for line in log if (one := re.search(r"serving \S+ at http://0\.0\.0\.0:(\d+)", line))), None
            )
            assert found, log
            yield f"http://127.0.0.1:{found[1]}", log
            process.send_signal(signal.SIGTERM)
            assert process.wait(SECONDS_TO_END) == 0
        finally:
            process.kill()
            process.wait()
            reader.join()
            process.stderr.close()  # type: ignore[union-attr]

    def is_healthy(self, address: str) -> bool:
        """Whether the HEALTHCHECK succeeds, at the port that the service has taken."""
        words = json.loads(self.of("HEALTHCHECK")[0].partition("CMD ")[2])
        words = [word.replace("http://127.0.0.1:8000", address) for word in words]
        return subprocess.run(self.command(words), capture_output=True, env=self.environment).returncode == 0


def with_dependencies(names: list[str]) -> set[str]:
    """The distributions that pip would install, without extras."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", waiting.pop())[0]).lower()
        if name in found:
            continue
        try:
            needed = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another system
        found.add(name)
        waiting += [one for one in needed if "extra ==" not in one]
    return found


def modules_of(distributions: set[str]) -> set[str]:
    return {
        module
        for module, owners in metadata.packages_distributions().items()
        if {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} & distributions
    }
