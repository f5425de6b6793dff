"""Every command against every kind of path that one of its arguments must not have."""

from __future__ import annotations

import inspect
from itertools import pairwise
from pathlib import Path

import pytest

from spansieve import cli
from spansieve.data.formats import write_examples
from tests.training import runs

CPU = "--set=run.cpu=true"
# How each argument that is a path is given one: PATH is the path in question, all others are good.
DATA = {
    "train": ("train", "PATH", "dev.conll", "--output", "out", CPU),
    "train DEV": ("train", "train.conll", "PATH", "--output", "out", CPU),
    "train run.test": ("train", "train.conll", "dev.conll", "--set", "run.test=PATH", "--output", "out"),
    "evaluate": ("evaluate", "MODEL", "PATH"),
    "calibrate": ("calibrate", "MODEL", "PATH", "--miss", "0.5"),
    "audit": ("audit", "PATH", "--output", "out.csv", CPU),
    "compare": ("compare", "MODEL", "MODEL", "PATH"),
    "convert": ("convert", "PATH", "out.jsonl"),
    "data": ("data", "PATH"),
    "split": ("split", "PATH", "--into", "out.jsonl", "out2.jsonl"),
}
TEXTS = {
    "predict --file": ("predict", "MODEL", "--file", "PATH"),
    "predict --require": ("predict", "MODEL", "--require", "PATH"),
    "predict-files": ("predict-files", "MODEL", "PATH", "--output", "out"),
    "rank": ("rank", "MODEL", "PATH"),
    "suggest": ("suggest", "MODEL", "PATH"),
    "redact": ("redact", "MODEL", "PATH", "--output", "out"),
}
MODELS = {
    "calibrate MODEL": ("calibrate", "PATH", "dev.conll", "--miss", "0.5"),
    "evaluate MODEL": ("evaluate", "PATH", "dev.conll"),
    "redact MODEL": ("redact", "PATH", "rows.jsonl"),
    "predict MODEL": ("predict", "PATH", "Ada lives here ."),
    "predict-files MODEL": ("predict-files", "PATH", "rows.jsonl", "--output", "out"),
    "rank MODEL": ("rank", "PATH", "rows.jsonl"),
    "suggest MODEL": ("suggest", "PATH", "rows.jsonl"),
    "serve MODEL": ("serve", "PATH", "--port", "0"),
    "export MODEL": ("export", "PATH", "out"),
    "distil TEACHER": ("distil", "PATH", "train.conll", "dev.conll", "--output", "out", CPU),
    "distil --texts": ("distil", "MODEL", "train.conll", "dev.conll", "--texts", "PATH", "--output", "out", CPU),
    "push MODEL": ("push", "PATH", "org/name"),
    "compare A": ("compare", "PATH", "MODEL", "dev.conll"),
    "compare B": ("compare", "MODEL", "PATH", "dev.conll"),
    "train --start-from": ("train", "train.conll", "dev.conll", "--start-from", "PATH", "--output", "out", CPU),
    "train --encoder": ("train", "train.conll", "dev.conll", "--encoder", "./PATH", "--output", "out", CPU),
    "audit --encoder": ("audit", "train.conll", "--encoder", "./PATH", "--output", "out.csv", CPU),
}
OTHERS = {
    "train --config": ("train", "train.conll", "dev.conll", "--config", "PATH", "--output", "out", CPU),
    "redact --key": ("redact", "MODEL", "rows.jsonl", "--as", "pseudonym", "--key", "PATH"),
    "serve --token-file": ("serve", "MODEL", "--token-file", "PATH", "--port", "0"),
}
FILES_OUT = {
    "calibrate --json": ("calibrate", "MODEL", "dev.conll", "--miss", "0.9", "--json", "PATH"),
    "evaluate --json": ("evaluate", "MODEL", "dev.conll", "--json", "PATH"),
    "evaluate --errors": ("evaluate", "MODEL", "dev.conll", "--errors", "PATH"),
    "evaluate --calibration": ("evaluate", "MODEL", "dev.conll", "--calibration", "PATH"),
    "predict --output": ("predict", "MODEL", "Ada lives here .", "--as", "jsonl", "--output", "PATH"),
    "rank --output": ("rank", "MODEL", "rows.jsonl", "--output", "PATH"),
    "redact --output": ("redact", "MODEL", "rows.jsonl", "--output", "PATH"),
    "redact --report": ("redact", "MODEL", "rows.jsonl", "--report", "PATH"),
    "suggest --output": ("suggest", "MODEL", "rows.jsonl", "--output", "PATH"),
    "audit --output": ("audit", "train.conll", "--output", "PATH", CPU),
    "compare --json": ("compare", "MODEL", "MODEL", "dev.conll", "--json", "PATH"),
    "convert OUT": ("convert", "train.conll", "PATH", "--to", "jsonl", "--force"),
    "data --json": ("data", "train.conll", "--json", "PATH"),
    "split --into": ("split", "train.conll", "--into", "PATH", "out2.jsonl", "--force"),
}
FOLDERS_OUT = {
    "demo --output": ("demo", "--output", "PATH"),
    "train --output": ("train", "train.conll", "dev.conll", "--output", "PATH", CPU),
    "predict-files --output": ("predict-files", "MODEL", "rows.jsonl", "--output", "PATH"),
    "distil --output": ("distil", "MODEL", "train.conll", "dev.conll", "--output", "PATH", CPU),
    "export OUT": ("export", "MODEL", "PATH"),
    "audit --runs": ("audit", "train.conll", "--runs", "PATH", "--output", "out.csv", CPU),
}
COMMANDS = DATA | TEXTS | MODELS | OTHERS | FILES_OUT | FOLDERS_OUT
VALID = {
    ("notes.md", name) for name in ("predict --file", "rank", "suggest", "redact", "distil --texts")
}  # text is text
VALID |= {("binary", "redact --key"), ("notes.md", "redact --key")}  # bytes are bytes
VALID |= {("empty", "data"), ("empty", "train --config")}  # no sentences, and no settings: all are the usual ones
PATH_TYPES = ("Model", "ModelOrExport", "LabelledData", "TextFiles", "Files", "OutputFile", "JsonFile", "ErrorFiles")
PATH_TYPES += ("RedactedFiles", "RedactedOutput", "TokenFile", "KeyFile", "Picture", "Required")
OPTION_NAMES = {"json_file": "--json"}
ARGUMENTS = {("rank", "files"), ("redact", "files"), ("suggest", "files"), ("train", "dev"), ("split", "more")}
PROSE = "# Notes\n\nAda lives in Rome.\nShe was born there long ago.\n"


