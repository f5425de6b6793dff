"""Damaged and hostile files: whatever is in one, the error names it and the line, and memory stays within bounds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest

from spansieve.data.example import MAX_TEXT, DataError, Example
from spansieve.data.formats import FORMATS, format_of, read_examples, write_examples
from spansieve.data.formats.files import MAX_LINE
from tests.hostile.bad_files import PAIRS, damaged_files, valid_files, write_case

# What is wrong with a file as a whole has no line; spaCy's and Hugging Face's are read by their libraries.
_OF_THE_FILE = (
    r"must be a whole gzip|got UTF-16|must have (the columns|a column)|must have a layer|must hold whole|DocBin"
)


def test_every_format_has_valid_files_that_are_read(tmp_path):
    for name, format, content in valid_files():
        assert read_examples(write_case(tmp_path, name, content), format), name
    assert {format for _, format, _ in valid_files()} == set(FORMATS)


def test_the_same_seed_damages_the_same():
    assert list(damaged_files(3, 50)) == list(damaged_files(3, 50)) != list(damaged_files(4, 50))


@pytest.mark.parametrize(
    ("seed", "count"), [(0, 400), *(pytest.param(seed, 2_000, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_damage_is_one_kind_of_error_that_names_file_and_line(seed, count):
    child = [sys.executable, "-m", "tests.hostile.read_files", str(seed), str(count)]
    done = subprocess.run(child, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2_000:]
    *outcomes, last = map(json.loads, done.stdout.splitlines())
    assert len(outcomes) == count
    assert {outcome["kind"] for outcome in outcomes} == {None, "DataError"}, [
        outcome for outcome in outcomes if outcome["kind"] not in (None, "DataError")
    ]
    for outcome in outcomes:
        if outcome["kind"]:
            assert "FOLDER/" in outcome["message"], outcome
            assert re.search(rf" (line|row|record|sentence) \d|{_OF_THE_FILE}", outcome["message"]), outcome
            assert len(outcome["message"]) < 1_000
    assert max(outcome["seconds"] for outcome in outcomes) < 20
    assert last["megabytes"] < 1_500


DEEP, DIGITS = "[" * 100_000, "9" * 5_000
ENTITY, POSITION = "an entity must have start, end and label", "a position must be a number of characters, got '"
UNORDERED = [{"text": "b", "start": 1, "end": 2}, {"text": "a", "start": 0, "end": 1}]
BAD = [
    ("a.jsonl", "jsonl", '{"tokens": []}\n{"tokens": ' + DEEP, "line 2: must be JSON, got one nested too deep"),
    ("a.jsonl", "jsonl", '{"text": "a", "id": ' + DIGITS + "}", "line 1: must be JSON, got a number of too many"),
    ("a.json", "jsonl", '[{"tokens": []},\n{"tokens": ' + DEEP, "line 2, .*: must be JSON, got one nested too deep"),
    ("a.json", "jsonl", '[{"tokens": []},\n{"id": ' + DIGITS, "line 2, .*: must be JSON, got a number of too many"),
    ("a.json", "jsonl", '[{"tokens": []}\n{"tokens": []}]', "line 2: must be JSON, got Expecting ',' delimiter"),
    ("a.json", "jsonl", '[{"tokens": []},\n]', "line 2: must be JSON, got Expecting value at column 1"),
    ("a.json", "jsonl", '[{"tokens": []}]\n\nx', "line 3: must be JSON, got Extra data at column 1"),
    ("a.json", "jsonl", "[ ]\n[", "line 2: must be JSON, got Extra data"),
    ("a.json", "jsonl", '[{"tokens": []}', "line 1: must be JSON, got Expecting ',' delimiter"),
    ("a.jsonl", "jsonl", '{"tokens": ["a"], "tags": 5}', "line 1: tags must be one string per token"),
    ("a.jsonl", "jsonl", '{"tokens": ["a"], "tags": null}', "line 1: tags must be one string per token"),
    ("a.jsonl", "jsonl", '{"tokens": ["a"], "text": "a", "offsets": [["0", "1"]]}', r"line 1: offsets must be \[start"),
    ("a.jsonl", "jsonl", '{"tokens": ["a"], "text": 5, "offsets": [[0, 1]]}', "line 1: offsets must be one per token"),
    ("a.jsonl", "jsonl", '{"tokens": ["a"], "text": "b", "offsets": [[0, 1]]}', r"line 1: offsets must be \[start"),
    ("a.jsonl", "jsonl", '{"text": "a", "entities": [[0, true, "A"]]}', f"line 1: {ENTITY}"),
    ("a.jsonl", "jsonl", '{"text": "a", "entities": [[0, NaN, "A"]]}', f"line 1: {ENTITY}"),
    ("a.jsonl", "jsonl", '{"text": "a", "entities": [[-1, 1, "A"]]}', "line 1: an entity must lie within the 1 char"),
    ("a.jsonl", "jsonl", '{"text": "a", "entities": {"start": 0}}', "line 1: entities must be a list"),
    ("a.jsonl", "prodigy", json.dumps({"text": "ab", "tokens": UNORDERED}), "line 1: tokens must be in order, got 'a'"),
    ("a.json", "label-studio", '[{"annotations": 5}]', "record 1: annotations must be a list of objects"),
    ("a.csv", "csv", f"text,start,end,label\na,0,{DIGITS},A\n", "row 2: end must be a number of characters, got '999"),
    ("a.csv", "csv", "text,start,end,label\na,0,٣,A\n", "row 2: end must be a number of characters, got '٣'"),
    ("a.csv", "csv", f'text,label\na,"{DEEP}"\n', "row 2: label must be Label Studio's JSON"),
    ("a.txt", "pubtator", f"1|t|a\n1\t0\t{DIGITS}\ta\tA\n", f"line 2: {POSITION}999"),
    ("a.txt", "pubtator", "1|t|a\n1\t0\t²\ta\tA\n", f"line 2: {POSITION}²'"),
    ("a.iob", "iob-lines", "Ada|B-PER\nBob|PER\n", ".* got 'B-PER' and 'PER' up to sentence 2;"),
    ("d.ann", "brat", f"T1\tPER 0 {DIGITS}\tAda\n", f"line 1: {POSITION}999"),
    ("d.ann", "brat", "T1\tPER 0 3\tAda\nT2\tPER 5 3\tAda\n", "line 2: an entity must lie within .*, got 5 to 3"),
    ("d.apf.xml", "ace", "<a>\n&x;</a>", "line 2: must (be XML|use no entities)"),
    ("d.apf.xml", "ace", '<!DOCTYPE a SYSTEM "x.dtd">\n<a>&x;</a>', "line 2: must use no entities of its own, got 'x'"),
    ("d.apf.xml", "ace", '<?xml version="1.0" encoding="none"?><a/>', "line 1: must be XML, got unknown encoding"),
]  # fmt: skip
_ENTITY = '<document>\n<entity TYPE="PER"><entity_mention ID="M1" TYPE="NAM"><head><charseq {}>Ada</charseq></head>'
_ENTITY += "</entity_mention></entity></document>"
_LAUGHS = '<!DOCTYPE a [\n<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">]><a>&b;</a>'
BAD += [
    ("d.apf.xml", "ace", _ENTITY.format(positions), f"line 2: {POSITION}{got}")
    for positions, got in (
        ('START="x" END="3"', "x"), ('END="3"', ""), ('START="-4" END="2"', "-4"), (f'START="0" END="{DIGITS}"', "999"),
        ('START="0.0" END="2"', "0.0"),
    )
]  # fmt: skip
BAD += [("d.apf.xml", "ace", _LAUGHS, "line 2: must use no entities of its own, got 'a'")]


@pytest.mark.parametrize(("name", "format", "content", "message"), BAD, ids=[row[1] for row in BAD])
def test_what_is_wrong_is_told_with_its_place(tmp_path, name, format, content, message):
    path = write_case(tmp_path, name, content.encode())
    with pytest.raises(DataError, match=rf"{re.escape(str(path))}:? ?{message}"):
        read_examples(path, format)
    if format == format_of(path):
        with pytest.raises(DataError, match=message):
            read_examples(path)


# ---- Memory and time -------------------------------------------------------------------------------------------------

_READ = """
import resource, sys
from spansieve.data.formats import read_examples
resource.setrlimit(resource.RLIMIT_AS, (1_500 << 20, 1_500 << 20))
try:
    print(len(read_examples(sys.argv[1], sys.argv[2])))
