"""What is built holds what it should and nothing else, and works where there is no source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from pathlib import Path

import pytest

import spansieve

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "spansieve"
TEXT = "Ada Lovelace met Charles Babbage in London."
CHECK = """
import sys
from pathlib import Path
from importlib.metadata import entry_points, version
import spansieve
from spansieve.config import preset, presets
from spansieve.data.sample import sample_corpus

assert spansieve.__file__.startswith(sys.prefix), spansieve.__file__
assert version("spansieve") == spansieve.__version__
assert {"demo", "builtin", "pretrained"} <= set(presets())
assert preset("demo").model.head == "fsemicrf"
home = Path(spansieve.__file__).parent
for name in ("page/index.html", "page/page.js", "page/page.css", "page/icon.svg", "api_page.html"):
    assert (home / "serving" / name).is_file(), name
assert (home / "evaluation" / "error_page.html").is_file()
assert len(sample_corpus().train) == 4000  # made of text files
(factory,) = entry_points(group="spacy_factories", name="spansieve")
assert factory.load().__name__ == "Component"
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    """The wheel, made from the sdist, and the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


class Environment:
    """An empty one, but for the wheel. What the wheel needs is borrowed from here; our source is not."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder, self.bin = folder, folder / "venv" / "bin"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
        python = self.bin / "python"
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
        subprocess.run(pip, check=True)
        # A line of a .pth file is a place to import from; .pth files that lie there, such as the one that leads to our
        # source, are not read.
        own = self.run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        Path(own, "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")

    def run(self, program: str, *arguments: str, timeout: float = 60) -> str:
        """In a folder without source, with nothing set that leads there."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        command = [self.bin / program, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=clean, check=True, stdout=subprocess.PIPE, text=True, timeout=timeout
        ).stdout


@pytest.fixture(scope="module")
def environment(built, tmp_path_factory) -> Environment:
    return Environment(tmp_path_factory.mktemp("environment"), built[0])


def test_the_wheel_holds_the_package_and_no_more(built):
    with zipfile.ZipFile(built[0]) as wheel:
        names = wheel.namelist()
    about = f"spansieve-{spansieve.__version__}.dist-info"
    held = {name for name in names if not name.startswith(f"{about}/")}
    ours = {path.relative_to(SOURCE.parent).as_posix() for path in SOURCE.rglob("*") if path.is_file()}
    assert held == {name for name in ours if "__pycache__" not in name}
    assert {name.split("/")[0] for name in names} == {"spansieve", about}  # no benchmarks, no tests
    assert {f"{about}/licenses/LICENSE", f"{about}/entry_points.txt"} <= set(names)


def test_the_sdist_holds_the_repository_and_nothing_that_was_made_from_it(built):
    with tarfile.open(built[1]) as sdist:
        names = [Path(name).parts[1:] for name in sdist.getnames()]
    top = {parts[0] for parts in names if parts}
    needed = {
        "src",
        "tests",
        "docs",
        "examples",
        "benchmarks",
        "results",
        ".ci",
        ".github",
        "Makefile",
        "constraints.txt",
        "constraints-oldest.txt",
    }
    assert needed | {"README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "pyproject.toml"} <= top
    made = {"build", "dist", "runs", "scratch", "site", ".venv", ".git", ".hypothesis"}
    assert not made & top
    assert not [parts for parts in names if "__pycache__" in parts or parts[-1:] == (".DS_Store",)]


def test_the_wheel_works_without_the_source(environment):
    environment.run("python", "-c", CHECK)
    assert environment.run("spansieve", "--version") == f"spansieve {spansieve.__version__}\n"
    assert "demo" in environment.run("spansieve", "--help")


@pytest.mark.slow
def test_the_demo_runs_from_the_wheel(environment):
    out = environment.run("spansieve", "demo", timeout=1800)
    assert "The model is in runs/demo/model" in out
    found = environment.run("spansieve", "predict", "runs/demo/model", TEXT, "--as", "jsonl")
    entities = json.loads(found)["entities"]
    assert {"start": 0, "end": 12, "label": "PER", "text": "Ada Lovelace"}.items() <= entities[0].items()
