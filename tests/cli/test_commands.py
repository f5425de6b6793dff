"""The commands as a person types them: help, exit codes, errors."""

from __future__ import annotations

import functools
import gc
import io
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.main import get_command

from spansieve import __version__, cli
from spansieve.cli import train, without_collection, write_utf8
from spansieve.prediction.text_predictor import TEXTS_AT_ONCE

COMMANDS = (
    "demo",
    "example",
    "train",
    "distil",
    "evaluate",
    "calibrate",
    "predict",
    "predict-files",
    "rank",
    "suggest",
    "audit",
    "compare",
    "convert",
    "split",
    "data",
)


def test_the_worked_example_shows_candidates_graph_and_best_path(terminal):
    answer = terminal("example")
    assert answer.code == 0
    assert "Alain Farley works at McGill University" in answer.out
    assert "McGill LOC → University ORG" in answer.out
    assert "Best path: Alain Farley PER → McGill University ORG" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80


def test_a_pipe_gets_utf8_whatever_the_system_writes(terminal):
    """cp1252 is what Windows writes to one; it has no arrow."""
    done = subprocess.run(
        [sys.executable, "-m", "spansieve", "example"],
        env=os.environ | {"PYTHONIOENCODING": "cp1252", "COLUMNS": "80"},
        capture_output=True,
        check=True,
        timeout=600,
    )
    assert done.stdout.decode("utf-8") == terminal("example").out


def test_a_terminal_that_lacks_a_sign_shows_another(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="cp1252")
    monkeypatch.setattr(stream, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdout", stream)
    write_utf8()
    stream.write("Ada → Rome")
    stream.flush()
    assert stream.buffer.getvalue() == b"Ada ? Rome"


# ---- Help ------------------------------------------------------------------------------------------------------------


def test_help_lists_every_command(terminal):
    answer = terminal("--help")
    assert answer.code == 0
    assert [name for name in COMMANDS if f" {name} " not in answer.out] == []
    nothing = terminal()
    assert answer.out.strip() in nothing.out + nothing.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(terminal, command):
    answer = terminal(command, "--help")
    assert answer.code == 0
    assert f"Usage: spansieve {command}" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80


def test_no_command_has_more_than_13_options():
    """`--help` is read as a whole: what few people set has no option of its own."""
    for command in get_command(cli.program_of(cli.COMMANDS)).commands.values():
        names = [parameter.name for parameter in command.params if parameter.param_type_name == "option"]
        assert len(names) <= 13, (command.name, names)


def test_help_shows_brackets(terminal):
    shown = terminal("train", "--help").out
    assert "[model]" in shown
    assert "[training]" in shown


def test_help_is_quick():
    """Nothing large is loaded for it."""
    program = (
        "import sys\n"
        "from spansieve.cli import main\n"
        "for command in [[], *([name] for name in sys.argv[1:])]:\n"
        "    sys.argv = ['spansieve', *command, '--help']\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as end:\n"
        "        assert not end.code\n"
        "large = {'torch', 'transformers', 'accelerate', 'numba', 'numpy', 'matplotlib', 'spacy'} & set(sys.modules)\n"
        "assert not large, large\n"
    )
    subprocess.run([sys.executable, "-c", program, *COMMANDS], check=True, capture_output=True, timeout=60)


def test_a_sentence_is_predicted_with_little_loaded(terminal, model):
    """Of ours the one command; of others what computes. Kernels that are compiled already need no compiler."""
    sentence = "Ada lives in Rome."
    answer = terminal("predict", model, sentence)
    program = (
        "import gc, sys\n"
        "from spansieve.cli import main\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "assert gc.isenabled() and gc.get_freeze_count()\n"
        "large = {'rich', 'transformers', 'tokenizers', 'scipy.linalg', 'torch._dynamo', 'spansieve.cli.train'}\n"
        "assert not large & set(sys.modules), large & set(sys.modules)\n"
    )
    command = [sys.executable, "-c", program, "predict", model, sentence]
    alone = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8", timeout=60)
    assert alone.stdout == answer.out


def refuse(is_collecting: bool) -> None:
    assert not is_collecting
    raise ValueError("a damaged model")


def test_garbage_is_collected_again_after_an_error():
    with pytest.raises(ValueError, match="damaged"), without_collection():
        refuse(gc.isenabled())
    gc.unfreeze()
    assert gc.isenabled()


def test_the_version(terminal):
    assert terminal("--version") == (0, f"spansieve {__version__}\n", "")


def test_the_module_runs_as_a_program():
    found = subprocess.run([sys.executable, "-m", "spansieve", "--help"], capture_output=True, text=True, check=True)
    assert "demo" in found.stdout


# ---- Exit codes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        ["abacus"],
        ["benchmark"],
        ["reproduce"],
        ["train"],
        ["train", "a", "b"],
        ["predict", "m", "--as", "x"],
        ["data", "--abacus"],
    ],
)
def test_a_line_that_makes_no_sense_is_code_2(terminal, line):
    answer = terminal(*line)
    assert answer.code == 2
    assert "Usage: spansieve" in answer.err
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("place", [0, 1, 2])
def test_debug_shows_where_an_error_came_from(terminal, tmp_path, place):
    line = ["data", str(tmp_path / "nowhere")]
    assert "no file or folder" in terminal.refused(*line)
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        terminal(*line[:place], "--debug", *line[place:])


def test_an_error_of_many_lines_is_told_in_one(terminal, monkeypatch):
    def fail(*_):
        raise RuntimeError("one\n  two\n\nthree")

    monkeypatch.setattr(train, "preset", fail)
    assert terminal.refused("train", "a", "b", "--output", "c") == "error: one two three\n"


def test_a_mistake_of_ours_is_not_hidden(terminal, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(train, "preset", fail)
    with pytest.raises(ZeroDivisionError):
        terminal("train", "a", "b", "--output", "c")


def test_ctrl_c_is_code_130(model):
    """As a process of its own, which waits for standard input."""
    program = [sys.executable, "-m", "spansieve", "predict", str(model)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # Who is started in the background by a shell ignores interrupts, and so do all whom it starts.
    listening = {"preexec_fn": functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)}
    with subprocess.Popen(
        program, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}, **pipes, **listening
    ) as process:
        process.stdin.write("Ada\n" * TEXTS_AT_ONCE)  # as soon as so many are there, they are answered
        process.stdin.flush()
        for _ in range(TEXTS_AT_ONCE):
            process.stdout.readline()
        # It tidies up, where Python may drop an interrupt, and then waits, which is where the signal should find it.
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == "interrupted\n"
