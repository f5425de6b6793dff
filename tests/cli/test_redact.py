"""`spansieve redact`, as it is typed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.training import runs

EXAMPLE = next(example for example in runs.TRAIN if example.segments)
TEXT = " ".join(EXAMPLE.tokens)
NAMES = [" ".join(EXAMPLE.tokens[s.start : s.end]) for s in EXAMPLE.segments]


def redacted_text() -> str:
    tokens = list(EXAMPLE.tokens)
    for segment in sorted(EXAMPLE.segments, reverse=True):
        tokens[segment.start : segment.end] = [f"[{segment.label}]"]
    return " ".join(tokens)


@pytest.fixture
def typed(model):
    """The command in a process of its own: bytes in, bytes out."""

    def run(*arguments, stdin=b"", **options):
        command = [sys.executable, "-m", "spansieve", "redact", str(model), *map(str, arguments)]
        return subprocess.run(command, input=stdin, capture_output=True, timeout=120, **options)

    return run


def test_standard_input_to_standard_output(typed, tmp_path):
    content = f"{TEXT}\r\n\n\t {TEXT}"
    report = tmp_path / "report.jsonl"
    done = typed("--report", report, stdin=content.encode())
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode()
    assert out == f"{redacted_text()}\r\n\n\t {redacted_text()}"
    rows = [json.loads(line) for line in report.read_text().splitlines()]
    lines, new_lines = content.split("\n"), out.split("\n")
    assert [lines[row["line"] - 1][row["start"] : row["end"]] for row in rows] == NAMES * 2
    assert all(
        new_lines[row["line"] - 1][row["redacted_start"] : row["redacted_end"]] == f"[{row['label']}]" for row in rows
    )
    assert b"without a guarantee" in done.stderr
    for name in NAMES:  # nowhere but in the input
        assert name.encode() not in done.stderr + report.read_bytes()


def test_files_and_folders(terminal, model, tmp_path):
    (tmp_path / "in" / "below").mkdir(parents=True)
    (tmp_path / "in" / "a.txt").write_bytes(f"{TEXT}\n".encode())
    (tmp_path / "in" / "below" / "b.jsonl").write_bytes(json.dumps({"id": 7, "text": TEXT}).encode() + b"\r\n")
    answer = terminal("redact", model, tmp_path / "in", "--output", tmp_path / "out")
    assert answer.code == 0, answer
    assert (tmp_path / "out" / "a.txt").read_text() == f"{redacted_text()}\n"
    assert (tmp_path / "out" / "below" / "b.jsonl").read_bytes().endswith(b"}\r\n")
    assert json.loads((tmp_path / "out" / "below" / "b.jsonl").read_text()) == {"id": 7, "text": redacted_text()}
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == ["a.txt"] * 2 + ["b.jsonl"] * 2


def test_columns_of_a_table_with_one_label_masked(terminal, model, tmp_path):
    label = EXAMPLE.segments[0].label
    table = tmp_path / "mails.csv"
    table.write_bytes(f'id,body\r\n1,"{TEXT}"\r\n2,""\r\n'.encode())
    answer = terminal("redact", model, table, "--field", "body", "--label", label, "--as", "mask", "-o", table)
    assert answer.code == 0, answer
    body = TEXT
    for segment, name in zip(EXAMPLE.segments, NAMES):
        body = body.replace(name, "*" * len(name)) if segment.label == label else body
    assert table.read_bytes().decode() == f'id,body\r\n1,"{body}"\r\n2,""\r\n'


def test_what_cannot_be_is_an_error_and_nothing_is_written(terminal, model, tmp_path):
    (tmp_path / "bad.jsonl").write_text(f'{{"text": "{TEXT}"}}\n{{"body": "{TEXT}"}}\n')
    error = terminal.refused("redact", model, tmp_path / "bad.jsonl", "-o", tmp_path / "out.jsonl")
    assert "bad.jsonl line 2: must have a field text" in error
    assert NAMES[0] not in error
    for arguments, message in (
        (("--miss", "0.01"), "guarantee"),
        (("--threshold", "0"), "--threshold must be above 0"),
        (("--label", "XYZ"), "--label must be one of"),
        (("--field", "body"), "must have a field body"),
    ):
        answer = terminal("redact", model, tmp_path / "bad.jsonl", "-o", tmp_path / "out.jsonl", *arguments)
        assert answer.code in (1, 2)
        assert message in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["bad.jsonl"]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="processes are killed otherwise here")
def test_killed_in_the_middle_what_was_written_is_a_prefix(typed, model, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"".join(f"{i} {TEXT}\n".encode() for i in range(2_000)))
    whole = typed(stdin=(tmp_path / "in.txt").read_bytes()).stdout
    command = [sys.executable, "-m", "spansieve", "redact", str(model)]
    with (tmp_path / "in.txt").open("rb") as stdin, (tmp_path / "out.txt").open("wb") as out:
        process = subprocess.Popen(command, stdin=stdin, stdout=out, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 100
        while not os.path.getsize(tmp_path / "out.txt"):
            assert time.monotonic() < until
            time.sleep(0.01)
        process.kill()
        process.wait()
    written = (tmp_path / "out.txt").read_bytes()
    assert len(written) > 0
    assert whole.startswith(written)


@pytest.mark.slow
def test_a_long_stream_takes_no_more_memory_than_a_short_one(model, tmp_path):
    resource = pytest.importorskip("resource")
    program = (
        "import sys, resource, subprocess\n"
        "subprocess.run([sys.executable, '-m', 'spansieve', 'redact', sys.argv[1], sys.argv[2], '-o', sys.argv[3]],"
        " check=True, stderr=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    peaks = []
    for megabytes in (5, 50):
        (tmp_path / "in.txt").write_bytes(f"{TEXT}\n".encode() * (megabytes * 1_000_000 // (len(TEXT) + 1)))
        arguments = [sys.executable, "-c", program, model, tmp_path / "in.txt", tmp_path / "out.txt"]
        peaks.append(int(subprocess.run(list(map(str, arguments)), check=True, capture_output=True).stdout))
    assert resource
    assert peaks[1] < 1.1 * peaks[0]
