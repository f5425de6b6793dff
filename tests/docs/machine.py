"""What a page takes for granted of the machine: a clone with its environment, a service that runs, a cluster."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.docs.in_small import write_program
from tests.docs.pages import ROOT

SECONDS_TO_END = 60


def make_clone(folder: Path, presets: Path | None) -> None:
    """A clone after its first `make`: the environment is there, and its command, with a folder for small presets, has
    little to do."""
    for name in ("Makefile", "README.md", "LICENSE", "pyproject.toml", "constraints.txt", "constraints-oldest.txt"):
        shutil.copy(ROOT / name, folder)
    (folder / "src" / "spansieve").mkdir(parents=True)  # as much of it as pip looks at
    shutil.copy(ROOT / "src" / "spansieve" / "__init__.py", folder / "src" / "spansieve")
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    venv.create(folder / ".venv", symlinks=True)
    write_program(folder / ".venv" / "bin" / "spansieve", presets)
    (folder / ".venv" / "ready").touch()


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """Its address. A process of its own, which is ended by Ctrl-C and must then go without a word."""
    command = [sys.executable, "-m", "spansieve", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            lines = []
            found = None
            while not found and (line := process.stderr.readline()):  # it comes when the model is ready
                lines.append(line)
                found = re.search(r"serving \S+ at (http://\S+)", line)
            assert found, lines
            for path in ("/", "/readyz"):
                assert httpx.get(found[1] + path).status_code == 200
            yield found[1]
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS_TO_END) == 0
            log = process.stderr.read().splitlines()
            assert log[-1].endswith("spansieve.serving.server ended"), log
            assert not [line for line in log if " INFO spansieve." not in line], log
        finally:
            process.kill()


@contextmanager
def ray_cluster() -> Iterator[str]:
    """The address of a cluster of this machine, which takes itself to have many cores."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 16, "include_dashboard": False, "object_store_memory": 100 << 20},
    )
    try:
        yield cluster.address
    finally:
        cluster.shutdown()
