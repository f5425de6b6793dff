"""`spansieve predict` as a person types it."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import weakref

import pytest
import torch

from spansieve import Entity
from spansieve.cli.outputs import highlighted
from spansieve.data.formats import read_examples
from spansieve.prediction.text_predictor import TEXTS_AT_ONCE

TEXT = "Ada lives in New York ."
FOUND = [("Ada", "PER"), ("New York", "LOC")]


def entities(line: str) -> list[tuple[str, str]]:
    record = json.loads(line)
    for entity in record["entities"]:
        assert record["text"][entity["start"] : entity["end"]] == entity["text"]
        assert 0 < entity["probability"] <= 1
    return [(entity["text"], entity["label"]) for entity in record["entities"]]


def test_texts_become_json_lines_where_there_is_no_terminal(terminal, model):
    answer = terminal("predict", model, TEXT, "Chen works in Rome .")
    assert answer.code == 0, answer.err
    assert [entities(line) for line in answer.out.splitlines()] == [FOUND, [("Chen", "PER"), ("Rome", "LOC")]]


def test_standard_input_line_by_line_and_whole(terminal, model):
    text = f"{TEXT}\r\n\nChen works in Rome .".encode()
    lines = terminal("predict", model, stdin=text).out.splitlines()
    assert [json.loads(line)["text"] for line in lines] == [TEXT, "", "Chen works in Rome ."]
    assert entities(lines[1]) == []
    (whole,) = terminal("predict", model, "--file", "-", "--whole", stdin=text).out.splitlines()
    assert json.loads(whole)["text"] == text.decode()  # offsets are those of the file
    assert entities(whole) == [*FOUND, ("Chen", "PER"), ("Rome", "LOC")]


def test_files(terminal, model, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())  # with a byte order mark
    (tmp_path / "b.txt").write_text("Chen\nRome\n")
    answer = terminal("predict", model, "-f", tmp_path / "a.txt", "-f", tmp_path / "b.txt")
    rows = [json.loads(line) for line in answer.out.splitlines()]
    assert [row["text"] for row in rows] == [TEXT, "Chen", "Rome"]
    assert [row["file"] for row in rows] == [str(tmp_path / name) for name in ("a.txt", "b.txt", "b.txt")]
    assert entities(answer.out.splitlines()[0]) == FOUND


def test_conll(terminal, model):
    answer = terminal("predict", model, TEXT, "Rome .", "--as", "conll")
    assert answer.out.startswith("Ada B-PER\nlives O\nin O\nNew B-LOC\nYork I-LOC\n. O\n\nRome ")


@pytest.mark.parametrize(("name", "separator"), [("out.csv", ","), ("out.tsv", "\t")])
def test_a_table_has_a_row_per_entity_and_is_read_back(terminal, model, tmp_path, name, separator):
    rows = [{"text": TEXT, "id": "x"}, {"text": "word\n, \t", "id": "y"}, {"text": "Chen works in Rome .", "other": 1}]
    (tmp_path / "in.jsonl").write_text("\n".join(map(json.dumps, rows)))
    answer = terminal("predict", model, "--file", tmp_path / "in.jsonl", "-o", tmp_path / name)
    assert (answer.code, answer.out) == (0, "")
    assert "not in the table, since it has the columns of the first text: other; --as jsonl" in answer.err
    with (tmp_path / name).open(newline="") as file:
        table = list(csv.DictReader(file, delimiter=separator))
    assert list(table[0]) == ["doc", "text", "id", "file", "start", "end", "label", "entity", "probability"]
    found = [(row["doc"], row["id"], row["entity"], row["label"]) for row in table]
    last = [("2", "", "Chen", "PER"), ("2", "", "Rome", "LOC")]
    assert found == [("0", "x", "Ada", "PER"), ("0", "x", "New York", "LOC"), ("1", "y", "", ""), *last]
    for row in table:
        assert row["text"][int(row["start"] or 0) : int(row["end"] or 0)] == row["entity"]
    again = [(e.words(s), s.label) for e in read_examples(tmp_path / name) for s in e.segments]
    assert again == [*FOUND, ("Chen", "PER"), ("Rome", "LOC")]
    on_screen = terminal("predict", model, "--file", tmp_path / "in.jsonl", "--as", name[-3:]).out
    assert on_screen == (tmp_path / name).read_text()


def test_the_suffix_of_the_output_decides(terminal, model, tmp_path):
    for name, form in (("a.jsonl", "jsonl"), ("a.conll", "conll"), ("a.txt", "text"), ("a", "jsonl")):
        assert terminal("predict", model, TEXT, "-o", tmp_path / name).code == 0
        assert (tmp_path / name).read_text() == terminal("predict", model, TEXT, "--as", form).out
    terminal("predict", model, TEXT, "-o", tmp_path / "b.csv", "--as", "conll")
    assert (tmp_path / "b.csv").read_text().startswith("Ada B-PER\n")
    for name in ("a.xlsx", "a.csv.gz"):
        refused = terminal.refused("predict", "no model is loaded", TEXT, "-o", tmp_path / name)
        assert "must end in .jsonl, .ndjson, .json, .csv, .tsv, .conll, .txt, or --as be given, got" in refused
        assert not (tmp_path / name).exists()


def test_an_annotation_of_the_text_is_not_taken_for_the_prediction(terminal, model, tmp_path):
    record = {"text": TEXT, "tokens": TEXT.split(), "label": [[0, 5, "OLD"]], "id": 7}
    (tmp_path / "in.jsonl").write_text(json.dumps(record))
    assert terminal("predict", model, "--file", tmp_path / "in.jsonl", "-o", tmp_path / "out.jsonl").code == 0
    (example,) = read_examples(tmp_path / "out.jsonl")
    assert [(example.words(segment), segment.label) for segment in example.segments] == FOUND


def test_highlighted_text(terminal, model):
    answer = terminal("predict", model, TEXT, "--as", "text")
    assert answer.code == 0, answer.err
    assert re.fullmatch(r"Ada \[PER [01]\.\d\d\] lives in New York \[LOC [01]\.\d\d\] \.\n", answer.out)


def test_brackets_in_a_text_are_no_markup():
    shown = highlighted("[/] [bold] Ada", [Entity(11, 14, "[x]", "Ada", None)], ("[x]",))
    assert shown.plain == "[/] [bold] Ada [[x]]"


@pytest.mark.parametrize("kind", ["jsonl", "conll", "text"])
def test_an_output_file(terminal, model, tmp_path, kind):
    shown = terminal("predict", model, TEXT, "--as", kind).out
    answer = terminal("predict", model, TEXT, "--as", kind, "--output", tmp_path / "out")
    assert answer == (0, "", "")
    assert (tmp_path / "out").read_text() == shown


def test_a_text_may_be_called_like_an_option(terminal, model):
    answer = terminal("predict", model, "--", "--debug", "--help")
    assert [json.loads(line)["text"] for line in answer.out.splitlines()] == ["--debug", "--help"]


def test_odd_texts(terminal, model):
    texts = ["", " ", "\t", "\u200b", "مرحبا", "👩‍👩‍👧 Ada", "a" * 10_000]
    answer = terminal("predict", model, *texts)
    assert answer.code == 0, answer.err
    assert [json.loads(line)["text"] for line in answer.out.splitlines()] == texts


def test_a_stream_is_not_held(terminal, model, monkeypatch):
    """Of 5,000 texts those that are being read are in memory, and no more."""

    class Word(str):  # unlike a plain string it can be referred to weakly
        pass

    references, held = [], []

    def records(*_):
        for _ in range(5_000):
            word = Word("word")
            references.append(weakref.ref(word))
            yield {"text": word}
        held.append(sum(reference() is not None for reference in references))

    monkeypatch.setattr("spansieve.cli.predict.records_of_arguments", records)
    answer = terminal("predict", model, "--as", "jsonl")
    assert answer.out.count("\n") == 5_000
    assert held[0] < 3 * TEXTS_AT_ONCE


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_in_a_pipe(model):
    """The reader goes away after one line: no traceback."""
    one_thread = os.environ | {"OMP_NUM_THREADS": "1"}
    command = f"yes Ada | head -3000 | {sys.executable} -m spansieve predict {model} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=120, env=one_thread)
    assert json.loads(done.stdout)["text"] == "Ada"
    assert done.stderr == ""


def test_one_segmentation_for_a_whole_text(terminal, model):
    text = f"{TEXT}\n\nChen works in Rome ."
    cut, whole = (terminal("predict", model, text, "--as", "conll", *more).out for more in ([], ["--no-sentences"]))
    assert cut.count("\n\n") == 2
    assert whole.count("\n\n") == 1
    assert entities(terminal("predict", model, text, "--no-sentences").out)[:2] == FOUND


def test_only_what_is_probable_enough(terminal, model):
    (line,) = terminal("predict", model, TEXT).out.splitlines()
    shares = sorted(entity["probability"] for entity in json.loads(line)["entities"])
    (above,) = terminal("predict", model, TEXT, "--threshold", repr(shares[-1])).out.splitlines()
    assert [entity["probability"] for entity in json.loads(above)["entities"]] == [s for s in shares if s == shares[-1]]
    assert terminal("predict", model, TEXT, "--threshold", "1.5").code == 2
    strict = ("--set", "probability=with-filter", "--threshold", "1", "--as", "conll")
    assert "B-" not in terminal("predict", model, TEXT, *strict).out


def test_constraints_for_every_text(terminal, model):
    def found(*options: str) -> list[tuple[str, str]]:
        answer = terminal("predict", model, TEXT, *options)
        assert answer.code == 0, answer.err
        return entities(answer.out)

    assert found("--require", "lives in=LOC") == [("Ada", "PER"), ("lives in", "LOC"), ("New York", "LOC")]
    assert ("New York", "LOC") not in found("--forbid", "New York")
    assert ("New York", "LOC") not in found("--forbid", "New York=LOC")
    assert found("--forbid", "New York=PER") == FOUND
    assert found("--forbid", "PER>LOC") != FOUND
    assert found("--forbid", "LOC > PER") == FOUND
    assert found("--set", "probability=with-filter", "--threshold", "LOC=1") == FOUND[:1]


def test_the_largest_expected_f1(terminal, model, tmp_path):
    """With a cutoff of nearly 1 nothing is left of what the filter is not sure of; `evaluate` scores the same."""
    unsure = ("--set", "probability=with-filter", "--set")
    assert entities(terminal("predict", model, TEXT, *unsure, "objective=f1").out) == FOUND
    assert entities(terminal("predict", model, TEXT, *unsure, "objective=f1=0.9999999").out) == []
    (tmp_path / "test.conll").write_text("Ada B-PER\nlives O\nin O\nNew B-LOC\nYork I-LOC\n. O\n")
    figures = tmp_path / "figures.json"
    for objective, f1 in (("objective=f1", 1.0), ("objective=f1=0.9999999", 0.0)):
        answer = terminal("evaluate", model, tmp_path / "test.conll", *unsure, objective, "--json", figures)
        assert answer.code == 0, answer.err
        assert json.loads(figures.read_text())["scores"]["micro"]["f1"] == f1
    error = terminal.refused("predict", model, TEXT, "--set", "objective=mbr")
    assert "objective must be probability, f1 or f1=CUTOFF with a cutoff from 0.01 to 1" in error


def test_what_is_known_of_each_text(terminal, model, tmp_path):
    file = tmp_path / "known.jsonl"
    known = [
        {"text": TEXT, "entities": [{"start": 17, "end": 21, "label": "PER"}], "forbidden": [[0, 3]]},
        {"text": TEXT, "complete": [[4, 21]], "entities": []},
    ]
    file.write_text("\n".join(map(json.dumps, known)), encoding="utf-8")
    answer = terminal("predict", model, "--require", file)
    assert answer.code == 0, answer.err
    first, second = (entities(line) for line in answer.out.splitlines())
    assert ("York", "PER") in first
    assert "Ada" not in dict(first)
    assert second == FOUND[:1]
    both = terminal("predict", model, TEXT, "--require", file, "--forbid", "Ada").out.splitlines()
    assert [dict(entities(line)).get("Ada") for line in both] == [None] * 3


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (("--require", "Ada"), "no file or folder Ada; --require takes 'Acme Inc.=ORG', or texts as JSON lines", 1),
        (("--forbid", "PER>LCO"), "unknown label 'LCO'", 1),
        (("--threshold", "LOC=high"), "--threshold must be a number from 0 to 1, or LABEL=0.8, got 'LOC=high'", 2),
        (("--threshold", "GPE=0.5"), "unknown label 'GPE' in constraints; the model knows LOC, PER", 1),
        (("--require", "Ada=GPE"), "unknown label 'GPE' in constraints; the model knows LOC, PER", 1),
        (("--forbid", " "), "a phrase must hold a token, got ' '", 1),
    ],
)
def test_constraints_that_cannot_be(terminal, model, options, message, code):
    answer = terminal("predict", model, TEXT, *options)
    assert answer.code == code
    assert message in " ".join(re.sub(r"[│╭╮╰╯─]", " ", answer.err).split())


def test_lines_that_say_nothing_of_their_text(terminal, model, tmp_path):
    file = tmp_path / "known.jsonl"
    for wrong in ({"entities": [3]}, {"entities": [{"start": 1}]}, {"complete": [[2, 2]]}):
        file.write_text(json.dumps({"text": TEXT} | wrong), encoding="utf-8")
        answer = terminal("predict", model, "--require", file)
        assert answer.code == 1
        assert "must be lists of start, end and label, in characters" in answer.err


def test_bytes_that_are_no_text(terminal, model):
    """What a shell hands over need not be UTF-8; JSON says it by its number."""
    answer = terminal("predict", model, "Ada \udcff", "\ud83d")
    assert answer.code == 0, answer.err
    assert [json.loads(line)["text"] for line in answer.out.splitlines()] == ["Ada \udcff", "\ud83d"]


# ---- Nonsense --------------------------------------------------------------------------------------------------------


def test_nonsense_is_one_line(terminal, model, tmp_path):
    assert "standard input must be UTF-8 text" in terminal.refused("predict", model, stdin=b"\xff")
    assert "a model must be a folder" in terminal.refused("predict", tmp_path, TEXT)
    assert "a model must be a folder" in terminal.refused("predict", tmp_path / "nowhere", TEXT)
    assert "No such file" in terminal.refused("predict", model, TEXT, "-o", tmp_path / "nowhere" / "out")


@pytest.mark.skipif(torch.cuda.is_available(), reason="here it can be used")
def test_a_gpu_that_is_not_there_is_told(terminal, model):
    wanted = "error: device must be cpu or one that can be used here, got 'cuda': "
    assert terminal.refused("predict", model, TEXT, "--device", "cuda").startswith(wanted)
    assert "got 'abacus'" in terminal.refused("predict", model, TEXT, "--device", "abacus")


def test_an_unknown_output_is_a_usage_error(terminal, model):
    answer = terminal("predict", model, TEXT, "--as", "abacus")
    assert answer.code == 2
    assert "abacus" in answer.err