@pytest.fixture
def type_command(terminal, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    write_examples(runs.TRAIN, "train.conll")
    write_examples(runs.DEV, "dev.conll")
    Path("rows.jsonl").write_text('{"text": "Ada lives here ."}\n')

    def typed(command: str, path: str):
        words = [str(model) if word == "MODEL" else word.replace("PATH", path) for word in COMMANDS[command]]
        before = contents(tmp_path)
        answer = terminal(*words)
        return answer, {name for name, content in contents(tmp_path).items() if before.get(name) != content}

    return typed


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def check_refused(answer, written: set[str], path: str, codes: tuple[int, ...] = (1, 2)) -> None:
    assert answer.code in codes, answer
    assert "Traceback" not in answer.err + answer.out
    assert path.rstrip("/") in "".join(answer.err.replace("│", "").split()), answer.err
    assert not written


def test_every_argument_that_is_a_path_is_in_the_table():
    """By its type, its name or its help; what is a text, a name or a number is none."""
    before = {(line[0], word) for line in COMMANDS.values() for word, after in pairwise(line) if "PATH" in after}
    for name in cli.COMMANDS:
        for parameter in inspect.signature(cli.command_named(name)).parameters.values():
            if "Path" in parameter.annotation or parameter.annotation in PATH_TYPES:
                option = OPTION_NAMES.get(parameter.name, f"--{parameter.name.replace('_', '-')}")
                is_argument = parameter.default is parameter.empty and "Option" not in parameter.annotation
                assert is_argument or (name, option) in before or (name, parameter.name) in ARGUMENTS, (name, option)
    assert {line[0] for line in COMMANDS.values()} == cli.COMMANDS.keys() - {"example"}


@pytest.mark.parametrize("command", [*DATA, *TEXTS, *MODELS, *OTHERS])
@pytest.mark.parametrize("path", ["nowhere", "empty", "binary", "hollow", "notes.md"])
def test_what_an_argument_cannot_be_is_an_error_that_names_it(type_command, command, path):
    if (path, command) in VALID:
        return
    Path("empty").write_bytes(b"")
    Path("binary").write_bytes(bytes(range(256)) * 20)
    Path("hollow").mkdir()
    Path("notes.md").write_text(PROSE)
    answer, written = type_command(command, path)
    check_refused(answer, written - {"out", "out/.lock"}, path)


@pytest.mark.parametrize("command", FILES_OUT)
@pytest.mark.parametrize("path", ["folder.jsonl", "nowhere/out.jsonl"])
def test_a_file_cannot_be_written_over_a_folder_or_into_none(type_command, command, path):
    Path("folder.jsonl").mkdir()
    if command in ("split --into", "convert OUT") and path.startswith("nowhere"):
        return  # which make the folder
    check_refused(*type_command(command, path), path)


@pytest.mark.parametrize("command", FOLDERS_OUT)
@pytest.mark.parametrize("path", ["notes.md", "other"])
def test_a_folder_cannot_be_written_over_a_file_or_what_is_not_its_own(type_command, command, path):
    Path("notes.md").write_text(PROSE)
    Path("other").mkdir()
    Path("other/mine.txt").write_text(PROSE)
    if command in ("audit --runs", "train --output", "distil --output", "demo --output") and path == "other":
        return  # whose own files stand beside what is there
    check_refused(*type_command(command, path), path)
