"""Commands beside a busy process, and how soon they start: the real commands, in small."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from benchmarks import neighbours, startup
from tests.benchmarks.terminal import terminal as terminal
from tests.nn.tiny import bert_folder


def test_the_neighbour_computes_as_long_as_it_is_needed():
    with neighbours.busy_process() as process:
        time.sleep(0.2)
        assert process.poll() is None
    assert process.poll() is not None


def test_a_command_starts_with_the_users_environment(monkeypatch, tmp_path):
    """What this process was started with is not that of a user: tests run on one thread, and write no modules."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    written = tmp_path / "variables"
    program = f"import os; open({str(written)!r}, 'w').write(repr(dict(os.environ)))"
    startup.run_command(["-c", program], {"GOMP_SPINCOUNT": "7"})
    variables = eval(written.read_text())
    assert not {"OMP_NUM_THREADS", "PYTHONDONTWRITEBYTECODE"} & variables.keys()
    assert variables["GOMP_SPINCOUNT"] == "7"
    assert variables["PATH"] == os.environ["PATH"]
    with pytest.raises(RuntimeError, match="ended with 3"):
        startup.run_command(["-c", "raise SystemExit(3)"], {})


def test_what_is_no_revision_is_refused(terminal):
    assert "--before must be a revision of this repository, got 'unheard-of'" in terminal.refused(
        "startup", "--before", "unheard-of"
    )


def test_the_table_has_what_the_default_may_take():
    quiet = {neighbours.ACTIVE: 4.0, neighbours.DEFAULT: 5.0, neighbours.ONE_THREAD: 8.0}
    busy = {neighbours.ACTIVE: 40.0, neighbours.DEFAULT: 10.0, neighbours.ONE_THREAD: 9.0}
    figures = [*neighbours._figures(neighbours.DEFAULT, quiet, busy).values()]
    assert figures == ["5.0 s", "10.0 s", "2.00", "1.25", "1.25"]
    assert [*neighbours._figures(neighbours.ACTIVE, quiet, busy).values()] == ["4.0 s", "40.0 s", "10.00", "", ""]


@pytest.mark.skipif(not (startup.ROOT / ".git").exists(), reason="needs a clone")
def test_an_earlier_tree_is_compared_with(tmp_path):
    source = startup.extracted("HEAD", tmp_path / "before")
    assert (source / "spansieve" / "__main__.py").is_file()


@pytest.mark.slow
def test_the_commands_that_are_measured_run(tmp_path, monkeypatch):
    monkeypatch.setattr(neighbours, "SIZES", dict.fromkeys(neighbours.SIZES, neighbours.Size(40, 10, 1, 20)))
    commands = neighbours._commands(tmp_path, Path(bert_folder(tmp_path / "tiny")))
    assert [*commands] == [f"{task}, {name}" for name in ("builtin", "tiny") for task in ("train", "predict")]
    for command in commands.values():
        neighbours._run(command, {})
    for kind in neighbours.SIZES:
        assert len((tmp_path / kind / "found.jsonl").read_text().splitlines()) == 20


def test_pages_are_written(tmp_path):
    rows = [{"command": "train, builtin", "threads": neighbours.DEFAULT, "quiet": "1.0 s"}]
    page = neighbours.neighbours_page(rows, "minilm").write(tmp_path, "a command").read_text()
    assert "| train, builtin | the default | 1.0 s |" in page
    assert f"at most {neighbours.MAX_BUSY} times" in page
    assert "a command" in neighbours.demo_page(rows).write(tmp_path, "a command").read_text()
    page = startup.startup_page(rows, "0123abc").write(tmp_path, "a command").read_text()
    assert "before (0123abc) and after" in page
