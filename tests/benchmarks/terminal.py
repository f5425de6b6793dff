"""`python -m benchmarks`, as a person types it."""

from __future__ import annotations

import pytest

from benchmarks.cli import main
from tests.cli.terminal import Terminal


@pytest.fixture
def terminal(monkeypatch, capsys):
    return Terminal(monkeypatch, capsys, main)
