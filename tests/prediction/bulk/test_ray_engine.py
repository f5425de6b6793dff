"""Bulk prediction on a real cluster of this machine, one of whose two workers is killed while it works."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spansieve.prediction.bulk.job import Job, run_bulk
from spansieve.prediction.bulk.ledger import BulkError
from tests.prediction.bulk.test_job import DAMAGED, check_rows, model, read_parts, rows, write_jsonl  # noqa: F401

ray = pytest.importorskip("ray")


def children() -> set[int]:
    """The processes below this one, however deep."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rsplit(")", 1)[1].split()
        except OSError:  # it ended meanwhile
            continue
        if fields[0] != "Z":
            parents[int(status.parent.name)] = int(fields[1])
    found = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


@pytest.fixture
def cluster(monkeypatch):
    """Of two workers: two replicas of one core each, whatever this machine has."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = children()
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    yield
    ray.shutdown()
    until = time.monotonic() + 20
    while (left := children() - before) and time.monotonic() < until:
        time.sleep(0.2)
    assert not left, "Ray has left processes behind"


class Killer(threading.Thread):
    """Kills the first process that has finished a part, which by then is at its next one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.markers = folder / "_spansieve" / "done"
        self.killed: int | None = None
        self.finished_before: set[str] = set()

    def run(self) -> None:
        until = time.monotonic() + 120
        while time.monotonic() < until and self.killed is None:
            for marker in sorted(self.markers.glob("*.json")):
                self.finished_before = {path.name for path in self.markers.glob("*.json")}
                victim = int(json.loads(marker.read_text())["worker"].rsplit(":", 1)[1])
                os.kill(victim, signal.SIGKILL)
                self.killed = victim
                break
            time.sleep(0.005)


def test_a_worker_is_killed_and_every_row_is_there_once(model, predictor, tmp_path, cluster):  # noqa: F811
    given = rows(2_400)
    write_jsonl(tmp_path / "in.jsonl", given)
    size = (tmp_path / "in.jsonl").stat().st_size
    job = Job(model, str(tmp_path / "in.jsonl"), str(tmp_path / "out"), block_size=-(-size // 30))
    killer = Killer(tmp_path / "out")
    killer.start()
    seen = []
    done = run_bulk(job, "local", replicas=2, watch=lambda outcome, finished, total: seen.append(finished))
    killer.join(5)
    assert killer.killed is not None
    assert len(killer.finished_before) < 20, "it was killed too late to have been at work"
    processes = {int(worker.rsplit(":", 1)[1]) for worker in done.workers}
    assert os.getpid() not in processes
    assert len(processes) >= 3, f"somebody took the place of {killer.killed}: {processes}"
    assert (done.rows, done.problems, done.parts, done.skipped) == (2_400, (), 30, 0)
    assert seen == list(range(1, 31))
    check_rows(read_parts(tmp_path / "out"), given, predictor)
    again = run_bulk(job)  # nothing is left to do, for whomever
    assert again.skipped == 30


@pytest.mark.slow
def test_what_cannot_be_read_or_written_is_named_as_in_one_process(model, tmp_path, cluster):  # noqa: F811
    source = tmp_path / "in"
    source.mkdir()
    for name in ("cut.jsonl.gz", "cut.parquet", "taken.parquet"):
        (source / name).write_bytes(DAMAGED[name][0])
    (source / "rows.jsonl").write_text('?\n{"text": "Rome"}\n{"text": "Rome", "entities": 1}\n' * 10)
    job = Job(model, str(source), str(tmp_path / "ray"), block_size=200)
    done, expected = run_bulk(job, "local", replicas=2), run_bulk(replace(job, output=str(tmp_path / "local")))
    assert replace(done, workers=()) == replace(expected, workers=())
    assert (done.rows, done.left_out, done.unread) == (10, 20, 3)
    assert read_parts(tmp_path / "ray") == read_parts(tmp_path / "local")
    with pytest.raises(BulkError, match=r"/in/.*; without strict it is left out"):
        run_bulk(replace(job, output=str(tmp_path / "strict"), strict=True), "local", replicas=2)
    (tmp_path / "ray" / "part-000004.jsonl").unlink()
    (tmp_path / "ray" / "part-000004.jsonl").mkdir()
    with pytest.raises(BulkError, match=r"ray/part-000004\.jsonl cannot be written: Is a directory"):
        run_bulk(job, "local", replicas=2)
