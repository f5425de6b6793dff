"""Bulk prediction in one process: every row comes out once, with all that it had, whatever happens in between."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spansieve.models.storage import save_model
from spansieve.prediction.bulk import job
from spansieve.prediction.bulk.blocks import Block, Columns, JsonRows, blocks_of, files_of
from spansieve.prediction.bulk.job import Job, run_bulk
from spansieve.prediction.bulk.ledger import BulkError, Ledger
from spansieve.prediction.predictor import Predictor
from tests.prediction.trained import trained

TEXTS = ["we went to Paris yesterday", "", "word. " * 9 + "in القاهرة today", "Ada  Lovelace lives in New\nYork ."]


@pytest.fixture(scope="module")
def model(predictor, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bulk") / "model"
    save_model(predictor.tagger, folder)
    return folder


def rows(number: int) -> list[dict]:
    return [{"id": i, "text": f"{TEXTS[i % len(TEXTS)]} {i}", "more": {"x": [i, None]}} for i in range(number)]


def write_jsonl(path: Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_parts(folder: Path) -> list[dict]:
    found = []
    for path in sorted(folder.glob("part-*")):
        if path.suffix == ".parquet":
            found += pq.read_table(path).to_pylist()
        else:
            found += [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return found


def check_rows(found: list[dict], given: list[dict], predictor: Predictor) -> None:
    """In the order of the input, each once, unchanged but for the new column, which is what the predictor finds."""
    assert [{name: row[name] for name in given[0]} for row in found] == given
    for row, expected in zip(found, predictor.predict([row["text"] for row in given])):
        got = row["entities"]
        assert [{**entity, "probability": 0} for entity in got] == [
            e._replace(probability=0)._asdict() for e in expected
        ]
        assert [e["probability"] for e in got] == pytest.approx([e.probability for e in expected], abs=1e-5)


@pytest.mark.parametrize("block_size", [20, 300, 1 << 20])
def test_json_lines(model, predictor, tmp_path, block_size):
    given = rows(20)
    write_jsonl(tmp_path / "in.jsonl", given)
    done = run_bulk(Job(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out"), block_size=block_size))
    found = read_parts(tmp_path / "out")
    check_rows(found, given, predictor)
    assert (done.rows, done.problems, done.skipped) == (20, (), 0)
    assert done.entities == sum(len(row["entities"]) for row in found) > 10
    assert done.parts == len(list((tmp_path / "out").glob("part-*")))


def test_parquet(model, predictor, tmp_path):
    given = rows(20)
    pq.write_table(pa.Table.from_pylist(given), tmp_path / "in.parquet", row_group_size=3)
    done = run_bulk(Job(model, str(tmp_path / "in.parquet"), str(tmp_path / "out"), block_size=1))
    assert (done.rows, done.parts) == (20, 7)
    check_rows(read_parts(tmp_path / "out"), given, predictor)
    schema = pq.read_schema(tmp_path / "out" / "part-000000.parquet")
    assert schema.names == ["id", "text", "more", "entities"]


def test_a_folder_of_all_kinds(model, predictor, tmp_path):
    given = rows(24)
    source = tmp_path / "in"
    (source / "deep").mkdir(parents=True)
    write_jsonl(source / "a.jsonl", given[:6])
    with gzip.open(source / "b.jsonl.gz", "wb") as file:
        file.write("\n\r\n".join(json.dumps(row) for row in given[6:12]).encode())  # blank lines, and none at the end
    pq.write_table(pa.Table.from_pylist(given[12:18]), source / "c.parquet")
    content = "".join(json.dumps(row) + "\r\n" for row in given[18:])
    (source / "deep" / "d.ndjson").write_bytes(b"\xef\xbb\xbf" + content.encode())
    (source / "_SUCCESS").write_text("")
    (source / ".hidden.jsonl").write_text("{}")
    (source / "notes.txt").write_text("not data")
    job = Job(model, str(source), str(source / "out"), block_size=200)  # the output lies within the input
    assert run_bulk(job).rows == 24
    check_rows(read_parts(source / "out"), given, predictor)
    assert run_bulk(job).skipped == run_bulk(job).parts


def test_an_object_store(model, predictor):
    """fsspec's own in memory stands for any that it knows."""
    store = fsspec.filesystem("memory")
    given = rows(10)
    store.pipe_file("/bucket/in/a.jsonl", "\n".join(map(json.dumps, given)).encode())
    job = Job(model, "memory://bucket/in", "memory://bucket/out", block_size=300)
    done = run_bulk(job)
    found = [
        json.loads(line) for path in sorted(store.glob("/bucket/out/part-*")) for line in store.cat(path).splitlines()
    ]
    check_rows(found, given, predictor)
    again = run_bulk(job)
    assert again.skipped == again.parts == done.parts > 1
    assert again.rows == done.rows == 10


