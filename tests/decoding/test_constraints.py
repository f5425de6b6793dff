"""Constraints from plain tuples: what they become, and that type checkers take them."""

from __future__ import annotations

import dataclasses
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest

from spansieve.crf.evidence import Span
from spansieve.decoding.constraints import Constraints
from spansieve.segments import NamedSegment
from tests.decoding import typed_constraints

ROOT = Path(__file__).parents[2]
SOURCES = ("decoding/constraints.py", "crf/evidence.py", "segments.py")


def test_plain_tuples_are_named():
    plain = typed_constraints.PLAIN
    assert plain.required == (NamedSegment(0, 3, "PER"),)
    assert plain.forbidden == (Span(9, 12), NamedSegment(9, 17, "ORG"), Span(20, 22))
    assert all(isinstance(one, NamedSegment | Span) for one in (*plain.required, *plain.forbidden, *plain.complete))
    assert typed_constraints.AGAIN.forbidden == (NamedSegment(0, 3, "PER"),)
    assert len(typed_constraints.JOINED.required) == 2


def test_they_are_data():
    plain = typed_constraints.PLAIN
    assert plain == dataclasses.replace(plain) == pickle.loads(pickle.dumps(plain)) != Constraints()
    assert dataclasses.replace(plain, required=()).banned == plain.banned
    assert plain
    assert not Constraints()


def mypy(path: Path, cache: Path) -> str:
    """Of the file and of what it is about; the rest of the package is left to `make lint`, which has the file too."""
    sources = [str(ROOT / "src/spansieve" / name) for name in SOURCES]
    options = ["--follow-imports=skip", "--warn-unused-ignores", f"--cache-dir={cache}", "--config-file="]
    command = [sys.executable, "-m", "mypy", *options, *sources, str(path)]
    printed = subprocess.run(command, capture_output=True, text=True, cwd=ROOT).stdout
    assert re.search(rf"(checked|found in) {len(SOURCES) + 1} source files", printed)
    return printed


@pytest.mark.skipif(not (ROOT / "src").is_dir(), reason="needs the source")
def test_mypy_accepts_what_people_write(tmp_path):
    path = ROOT / "tests/decoding/typed_constraints.py"
    assert "typed_constraints.py:" not in mypy(path, tmp_path)
    bare = tmp_path / "bare.py"
    bare.write_text(re.sub(" +# type: ignore.*", "", path.read_text(encoding="utf-8")), encoding="utf-8")
    assert mypy(bare, tmp_path).count("bare.py:") == 5
    assert str(path.relative_to(ROOT)) in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
