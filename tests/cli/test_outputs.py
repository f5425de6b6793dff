"""What is printed cannot steer the terminal, and is otherwise as it came."""

from __future__ import annotations

import io
import json
import sys

import pytest
from rich.table import Table
from rich.text import Text

from spansieve import cli
from spansieve.cli.outputs import Console, json_line, printable

HOSTILE = "a\x1b]0;title\x07b\x9b2Jc\x7f\b\x00"


def test_text_markup_and_tables_have_no_control_characters_but_the_consoles_own():
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system="standard", width=80)
    table = Table(HOSTILE)
    table.add_row(HOSTILE)
    for shown in (HOSTILE, Text(HOSTILE, style="red"), table):
        console.print(shown, markup=False, highlight=False)
    shown = file.getvalue()
    assert "\x1b[31m" in shown  # colours are there
    for control in ("\x1b]", "\x07", "\x9b", "\x7f", "\b", "\x00"):
        assert control not in shown
    assert r"\x1b]0;title" in shown


@pytest.mark.parametrize("text", ["Zoë 👍🏽 القاهرة 北京\tx\n", "e\u0301 \u200d \u00a0"])
def test_other_text_stays_as_it_is(text):
    assert printable(text) == text
    file = io.StringIO()
    Console(file=file, width=80).print(Text(text, tab_size=1), highlight=False)
    assert file.getvalue().split() == text.split()


def test_json_lines_have_no_control_characters_and_the_same_value():
    line = json_line({"text": HOSTILE + "Zoë"})
    assert json.loads(line) == {"text": HOSTILE + "Zoë"}
    assert all(character >= " " and not "\x7f" <= character <= "\x9f" for character in line.strip())
    assert "Zoë" in line


def test_errors_are_escaped(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["spansieve", "evaluate", str(tmp_path / "m\x1b[2J"), __file__])
    with pytest.raises(SystemExit):
        cli.main()
    error = capsys.readouterr().err
    assert "\x1b" not in error
    assert r"\x1b[2J" in error