def test_the_pipeline_writes_the_same(model, predictor, tmp_path):
    given = rows(12)
    write_jsonl(tmp_path / "in.jsonl", given)
    job = Job(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out"), block_size=300, precision="bf16")
    assert run_bulk(job).rows == 12
    found, expected = read_parts(tmp_path / "out"), predictor.predict([row["text"] for row in given])
    assert [row["id"] for row in found] == list(range(12))
    places = [[(e["start"], e["end"], e["label"]) for e in row["entities"]] for row in found]
    assert places == [[entity[:3] for entity in entities] for entities in expected]


def test_only_what_is_probable_enough(tmp_path):
    made = trained("semicrf", steps=15)  # not sure of much
    save_model(made.tagger, tmp_path / "model")
    write_jsonl(tmp_path / "in.jsonl", rows(12))
    job = Job(tmp_path / "model", str(tmp_path / "in.jsonl"), str(tmp_path / "all"))
    run_bulk(job)
    found = [row["entities"] for row in read_parts(tmp_path / "all")]
    shares = sorted(entity["probability"] for entities in found for entity in entities)
    threshold = (shares[0] + shares[-1]) / 2
    run_bulk(replace(job, output=str(tmp_path / "some"), threshold=threshold))
    some = [row["entities"] for row in read_parts(tmp_path / "some")]
    assert some == [[entity for entity in entities if entity["probability"] >= threshold] for entities in found]
    assert 0 < sum(map(len, some)) < len(shares)


# ---- Rows that are no rows -------------------------------------------------------------------------------------------

BAD = [
    (b'{"id": 1}', "must have a column 'text', got id; name another by text_column"),
    (b'{"id": 2, "text": null}', "column 'text' must be a string, got null"),
    (b'{"text": 7, "id": 12345678901234567890}', "column 'text' must be a string, got int"),
    (b'{"text": ["a"]}', "column 'text' must be a string, got list"),
    (b"{}", "must have a column 'text', got none; name another by text_column"),
    (b'{"text": "a", "entities": []}', "has a column 'entities' already: name the new one by entities_column"),
    (b"[1, 2]", "a row must be a JSON object, got list"),
    (b'{"text": "a"', "a row must be JSON, got Expecting ',' delimiter at column 13"),
    (b"\xff\xfe", "a row must be UTF-8, got byte 0xff at byte 1"),
    (bytes(9), "a row must be JSON, got Expecting value at column 1"),
    (b"[" * 100_000, "a row must be JSON, got one nested too deep"),
    (b'{"text": ' + b"9" * 5_000 + b"}", "Exceeds the limit"),
    (b'{"text": "' + b"a" * 1_000_001 + b'"}', "column 'text' must have at most 1,000,000 characters, got 1,000,001"),
]


@pytest.mark.parametrize(("line", "reason"), BAD, ids=[f"{reason[:20]}{i}" for i, (_, reason) in enumerate(BAD)])
def test_a_bad_line_is_named_and_left_out(model, tmp_path, line, reason):
    (tmp_path / "in.jsonl").write_bytes(b'{"text": "Paris", "error": 0}\n\n' + line + b'\n{"text": "Ada Lovelace"}\n')
    job = Job(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out"))
    done = run_bulk(job)
    assert (done.rows, done.left_out, done.unread) == (2, 1, 0)
    first, last = read_parts(tmp_path / "out")
    assert (first["text"], first["error"], last["text"]) == ("Paris", 0, "Ada Lovelace")
    assert first["entities"] is not None
    assert last["entities"] is not None
    (problem,) = done.problems
    assert (problem.file, problem.place) == (str(tmp_path / "in.jsonl"), "line 3")
    assert problem.reason.startswith(reason)
    assert listed(tmp_path / "out") == [problem._asdict()]
    again = run_bulk(job)
    assert (again.skipped, again.rows, again.problems) == (1, 2, done.problems)
    with pytest.raises(BulkError, match=r"in\.jsonl line 3: .*; without strict it is left out"):
        run_bulk(replace(job, strict=True))
    with pytest.raises(BulkError, match=r"in\.jsonl line 3: .*; without strict it is left out"):
        run_bulk(replace(job, strict=True, output=str(tmp_path / "strict")))
    assert not read_parts(tmp_path / "strict")


def listed(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "_spansieve" / "left_out.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("block_size", [30, 1 << 20])
def test_lines_are_counted_over_blocks(model, tmp_path, block_size):
    lines = [b'{"text": "Rome"}' if i % 3 else b"no row" * (i % 4) for i in range(40)]
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(lines))
    done = run_bulk(Job(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out"), block_size=block_size))
    bad = [number for number, line in enumerate(lines, start=1) if line and line[:1] != b"{"]
    assert [problem.place for problem in done.problems] == [f"line {number}" for number in bad]
    assert (done.rows, done.left_out) == (sum(line[:1] == b"{" for line in lines), len(bad))
    assert len(read_parts(tmp_path / "out")) == done.rows


def test_of_a_block_of_nothing_but_bad_rows_some_are_named_and_all_are_counted(model, tmp_path):
    (tmp_path / "in.jsonl").write_bytes(b"?\n" * 5_000)
    done = run_bulk(Job(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out")))
    assert (done.rows, done.left_out, len(done.problems)) == (0, 5_000, job.MAX_NAMED)


def test_bad_rows_of_parquet(model, tmp_path):
    broken = pa.array([b"a", b"b", b"c", b"\xff", b"e"]).view(pa.string())  # of no UTF-8
    table = pa.table({"text": pa.chunked_array([["Paris", None, "Rome", "Ada", "Chen"]]), "n": [1, 2, 3, 4, 5]})
    pq.write_table(table, tmp_path / "in.parquet", row_group_size=2)
    job = Job(model, str(tmp_path / "in.parquet"), str(tmp_path / "out"), block_size=1)
    done = run_bulk(job)
    assert [(problem.place, problem.reason) for problem in done.problems] == [
        ("row 2", "column 'text' must be a string, got null")
    ]
    assert [row["n"] for row in read_parts(tmp_path / "out")] == [1, 3, 4, 5]
    pq.write_table(table.set_column(0, "text", broken), tmp_path / "in.parquet", row_group_size=2)
    done = run_bulk(replace(job, output=str(tmp_path / "out2")))
    assert [problem.place for problem in done.problems] == ["row 4"]
    assert [row["n"] for row in read_parts(tmp_path / "out2")] == [1, 2, 3, 5]
    pq.write_table(pa.table({"text": [1, 2]}), tmp_path / "numbers.parquet")
    done = run_bulk(Job(model, str(tmp_path / "numbers.parquet"), str(tmp_path / "out3")))
    assert (done.rows, done.left_out) == (0, 2)


def test_a_line_stays_as_it_was_written():
    line = '{"text":"\\u0050aris \\ud800", "n": 1.10, "big": 123456789012345678901, "n": 2e400}'
    rows = JsonRows(line.encode(), Columns())
    (written,) = rows.written([[]]).decode().splitlines()
    assert written == line[:-1] + ', "entities": []}'


def test_columns_by_other_names(model, tmp_path):
    write_jsonl(tmp_path / "in.jsonl", [{"body": "we went to Paris", "entities": "mine", "error": 0}])
    columns = Columns(text="body", entities="found")
    run_bulk(Job(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out"), columns))
    (row,) = read_parts(tmp_path / "out")
    assert (row["entities"], row["error"]) == ("mine", 0)
    assert [entity["text"] for entity in row["found"]] == ["Paris"]


# ---- Interrupted -----------------------------------------------------------------------------------------------------


def interrupt(monkeypatch, job: Job, stop_after: int, tears: bool = False) -> list[int]:
    """Run a job until so many blocks are written, which are returned; of the next one it `tears` the part, which then
    has no marker."""
    commit, committed = Ledger.commit, []

    def interrupted(self, block, content, outcome):
        if len(committed) == stop_after:
            if tears:
                (Path(job.output) / block.part).write_bytes(content[: len(content) // 2])
            raise KeyboardInterrupt
        commit(self, block, content, outcome)
        committed.append(block.index)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "commit", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_bulk(job)
    return committed


@pytest.mark.parametrize("stop_after", [0, 1, 4])
def test_an_interrupted_job_goes_on(model, predictor, tmp_path, monkeypatch, stop_after):
    given = rows(20)
    write_jsonl(tmp_path / "in.jsonl", given)
    job = Job(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out"), block_size=300)
    committed = interrupt(monkeypatch, job, stop_after, tears=True)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    seen = []
    done = run_bulk(job, watch=lambda outcome, finished, total: seen.append((outcome.index, finished, total)))
    assert done.skipped == stop_after
    assert done.rows == 20
    assert [finished for _, finished, _ in seen] == list(range(stop_after + 1, done.parts + 1))
    assert not {index for index, _, _ in seen} & set(committed)
    for index in committed:
        path = tmp_path / "out" / f"part-{index:06d}.jsonl"
        assert path.stat().st_mtime_ns == before[path]
    check_rows(read_parts(tmp_path / "out"), given, predictor)
    assert not list((tmp_path / "out").glob(".part*"))


@pytest.mark.parametrize("damage", ["part", "marker", "cut"])
def test_what_was_damaged_is_done_again(model, predictor, tmp_path, damage):
    given = rows(8)
    write_jsonl(tmp_path / "in.jsonl", given)
    job = Job(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out"), block_size=300)
    parts = run_bulk(job).parts
    if damage == "part":
        (tmp_path / "out" / "part-000001.jsonl").unlink()
    elif damage == "cut":
        (tmp_path / "out" / "part-000001.jsonl").write_text("{")
    else:
        (tmp_path / "out" / "_spansieve" / "done" / "000001.json").write_text("{")
    assert run_bulk(job).skipped == parts - 1
    check_rows(read_parts(tmp_path / "out"), given, predictor)


def test_another_job_does_not_go_on_there(model, tmp_path):
    write_jsonl(tmp_path / "in.jsonl", rows(4))
    job = Job(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out"))
    run_bulk(job)
    with pytest.raises(BulkError, match="got one with another columns"):
        run_bulk(Job(job.model, job.source, job.output, Columns(text="body")))
    write_jsonl(tmp_path / "in.jsonl", rows(5))
    with pytest.raises(BulkError, match="got one with another files"):
        run_bulk(job)
    with pytest.raises(BulkError, match="got something else"):
        run_bulk(Job(model, str(tmp_path / "in.jsonl"), str(tmp_path)))


# ---- Damaged files ---------------------------------------------------------------------------------------------------


def packed(rows: list[dict]) -> bytes:
    return gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode())


def table(rows: list[dict]) -> bytes:
    pq.write_table(pa.Table.from_pylist(rows), buffer := io.BytesIO(), row_group_size=4)
    return buffer.getvalue()


def flipped(content: bytes, where: float) -> bytes:
    place = int(len(content) * where)
    return content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :]


DAMAGED = {
    "cut.jsonl.gz": (packed(rows(50))[:-20], "must be a whole gzip file"),
    "flipped.jsonl.gz": (flipped(packed(rows(50)), 0.5), "must be a whole gzip file"),
    "checksum.jsonl.gz": (flipped(packed(rows(50)), 0.99), "must be a whole gzip file"),
    "plain.jsonl.gz": (b'{"text": "Paris"}\n', "must be a whole gzip file"),
    "cut.parquet": (table(rows(20))[:-20], "Parquet magic bytes not found"),
    "footer.parquet": (flipped(table(rows(20)), 0.98), ""),
    "empty.parquet": (b"", "Parquet"),
    "other.parquet": (table([{"body": "Paris"}]), "must have a column 'text', got body; name another by text_column"),
    "taken.parquet": (table([{"text": "Paris", "entities": 1}]), "has a column 'entities' already"),
}


@pytest.fixture
def beside(tmp_path):
    """Two good files, with the damaged one between them."""

    def made(name: str, content: bytes) -> Path:
        source = tmp_path / "in"
        source.mkdir()
        (source / f"b.{name}").write_bytes(content)
        write_jsonl(source / "a.jsonl", rows(6))
        (source / "c.parquet").write_bytes(table(rows(6)))
        return source

    return made


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file_is_named_and_all_others_are_written(model, predictor, tmp_path, beside, name):
    content, reason = DAMAGED[name]
    job = Job(model, str(beside(name, content)), str(tmp_path / "out"))
    done = run_bulk(job)
    assert (done.rows, done.left_out, done.unread, done.parts) == (12, 0, 1, 2)
    (problem,) = done.problems
    assert problem.file == str(tmp_path / "in" / f"b.{name}")
    assert reason in problem.reason
    assert listed(tmp_path / "out") == [problem._asdict()]
    check_rows(read_parts(tmp_path / "out"), rows(6) * 2, predictor)
    again = run_bulk(job)  # it is tried once more
    assert (again.skipped, again.rows, again.problems) == (2, 12, done.problems)
    with pytest.raises(BulkError, match=rf"b\.{name}.*; without strict it is left out"):
        run_bulk(replace(job, output=str(tmp_path / "strict"), strict=True))
    check_rows(read_parts(tmp_path / "strict"), rows(6), predictor)  # those before it


def test_of_a_damaged_row_group_the_others_are_written(model, tmp_path):
    given = [{"text": f"{i} " + "Rome " * 50} for i in range(12)]
    content = bytearray(table(given))
    about = pq.ParquetFile(io.BytesIO(content)).metadata.row_group(1).column(0)
    first = about.dictionary_page_offset or about.data_page_offset
    content[first : first + 20] = bytes(20)
    (tmp_path / "in.parquet").write_bytes(content)
    done = run_bulk(Job(model, str(tmp_path / "in.parquet"), str(tmp_path / "out"), block_size=1))
    assert (done.rows, done.parts, done.unread) == (8, 2, 1)
    assert done.problems[0].place == "row groups 1-2"


def test_a_packed_file_that_unpacks_without_end(model, tmp_path, monkeypatch):
    monkeypatch.setattr("spansieve.data.formats.files.MAX_UNPACKED", 1 << 20)
    (tmp_path / "in.jsonl.gz").write_bytes(gzip.compress(bytes(1 << 21)))
    done = run_bulk(Job(model, str(tmp_path / "in.jsonl.gz"), str(tmp_path / "out")))
    assert "must hold at most 1,048,576 bytes where it is gzip" in done.problems[0].reason


@pytest.mark.parametrize("killed_after", [0, 1, 2, 3])
def test_counts_are_right_after_an_interruption(model, tmp_path, beside, monkeypatch, killed_after):
    source = beside("cut.jsonl.gz", DAMAGED["cut.jsonl.gz"][0])
    (source / "d.jsonl").write_text('?\n{"text": "Rome"}\n' * 10)
    job = Job(model, str(source), str(tmp_path / "out"), block_size=100)
    expected = run_bulk(replace(job, output=str(tmp_path / "whole")))
    assert (expected.left_out, expected.unread) == (10, 1)
    interrupt(monkeypatch, job, killed_after)
    done = run_bulk(job)
    assert replace(done, skipped=0) == expected
    assert read_parts(tmp_path / "out") == read_parts(tmp_path / "whole")
    assert listed(tmp_path / "out") == listed(tmp_path / "whole")


def test_a_full_disk_names_the_path(model, tmp_path, monkeypatch):
    write_jsonl(tmp_path / "in.jsonl", rows(20))
    job = Job(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out"), block_size=300)

    def full(descriptor: int) -> None:
        if list((tmp_path / "out").glob("part-*")):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(BulkError, match=r"out/\S+ cannot be written: No space left on device; the parts"):
            run_bulk(job)
    assert run_bulk(job).rows == 20


def test_a_line_without_end_takes_no_more_than_it_may(tmp_path, monkeypatch):
    """Each of the blocks within it is looked through once, and no further."""
    monkeypatch.setattr("spansieve.prediction.bulk.blocks.MAX_LINE", 100)
    monkeypatch.setattr("spansieve.prediction.bulk.blocks.MAX_LINE", 100)
    (tmp_path / "in.jsonl").write_bytes(b'{"text": "a"}\n' + b"x" * 10_000 + b'\n{"text": "b"}')
    blocks = blocks_of(files_of(str(tmp_path), str(tmp_path / "out")), 500)
    read = [block.read(Columns()) for block in blocks]
    assert [text for rows in read for text in rows.texts] == ["a", "b"]
    assert [rows.left_out for rows in read if rows.left_out] == [[(2, "a line must have at most 100 bytes, got more")]]
    assert sum(rows.num_read for rows in read) == 3


_READ = """
import sys
from spansieve.prediction.bulk.blocks import blocks_of, files_of
from spansieve.prediction.bulk.blocks import Columns
from tests.memory import peak_kilobytes
before = peak_kilobytes()
read = [block.read(Columns()) for block in blocks_of(files_of(sys.argv[1], "out"), 32 << 20)]
print(sum(len(rows.texts) for rows in read), sum(len(rows.left_out) for rows in read))
print((peak_kilobytes() - before) >> 10)
"""


@pytest.mark.slow
def test_a_line_of_half_a_gigabyte_takes_no_more_memory_than_a_block_and_a_line(tmp_path):
    with (tmp_path / "in.jsonl").open("wb") as file:
        file.write(b'{"text": "a"}\n{"text": "')
        for _ in range(500):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n{"text": "b"}\n')
    done = subprocess.run([sys.executable, "-c", _READ, str(tmp_path / "in.jsonl")], capture_output=True, text=True)
    rows, megabytes = done.stdout.splitlines()
    assert rows == "2 1", done.stderr
    assert int(megabytes) < 250


# ---- Files and blocks ------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 30), max_size=12),
    block_size=st.integers(1, 60),
    ends=st.booleans(),
)
def test_a_line_is_in_one_block_wherever_the_cuts_are(tmp_path_factory, lengths, block_size, ends):
    folder = tmp_path_factory.mktemp("cuts")
    lines = [json.dumps({"text": "x" * length, "id": i}) for i, length in enumerate(lengths)]
    (folder / "a.jsonl").write_text("\n".join(lines) + ("\n" if ends and lines else ""))
    files = files_of(str(folder), str(folder / "out"))
    blocks = blocks_of(files, block_size)
    written = b"".join(rows.written([[] for _ in rows.texts]) for rows in (block.read(Columns()) for block in blocks))
    assert [json.loads(line)["id"] for line in written.splitlines()] == list(range(len(lengths)))


def test_nonsense_is_refused(model, tmp_path):
    with pytest.raises(FileNotFoundError, match="no file or folder"):
        run_bulk(Job(model, str(tmp_path / "nowhere"), str(tmp_path / "out")))
    (tmp_path / "a.txt").write_text("Paris")
    with pytest.raises(ValueError, match=r"a\.txt must be named \.jsonl"):
        run_bulk(Job(model, str(tmp_path / "a.txt"), str(tmp_path / "out")))
    with pytest.raises(ValueError, match=r"must hold files named \.jsonl"):
        run_bulk(Job(model, str(tmp_path), str(tmp_path / "out")))
    (tmp_path / "a.jsonl").write_text("{}")
    with pytest.raises(ValueError, match="block_size must be at least 1, got 0"):
        run_bulk(Job(model, str(tmp_path / "*.jsonl"), str(tmp_path / "out"), block_size=0))
    with pytest.raises(ValueError, match="a model must be a folder"):
        run_bulk(Job(tmp_path / "nothing", str(tmp_path / "*.jsonl"), str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()


def test_a_block_says_where_it_is():
    assert Block(3, "file:///a.jsonl", 0, 10).place == "bytes 0-10"
    assert Block(3, "file:///a.parquet", 0, 10).part == "part-000003.parquet"
    assert job.BLOCK_SIZE > 1 << 20
