"""Nothing in the code needs POSIX without a guard, and files are the same on every system: encodings and line ends are
given, since what a system takes by itself differs."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for folder in ("src", "benchmarks", "examples") for path in (ROOT / folder).rglob("*.py"))
POSIX_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "select", "termios", "tty"}
POSIX_NAMES = {
    *("fork", "getuid", "geteuid", "getpgid", "kill", "killpg", "mkfifo", "O_DIRECTORY", "sched_getaffinity", "setsid"),
    *("statvfs", "uname", "SIGKILL", "SIGHUP", "SIGALRM", "SIGUSR1", "AF_UNIX"),
}


def carelessly_opened(source: str) -> list[str]:
    """Calls that open a file as text without an encoding, or write one without line ends."""
    found = []
    for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
        is_method = isinstance(call.func, ast.Attribute)
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        given = {keyword.arg for keyword in call.keywords}
        modes = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
        modes += [keyword.value.value for keyword in call.keywords if keyword.arg == "mode"]  # type: ignore[attr-defined]
        mode = next((mode for mode in modes if isinstance(mode, str) and set(mode) <= set("rwxabt+")), "r")
        if name in ("read_text", "write_text") and is_method:
            has_encoding = "encoding" in given or len(call.args) > (name == "write_text")
            is_fine = has_encoding and (name == "read_text" or "newline" in given)
        elif name == "open" and "b" not in mode and (modes or not is_method):
            is_fine = "encoding" in given and ("r" in mode or "newline" in given)
        else:
            continue
        if not is_fine:
            found.append(ast.unparse(call))
    return found


def unguarded(source: str) -> list[str]:
    """What only POSIX has, used outside of a `try` and of any `if` or conditional that asks for it."""
    found = []

    def visit(node: ast.AST, is_guarded: bool) -> None:
        asks = ast.unparse(node.test) if isinstance(node, ast.If | ast.IfExp) else ""
        is_guarded |= isinstance(node, ast.Try) or any(word in asks for word in ("hasattr", "platform", "os.name"))
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        used = [name for name in names if name in POSIX_MODULES]
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in ("os", "signal", "socket"):
            used += [node.attr] if node.attr in POSIX_NAMES else []
        found.extend(used if not is_guarded else [])
        for child in ast.iter_child_nodes(node):
            visit(child, is_guarded)

    visit(ast.parse(source), False)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_are_opened_alike_everywhere(path):
    assert not carelessly_opened(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [p for p in FILES if (ROOT / "src") in p.parents], ids=lambda path: path.name)
def test_what_only_posix_has_is_asked_for(path):
    assert not unguarded(path.read_text(encoding="utf-8"))


# ---- That these tests can fail ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source",
    ["p.read_text()", "p.write_text(x, encoding='utf-8')", "open(p)", "p.open('w', encoding='utf-8')", "p.open('a')"],
)
def test_a_careless_file_is_seen(source):
    assert carelessly_opened(source)


@pytest.mark.parametrize(
    "source",
    ["p.read_text(encoding='utf-8')", "p.read_text('utf-8')", "p.open('rb')", "open(p, encoding='utf-8')"],
)
def test_a_careful_file_is_fine(source):
    assert not carelessly_opened(source)


@pytest.mark.parametrize("source", ["import fcntl", "from resource import getrlimit", "os.fork()", "x = os.getuid()"])
def test_posix_without_a_guard_is_seen(source):
    assert unguarded(source)


@pytest.mark.parametrize(
    "source",
    ["try:\n    import fcntl\nexcept ImportError:\n    fcntl = None", "os.getuid() if hasattr(os, 'getuid') else 0"],
)
def test_posix_with_a_guard_is_fine(source):
    assert not unguarded(source)
