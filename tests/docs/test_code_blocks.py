"""Every code block of docs/ is run as it stands there, page by page, in a folder with what the pages take for granted.

Python runs as a script or, with `>>>`, as a doctest; the commands of `bash` blocks are typed; a block with a title is
the file of that name. What cannot be run says so above it, `<!-- not run: REASON -->`; its commands are still held
against the command line. Indented blocks are for looking at: commands in them are held against the command line, too.
"""

from __future__ import annotations

import doctest
import importlib
import json
import re
import shlex
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.core import TyperGroup

import spansieve
from spansieve.cli import app
from spansieve.data.formats import FORMATS
from tests.docs.pages import BLOCKS, PAGES, ROOT, Block, blocks_of, name_of
from tests.serving.running import running

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# Pages whose code needs more around it than a folder, with the test that runs it.
ELSEWHERE = {
    "chunking.md": "tests/cli/test_pages.py",
    "learning-from-less.md": "tests/cli/test_pages.py",
    "nested.md": "tests/crf/test_nested.py",
    "onnx.md": "tests/prediction/onnx/test_onnx_predictor.py",
}
# Trains for minutes, and is for looking at: what it says is held against the command line.
LOOKED_AT = {"reproduce.md"}
MOST_NOT_RUN = 10
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
SHOWN = {"json", "xml", "text", "toml"}
UsageError = typer.BadParameter.__bases__[0]  # click's, or that of the click within typer


# ---- Run -------------------------------------------------------------------------------------------------------------


class Reader:
    """Does what a page says."""

    def __init__(self, terminal, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.terminal, self.folder, self.monkeypatch = terminal, folder, monkeypatch
        self.names: dict = {"__name__": "__page__"}
        self.answer: Any = None  # of the service, to the last request

    def does(self, block: Block) -> None:
        if block.title:
            self.writes(block)
        elif block.language == "python":
            (self.checks if ">>> " in block.code else self.executes)(block)
        elif block.language == "bash":
            for command in block.commands:
                self.types(command, block)
        elif block.language == "json" and self.answer is not None:
            assert shape(json.loads(block.code)) == shape(self.answer), str(block)
            self.answer = None

    def writes(self, block: Block) -> None:
        assert block.title
        path = self.folder / block.title
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.code, encoding="utf-8")
        if block.title.startswith("src/"):  # as if it stood in the package
            package = importlib.import_module(".".join(Path(block.title).parent.parts[1:]))
            self.monkeypatch.setattr(package, "__path__", [*package.__path__, str(path.parent)])

    def executes(self, block: Block) -> None:
        exec(compile("\n" * block.line + block.code, block.page, "exec"), self.names)

    def checks(self, block: Block) -> None:
        test = doctest.DocTestParser().get_doctest(block.code, self.names, str(block), block.page, block.line)
        told: list[str] = []
        found = doctest.DocTestRunner().run(test, out=told.append, clear_globs=False)
        assert found.attempted
        assert not found.failed, "".join(told)
        self.names = test.globs

    def types(self, command: str, block: Block) -> None:
        words = shlex.split(command)
        target = words.pop(words.index(">") + 1) if ">" in words else None
        words = [word for word in words if word != ">"]
        if words[0] == "spansieve":
            answer = self.terminal(*words[1:])
            assert answer.code == 0, (str(block), command, answer)
            if target:
                (self.folder / target).write_text(answer.out, encoding="utf-8")
        elif words[0] == "curl":
            self.asks(words)

    def asks(self, words: list[str]) -> None:
        """A service of the demo's model, whatever the port."""
        (path,) = [word.partition("/")[2] for word in words if word.startswith("localhost:8000/")]
        (header,) = [word.split(": ") for before, word in pairwise(words) if before == "-H"]
        with running(spansieve.load("runs/demo/model")) as served:
            told = served.client.post(f"/{path}", content=words[words.index("-d") + 1], headers=[tuple(header)])
        assert told.status_code == 200, told.text
        self.answer = told.json()


