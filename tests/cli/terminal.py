"""A command as a person types it, in this process: what it answers, and with which exit code."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from spansieve.cli import THREAD_VARIABLES, WAIT_VARIABLES, main


class Answer(NamedTuple):
    code: int
    out: str
    err: str


class Terminal:
    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        program: Callable[[], None] = main,
    ) -> None:
        self.monkeypatch, self.capsys, self.program = monkeypatch, capsys, program
        monkeypatch.setenv("COLUMNS", "80")

    def __call__(self, *arguments: object, stdin: bytes = b"") -> Answer:
        self.monkeypatch.setattr(sys, "argv", ["program", *map(str, arguments)])
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        variables = {name: os.environ.get(name) for name in (*THREAD_VARIABLES, *WAIT_VARIABLES)}
        try:
            self.program()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            # A command's own process ends with it.
            gc.unfreeze()
            for name, value in variables.items():
                os.environ.pop(name, None)
                os.environ.update({} if value is None else {name: value})
        captured = self.capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    def refused(self, *arguments: object, stdin: bytes = b"") -> str:
        """The one line of an error that the user can do something about."""
        answer = self(*arguments, stdin=stdin)
        assert answer.code == 1, answer
        assert answer.err.startswith("error: ")
        assert answer.err.count("\n") == 1
        assert "Traceback" not in answer.err + answer.out
        return answer.err
