"""What commands read: every command against every kind of path, and which files a path stands for."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

CPU = "--set=run.cpu=true"
TEXT = "Ada lives in New York ."
ROW = json.dumps({"text": TEXT}) + "\n"
# How each command is given a path; OUT is a place to write to.
TEXT_COMMANDS = {
    "predict": ("predict", "MODEL", "--file", "PATH"),
    "predict, beside another": ("predict", "MODEL", "--file", "good.txt", "PATH"),
    "predict --require": ("predict", "MODEL", "--require", "PATH"),
    "rank": ("rank", "MODEL", "PATH"),
    "suggest": ("suggest", "MODEL", "PATH"),
    "predict-files": ("predict-files", "MODEL", "PATH", "--output", "OUT"),
}
DATA_COMMANDS = {
    "evaluate": ("evaluate", "MODEL", "PATH"),
    "train": ("train", "PATH", "PATH", "--output", "OUT", CPU),
    "convert": ("convert", "PATH", "OUT.jsonl"),
    "data": ("data", "PATH"),
    "split": ("split", "PATH", "--into", "OUT.jsonl", "dev.jsonl"),
}


@pytest.fixture
def type_command(terminal, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("good.txt").write_text(TEXT)

    def typed(command: str, path: str) -> tuple[int, str, str]:
        places = {"MODEL": model, "PATH": path, "OUT": "out", "OUT.jsonl": "out.jsonl"}
        line = (TEXT_COMMANDS | DATA_COMMANDS)[command]
        return terminal(*(places.get(word, word) for word in line))

    return typed


@pytest.mark.parametrize("command", TEXT_COMMANDS)
@pytest.mark.parametrize("place", ["x.jsonl", "folder", "folder/", "folder/*.jsonl"])
def test_files_folders_and_patterns_are_read(type_command, command, place):
    Path("folder").mkdir()
    for name in ("x.jsonl", "folder/x.jsonl"):
        Path(name).write_text(ROW)
    answer = type_command(command, place)
    assert answer.code == 0, answer.err
    out = Path("out/part-000000.jsonl").read_text() if command == "predict-files" else answer.out
    *_, row = map(json.loads, out.splitlines())
    assert row["text"] == TEXT
    if command != "predict-files":  # whose rows keep what they have, and no more
        assert row["file"] == ("x.jsonl" if place == "x.jsonl" else "folder/x.jsonl")


@pytest.mark.parametrize("command", [*TEXT_COMMANDS, *DATA_COMMANDS])
@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("nowhere.jsonl", None),
        ("nowhere/", None),
        ("nowhere/*.jsonl", None),
        ("Ada lives in Rome.", None),
        ("empty.jsonl", b""),
        ("binary.jsonl", bytes(range(256))),
        ("zeros.jsonl", bytes(100)),
    ],
)
def test_what_cannot_be_read_is_an_error_that_names_it(type_command, command, path, content):
    if (command, content) == ("data", b""):
        return  # which counts its sentences: there are none
    if content is not None:
        Path(path).write_bytes(content)
    answer = type_command(command, path)
    assert path.rstrip("/") in answer.err
    assert answer.out == ""
    if command == "predict-files" and content:  # whose rows are left out, one by one
        assert answer.code == 3, answer
        assert "0 rows, 0 entities" in answer.err
        return
    assert answer.code == 1, answer
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert not Path("out").exists()
    assert not Path("out.jsonl").exists()


@pytest.mark.parametrize("command", DATA_COMMANDS)
def test_an_empty_folder_is_an_error_that_names_it(type_command, command):
    Path("hollow").mkdir()
    answer = type_command(command, "hollow")
    assert answer.code == 1
    assert "hollow" in answer.err


# ---- A path is never taken for a text --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["good.txt", "folder", "folder/", ".", "./good.txt"])
def test_a_path_among_texts_is_refused_with_the_way_out(terminal, model, type_command, path):
    Path("folder").mkdir()
    for texts in ([path], [TEXT, path]):
        refused = terminal.refused("predict", model, *texts)
        kind = "file" if path.endswith("txt") else "folder"
        assert refused.startswith(f"error: {path} is a {kind}, not a text: read it with --file {path};")


@pytest.mark.parametrize("path", ["nowhere.txt", "txt/nowhere.jsonl", "txt/", "txt/*.txt"])
def test_a_word_that_ends_like_a_path_is_refused_too(terminal, model, path):
    assert f"error: no file or folder {path};" in terminal.refused("predict", model, path)


def test_texts_that_look_a_little_like_paths(terminal, model):
    texts = ["and/or", "See notes.txt", "Mr.", "*", "a" * 10_000]
    answer = terminal("predict", model, *texts)
    assert [json.loads(line)["text"] for line in answer.out.splitlines()] == texts


def test_a_name_of_a_file_can_be_sent_to_standard_input(terminal, model, type_command):
    (line,) = terminal("predict", model, stdin=b"good.txt").out.splitlines()
    assert json.loads(line)["text"] == "good.txt"
    assert "file" not in json.loads(line)


def test_texts_and_files_cannot_be_mixed(terminal, model, type_command):
    refused = terminal.refused("predict", model, TEXT, "--file", "good.txt")
    assert f"no file or folder {TEXT}; with --file all arguments are paths, not texts" in refused


# ---- Which files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def letters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.txt", "a.txt", "sub/c.txt", ".hidden.txt", ".git/d.txt", "e.md", "f.jsonl"):
        path = tmp_path / "letters" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"text": f"{path.stem} of JSON", "id": 7}) if name == "f.jsonl" else path.stem)


def files_and_texts(out: str) -> list[tuple[str, str]]:
    return [(row["file"], row["text"]) for row in map(json.loads, out.splitlines())]


def test_a_pattern_that_the_shell_has_expanded(terminal, model, letters):
    paths = [f"letters/{name}.txt" for name in "ab"] + ["letters/e.md"]
    answer = terminal("predict", model, "--file", *paths)
    assert files_and_texts(answer.out) == list(zip(paths, "abe"))


@pytest.mark.parametrize("command", ["predict", "rank", "suggest"])
def test_a_folder_is_its_texts_and_records(terminal, model, letters, command):
    answer = terminal(command, model, *(["--file"] if command == "predict" else []), "letters")
    expected = [(f"letters/{name}.txt", name[-1]) for name in ("a", "b", "sub/c")] + [("letters/f.jsonl", "f of JSON")]
    assert sorted(files_and_texts(answer.out)) == sorted(expected)
    assert [row["id"] for row in map(json.loads, answer.out.splitlines()) if row["file"].endswith("l")] == [7]


def test_a_folder_without_texts(terminal, model, letters):
    assert "letters/.git must hold" not in terminal("predict", model, "--file", "letters/.git").err
    Path("other").mkdir()
    Path("other/e.md").write_text("e")
    assert "other must hold .txt or .jsonl files, got none" in terminal.refused("predict", model, "--file", "other")


def test_a_named_pipe_is_read(terminal, model, tmp_path):
    """As a shell makes of `<(command)`."""
    read, write = os.pipe()
    os.write(write, TEXT.encode())
    os.close(write)
    (line,) = terminal("predict", model, "--file", f"/dev/fd/{read}").out.splitlines()
    assert json.loads(line)["text"] == TEXT


def test_a_dash_is_standard_input(terminal, model):
    for line in (("predict", model, "-"), ("predict", model, "--file", "-"), ("rank", model, "-")):
        (row,) = terminal(*line, stdin=TEXT.encode()).out.splitlines()
        assert json.loads(row)["text"] == TEXT


# ---- Tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [("predict", "--file"), ("rank",), ("suggest",)])
@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "ROWS.CSV"])
def test_a_table_is_its_column_of_texts_without_its_header(terminal, model, tmp_path, monkeypatch, command, name):
    monkeypatch.chdir(tmp_path)
    sign = "," if name.lower().endswith("csv") else "\t"
    Path(name).write_text(f'\ufeffid{sign}text\n7{sign}"Ada{sign}\nRome"\n8{sign}Chen\n', encoding="utf-8")
    (first, *options) = command
    answer = terminal(first, model, *options, name)
    assert answer.code == 0, answer.err
    rows = sorted(map(json.loads, answer.out.splitlines()), key=lambda row: row["id"])
    assert [(row["id"], row["text"], row["file"]) for row in rows] == [
        ("7", f"Ada{sign}\nRome", name),
        ("8", "Chen", name),
    ]


def test_the_text_may_be_in_another_column(terminal, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("body,note\nAda,x\n")
    Path("b.jsonl").write_text(json.dumps({"body": "Rome", "text": "old"}))
    refused = terminal.refused("predict", model, "--file", "a.csv")
    assert "a.csv must have a column text, or --text-column be given, got body, note" in refused
    out = terminal("predict", model, "--text-column", "body", "--file", "a.csv", "b.jsonl").out
    assert files_and_texts(out) == [("a.csv", "Ada"), ("b.jsonl", "Rome")]
    refused = terminal.refused("suggest", model, "b.jsonl", "--text-column", "nothing")
    assert "b.jsonl line 1: must be a JSON object with a nothing" in refused


# ---- Limits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "form", "options", "place"),
    [
        ("a.txt", "b\n{}\n", [], " line 2"),
        ("a.txt", "b\n{}\n", ["--whole"], ""),
        ("a.jsonl", '{{"text": "b"}}\n{{"text": "{}"}}\n', [], " line 2"),
        ("a.csv", "text,id\nb,1\n{},2\n", [], " row 3"),
    ],
)
def test_a_text_beyond_the_limit_is_refused_with_its_place(
    terminal, model, tmp_path, monkeypatch, name, form, options, place
):
    monkeypatch.chdir(tmp_path)
    for length, is_refused in ((1_000_000 - 3, False), (1_000_001, True)):
        Path(name).write_text(form.format(" " * length if not is_refused else "a" * length))
        answer = terminal("predict", model, "--file", name, *options)
        assert answer.code == is_refused, answer.err
        if is_refused:
            assert f"error: {name}{place}: " in answer.err
            assert "must have at most 1,000,000 characters, got" in answer.err


# ---- The file's name in the output -----------------------------------------------------------------------------------


def test_columns_have_the_file_as_a_document_that_is_read_back(terminal, model, letters):
    from spansieve.data.formats import read_examples

    paths = ["letters/a.txt", "letters/b.txt"]
    out = terminal("predict", model, "--as", "conll", "--file", *paths).out
    assert out.startswith("# newdoc id = letters/a.txt\na ")
    Path("out.conll").write_text(out)
    assert [(e.document, e.tokens) for e in read_examples("out.conll")] == list(zip(paths, [("a",), ("b",)]))
    with_constraints = terminal("predict", model, "--as", "conll", "--forbid", "Ada", "--file", *paths).out
    assert [line for line in with_constraints.splitlines() if line.startswith("#")] == [
        f"# newdoc id = {path}" for path in paths
    ]


def test_highlighted_text_stands_below_its_file(terminal, model, letters):
    out = terminal("predict", model, "--as", "text", "--file", "letters/a.txt", "letters/b.txt", "letters/b.txt").out
    assert [line.split(" ")[0] for line in out.splitlines()] == ["letters/a.txt:", "a", "letters/b.txt:", "b", "b"]


def test_a_record_keeps_the_file_that_it_has(terminal, model, letters):
    assert terminal("rank", model, "letters", "--as", "jsonl", "-o", "ranked.jsonl").code == 0
    suggested = terminal("suggest", model, "ranked.jsonl", "--as", "jsonl").out
    assert files_and_texts(suggested) == files_and_texts(Path("ranked.jsonl").read_text())
    assert "ranked.jsonl" not in suggested


def test_entities_of_a_record_are_constraints_only_where_they_are_fixed(terminal, model, tmp_path):
    file = tmp_path / "known.jsonl"
    file.write_text(json.dumps({"text": TEXT, "entities": [{"start": 17, "end": 21, "label": "PER"}], "id": 3}))
    free, fixed = (json.loads(terminal("predict", model, option, file, "--forbid", "LOC>PER").out)
                   for option in ("--file", "--require"))  # fmt: skip
    assert ("York", "PER") not in [(e["text"], e["label"]) for e in free["entities"]]
    assert ("York", "PER") in [(e["text"], e["label"]) for e in fixed["entities"]]
    assert free["id"] == fixed["id"] == 3
