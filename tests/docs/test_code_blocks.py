"""Every code block of docs/ and of the README is run as it stands there, page by page, in a folder with what the pages
take for granted.

Python runs as a script or, with `>>>`, as a doctest; the commands of `bash` blocks are typed; a block with a title is
the file of that name; JSON is what the service is asked or answers; any other text is what the code before it prints.
There is no mark that would except a block.

What differs from a reader's machine: data, models and encoders of those names are tiny (`conftest.py`, `in_small.py`,
which also shortens what measures for minutes), the environment that `make` would make is this one, of `make test` it is
looked at what it would do, since it is what runs here, pip finds everything installed or fails, a service takes a free
port, a container is the steps of its Dockerfile (`tests/serving/container.py`), cluster and Hub are of this machine,
and where there is no GPU `cuda` is `cpu`. Indented blocks are formulas, or the lines of a log.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.docs.in_small import LESS, NEEDED, is_shortened
from tests.docs.pages import BLOCKS, PAGES, ROOT, Block, blocks_of, name_of
from tests.docs.reader import Reader

CODE = {"python", "bash"}
SHOWN = {"json", "xml", "text", "toml", "yaml", "dockerfile", "javascript"}
WITH_CODE = [path for path in (ROOT / "README.md", *PAGES) if any(block.language in CODE for block in blocks_of(path))]
SHOWING = [
    path
    for path in WITH_CODE
    if any(block.language in {"text", "json"} and not block.title for block in blocks_of(path))
]
# Minutes for little: bulk.md too starts Ray, and each command of reproduce.md has a test of its own.
LONG = {"scaling.md", "reproduce.md"}
READ = [pytest.param(path, marks=pytest.mark.slow) if name_of(path) in LONG else path for path in WITH_CODE]
HURRIED = [path for path in PAGES if any(is_shortened(one) for block in blocks_of(path) for one in block.commands)]
COMMANDS = [command for block in BLOCKS for command in block.commands]


def read(path: Path, reader: Reader) -> None:
    """All that the page says it writes must be there in the end; it is not there before."""
    blocks = blocks_of(path)
    typed = "\n".join(command for block in blocks for command in block.commands)
    typed = re.sub(r"^(make|spansieve) demo\b", "--output runs/demo/model", typed, flags=re.MULTILINE)
    made = list(map(Path, re.findall(r"--output (\S+)", typed)))
    for place in made:
        shutil.rmtree(place, ignore_errors=True)
    for block in blocks:
        reader.does(block)
    for place in made:
        assert any(place.iterdir()) if place.is_dir() else place.stat().st_size, place


@pytest.mark.parametrize("path", READ, ids=name_of)
def test_page(path, reader):
    read(path, reader)


@pytest.mark.slow
@pytest.mark.parametrize("path", HURRIED, ids=name_of)
def test_page_without_haste(path, reader):
    """What measures for minutes does so."""
    reader.options = NEEDED
    read(path, reader)


@pytest.mark.slow
def test_what_is_shown_is_what_is_printed(reader_with_time):
    """README trains the demo's model in full, and the pages after it show what that model answers."""
    assert name_of(SHOWING[0]) == "README.md"
    assert len(SHOWING) > 4
    for path in SHOWING:
        read(path, reader_with_time)


# ---- Kept honest -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("bash", "spansieve unheard-of"),
        ("bash", "spansieve predict runs/demo/model Ada --unheard-of"),
        ("bash", "python -m benchmarks unheard-of"),
        ("bash", "pip install 'spansieve[unheard-of]'"),
        ("bash", "make unheard-of"),
        ("bash", "false | cat"),
        ("python", "assert False"),
        ("python", ">>> 1 + 1\n3"),
        ("json", '{"texts": "no list"}'),
        ("xml", "<View>"),
        ("text", "what no code has printed"),
    ],
)
def test_what_is_wrong_on_a_page_is_seen(language, code, reader):
    with pytest.raises((AssertionError, ElementTree.ParseError)):
        reader.does(Block("a page", 1, language, f"{code}\n"))


def test_every_block_says_what_it_is():
    """One without a language is for looking at, and holds no code."""
    for block in BLOCKS:
        assert block.language in {"", *CODE, *SHOWN}, str(block)
        if not block.language:
            assert not re.search(r">>>|\bimport |^(spansieve|python|pip|make) ", block.code, re.MULTILINE), str(block)


def test_there_is_code():
    assert len(PAGES) > 20
    assert len(COMMANDS) > 60
    assert sum(block.language == "python" for block in BLOCKS) > 30


def test_nothing_is_shortened_in_vain():
    assert [begin for begin in NEEDED | LESS if not any(command.startswith(f"{begin} ") for command in COMMANDS)] == []


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_to_files_lead_somewhere(path):
    """Anchors too are checked by `make docs`."""
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"`[^`]*`", "", path.read_text(encoding="utf-8")))
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_every_page_is_in_the_navigation():
    listed = re.findall(r"^ +- [^:]+: (\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(name_of(path) for path in PAGES)