def shape(value: Any) -> Any:
    """The names in a JSON value, of a list those of its first entry."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return [shape(value[0])] if isinstance(value, list) and value else type(value) is list


@pytest.fixture
def reader(terminal, furnished, small_presets, tmp_path, monkeypatch):
    import spansieve.integrations.spacy  # noqa: F401  # where the package is installed, its entry point does this

    folder = tmp_path / "page"
    shutil.copytree(furnished, folder)
    monkeypatch.chdir(folder)
    known = dict(FORMATS)
    yield Reader(terminal, folder, monkeypatch)
    FORMATS.clear()
    FORMATS.update(known)


def is_run_here(page: str) -> bool:
    return page not in ELSEWHERE and any(block.language in ("python", "bash") for block in BLOCKS if block.page == page)


@pytest.mark.parametrize("path", [path for path in PAGES if is_run_here(name_of(path))], ids=name_of)
def test_page(path, reader):
    done = 0
    for made in re.findall(r"--output (runs/\w+)", path.read_text(encoding="utf-8")):
        shutil.rmtree(made, ignore_errors=True)  # the page makes it
    for block in blocks_of(path):
        if block.reason is None:
            reader.does(block)
            done += 1
    assert done


def test_what_is_run_elsewhere_is():
    for page, test in ELSEWHERE.items():
        assert f'"{page}"' in (ROOT / test).read_text(encoding="utf-8")


# ---- Held against the command line -----------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "bash"], ids=str)
def test_commands_that_are_not_ours(block):
    """As far as they can be told."""
    for command in block.commands:
        words = shlex.split(command)
        if words[0] not in ("spansieve", "curl"):
            check_words(words, block)


def check_words(words: list[str], block: Block) -> None:
    first, *rest = words
    if first == "pip":
        for extra in re.findall(r"spansieve\[([\w,]+)\]", " ".join(rest)):
            assert set(extra.split(",")) <= EXTRAS.keys(), (str(block), words)
    elif first == "make":
        assert set(rest) <= set(TARGETS), (str(block), words)
    elif first == "python":
        assert (ROOT / rest[0]).exists(), (str(block), words)
    elif first == "accelerate":
        check_options(words[words.index("spansieve") + 1 :])
    else:
        assert first in ("cat", "source"), (str(block), words)


def check_options(words: list[str]) -> None:
    """Raises a usage error for a command, an option or a choice that does not exist, or an argument too few or many."""
    command: Any = typer.main.get_command(app)
    context: Any = None
    while isinstance(command, TyperGroup):
        context = command.make_context(command.name, list(words), parent=context)
        name = "_protected_args" if hasattr(context, "_protected_args") else "protected_args"  # it moved in click 8.2
        _, command, words = command.resolve_command(context, [*getattr(context, name), *context.args])
    command.make_context(command.name, list(words), parent=context)


OURS = [
    (block, command)
    for block in BLOCKS
    if block.language in ("", "bash")
    for command in block.commands
    if command.startswith("spansieve ")
]


@pytest.mark.parametrize(("block", "command"), OURS, ids=lambda value: str(value) if isinstance(value, Block) else "")
def test_command_exists(block, command):
    check_options([word for word in shlex.split(command)[1:] if word != "…"])


@pytest.mark.parametrize(
    "wrong", ["unheard-of", "train", "predict m --unheard-of", "rank m t --by luck", "serve m n o"]
)
def test_what_does_not_exist_is_seen(wrong):
    with pytest.raises(UsageError):
        check_options(wrong.split())


# ---- Kept honest -----------------------------------------------------------------------------------------------------


def test_little_is_not_run():
    not_run = [block for block in BLOCKS if block.reason]
    assert all(len(block.reason.split()) > 2 for block in not_run)
    assert len(not_run) <= MOST_NOT_RUN, [str(block) for block in not_run]


def test_every_block_says_what_it_is():
    """One without a language is for looking at, and holds no Python."""
    for block in BLOCKS:
        assert block.language in {"", "python", "bash", *SHOWN}, str(block)
        if not block.language and block.page not in LOOKED_AT:
            assert ">>>" not in block.code, str(block)
            assert "import " not in block.code, str(block)


def test_there_is_code():
    assert len(PAGES) > 20
    assert len(OURS) > 30
    assert sum(block.language == "python" for block in BLOCKS) > 30


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_to_files_lead_somewhere(path):
    """Anchors too are checked by `make docs`."""
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"`[^`]*`", "", path.read_text(encoding="utf-8")))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_every_page_is_in_the_navigation():
    listed = re.findall(r"^ +- [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(name_of(path) for path in PAGES)