except ValueError as error:
    print(type(error).__name__, error)
"""
LONG = "中," * 25_000_000  # a hundred million bytes, of which each character is a token
LONG_FILES = [
    ("a.jsonl", "jsonl", '{{"text": "{}"}}'),
    ("b.jsonl", "doccano", '{{"text": "{}", "label": []}}'),
    ("a.json", "label-studio", '[{{"data": {{"text": "{}"}}, "annotations": [{{}}]}}]'),
    ("a.csv", "csv", 'text,start,end,label\n"{}",,,\n'),
    ("a.txt", "pubtator", "1|t|{}\n"),
    ("d.txt", "brat", "{}"),
    ("d.sgm", "ace", "<DOC><TEXT>{}</TEXT></DOC>"),
    ("a.tsv", "webanno", "#FORMAT=WebAnno TSV 3.2\n#T_SP=de.NamedEntity|value\n\n#Text={}\n1-1\t0-1\ta\tA\n"),
    ("a.iob", "iob-lines", "{}|O"),
    ("a.conll", "conll", "{} O\n"),
    ("a.gold_conll", "ontonotes", "#begin document (a); part 0\n{}\n"),
]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is bounded on Linux alone")
@pytest.mark.parametrize(
    ("name", "format", "form"),
    [pytest.param(*row, marks=[pytest.mark.slow] if row[1] != "jsonl" else []) for row in LONG_FILES],
    ids=[row[1] for row in LONG_FILES],
)
def test_a_line_of_fifty_million_characters_is_refused_within_bounds(tmp_path, name, format, form):
    """By a process that may have one and a half gigabytes, with all that it loads."""
    path = write_case(tmp_path, name, form.format(LONG).encode())
    done = subprocess.run([sys.executable, "-c", _READ, path, format], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr[-1_000:]
    assert re.search(rf"DataError {re.escape(str(path))}.* must have at most [\d,]+ characters, got 5\d,", done.stdout)


@pytest.mark.parametrize(("name", "format", "form"), LONG_FILES, ids=[row[1] for row in LONG_FILES])
def test_a_text_at_the_limit_is_read_and_one_beyond_it_is_refused(tmp_path, monkeypatch, name, format, form):
    monkeypatch.setattr("spansieve.data.example.MAX_TEXT", 5_000)
    monkeypatch.setattr("spansieve.data.formats.files.MAX_LINE", 8_000)
    for length in (6_000, 9_000):
        path = write_case(tmp_path, name, form.format("a" * length).encode())
        is_line = format in ("webanno", "conll", "ontonotes") and length == 6_000
        if is_line and format == "conll":
            assert read_examples(path, format)
        elif not is_line:
            with pytest.raises(DataError, match=r"must have at most [58],000 characters, got \d,\d\d\d"):
                read_examples(path, format)


def test_the_limits_leave_room_for_books():
    assert MAX_TEXT >= 1_000_000
    assert MAX_LINE >= 8 * MAX_TEXT


def test_the_format_of_a_line_of_bars_is_found_at_once(tmp_path):
    (tmp_path / "a.txt").write_text("a" + "|B-" * 300_000 + " x")
    begin = time.process_time()
    assert format_of(tmp_path / "a.txt") == "conll"
    assert time.process_time() - begin < 5


def test_many_tasks_of_one_text_are_read_in_time(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"text": "Ada", "spans": [], "answer": "accept"}\n' * 20_000)
    begin = time.process_time()
    assert len(read_examples(tmp_path / "a.jsonl", "prodigy", annotator="x")) == 0
    assert len(read_examples(tmp_path / "a.jsonl", "prodigy")) == 20_000
    assert time.process_time() - begin < 10


# ---- Half a character ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["jsonl", "jsonl-text", "doccano", "prodigy"])
def test_half_a_surrogate_pair_is_written_where_the_format_can(tmp_path, format):
    example = Example.of(["a\ud800", "b"], [(0, 1, "A")])
    write_examples([example], tmp_path / "a.jsonl", format)
    (read,) = read_examples(tmp_path / "a.jsonl", format)
    assert (read.text or " ".join(read.tokens)).startswith("a\ud800")


def test_and_refused_where_it_cannot(tmp_path):
    with pytest.raises(DataError, match=r"a\.conll line 1: must be written in UTF-8, got half a surrogate pair"):
        write_examples([Example.of(["a\ud800"])], tmp_path / "a.conll")
    assert not (tmp_path / "a.conll").exists()


def test_pairs_are_of_the_formats_of_two_files():
    assert set(PAIRS) == {"ace", "brat"}
