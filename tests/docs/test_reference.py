"""The reference names what there is, and every public name is in it."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

import pytest

import spansieve
import spansieve.crf
import spansieve.decode
import spansieve.evaluation
from tests.docs.pages import PAGES

NAMED = [name for path in PAGES for name in re.findall(r"^::: (\S+)$", path.read_text(encoding="utf-8"), re.MULTILINE)]


def named(dotted: str) -> Any:
    home, _, name = dotted.rpartition(".")
    return getattr(import_module(home), name)


@pytest.mark.parametrize("name", NAMED)
def test_what_is_named_exists_and_says_what_it_is(name):
    assert named(name).__doc__


def test_nothing_is_named_twice():
    assert len(NAMED) == len(set(NAMED))


@pytest.mark.parametrize(
    "package", [spansieve, spansieve.crf, spansieve.decode, spansieve.evaluation], ids=lambda it: it.__name__
)
def test_every_public_name_is_there(package):
    public = {f"{package.__name__}.{name}" for name in package.__all__ if not name.startswith("_")}
    assert public <= set(NAMED)
