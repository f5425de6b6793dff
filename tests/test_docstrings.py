"""How public docstrings begin: the first sentence can be read alone, in a tooltip."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "spansieve"
MODULES = sorted(SOURCE.rglob("*.py"))
# A sentence that begins so needs the signature for its verb or its subject. `>>>`: there is no sentence at all.
FORBIDDEN = re.compile(
    "(Of|As|With|Both|Those|In|By|Same|From|For|To|At|On|Where|When|So|Also|Under|Over|Without|After|Before|That|This|"
    r"These|Their|Its|It|They|Beside|Between|Among|Within)[.,:;]*(\s|$)|>>>"
)
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

PLANTED = '''
def read():
    """From a file."""

class Batch:
    """A batch."""

    def joined(self):
        """Both."""

    async def sizes(self):
        """In order: the sizes."""

    def __len__(self):
        """With padding."""

    def _private(self):
        """Of a batch."""

class _Private:
    def public(self):
        """As above."""

def plain():
    """Offsets of both; formally so."""

def bare():
    return 1

if True:
    def example():
        """
        >>> example()
        """
'''


def is_public(name: str) -> bool:
    return not name.startswith("_") or name.startswith("__")


def public_docstrings(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The qualified name and the docstring of each public class, function and method, however deep."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, DEFINITIONS):
            yield from public_docstrings(child, prefix)
        elif is_public(child.name):
            name = prefix + child.name
            yield name, ast.get_docstring(child) or ""
            yield from public_docstrings(child, f"{name}.")


def bad_beginnings(source: str) -> list[str]:
    docstrings = public_docstrings(ast.parse(source))
    return [f"{name}: {text.splitlines()[0]}" for name, text in docstrings if FORBIDDEN.match(text)]


def test_a_planted_beginning_is_found() -> None:
    assert bad_beginnings(PLANTED) == [
        "read: From a file.",
        "Batch.joined: Both.",
        "Batch.sizes: In order: the sizes.",
        "Batch.__len__: With padding.",
        "example: >>> example()",
    ]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_public_docstrings_read_alone(path: Path) -> None:
    assert not bad_beginnings(path.read_text("utf-8"))


def test_the_package_has_docstrings_to_read() -> None:
    documented = [
        name for path in MODULES for name, text in public_docstrings(ast.parse(path.read_text("utf-8"))) if text
    ]
    assert len(documented) > 300
