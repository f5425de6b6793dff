"""A model over any amount of text: JSON lines or Parquet in, the same rows with their entities out.

Data is cut into blocks, and each block becomes one part of the output, under a name that follows from the block alone.
So a part may be written twice and is there once, and a job that was interrupted goes on with what is missing. What is
written is the same, whether this process or a Ray cluster works on the blocks.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from spansieve.models.storage import checked_description, load_model
from spansieve.prediction.bulk.blocks import BLOCK_SIZE, Block, Columns, JsonRows, ParquetRows, blocks_of, files_of
from spansieve.prediction.bulk.ledger import BulkError, Ledger, Outcome
from spansieve.prediction.pipeline import Pipeline, Precision
from spansieve.prediction.promises import GuaranteeError, Promise, promise_for
from spansieve.segments import Entity

Stream = Callable[[Iterable[str]], Iterator[tuple[str, list[Entity]]]]
FORMAT = 2
MAX_NAMED = 100  # rows left out of a block that are named; all are counted


@dataclass(frozen=True)
class Job:
    model: str | Path
    source: str | Sequence[str]  # a file, a folder or a pattern, or several, anywhere that fsspec supports
    output: str  # a folder
    columns: Columns = field(default_factory=Columns)
    block_size: int = BLOCK_SIZE  # bytes
    device: str = "cpu"
    precision: Precision = "fp32"
    workers: int = 0  # processes that prepare text for each copy of the model
    sentences: bool = True  # or each text is one sequence
    threshold: float = 0.0  # what is less probable is left out
    strict: bool = False  # stop at the first row or file that cannot be read
    guarantee: str | None = None  # a promise beside the model, such as miss=0.01, that what is found is under
    objective: str = "probability"  # that is largest of what is found, or f1, as `TextPredictor.with_objective` has it

    def promise(self, folder: str | Path | None = None) -> Promise | None:
        """Look the promise up, beside the model or in another folder that has a copy of it."""
        if self.guarantee is None:
            return None
        if self.threshold:
            raise GuaranteeError(f"threshold must be left out under a guarantee, got {self.threshold}")
        return promise_for(Path(folder or self.model), self.guarantee)


class Problem(NamedTuple):
    """A row, a part of a file or a file that was left out, and why."""

    file: str
    place: str  # such as "line 3", "row 3" of Parquet or "row groups 0-2"; "" for all of the file
    reason: str

    def __str__(self) -> str:
        return f"{self.file} {self.place}".rstrip() + f": {self.reason}"


@dataclass(frozen=True)
class Summary:
    rows: int  # that are written
    left_out: int  # rows whose text cannot be read
    unread: int  # files, or parts of them, that cannot be read at all
    problems: tuple[Problem, ...]  # why: all of the files, and of each block the first MAX_NAMED rows
    entities: int
    parts: int
    skipped: int  # parts that were there already
    workers: tuple[str, ...]  # the processes that wrote them


def run_bulk(
    job: Job,
    ray: str | None = None,
    replicas: int | None = None,
    watch: Callable[[Outcome, int, int], None] | None = None,
) -> Summary:
    """Do what is not done yet. `watch` is called with each block's outcome, how many are done and how many there are.

    `ray` is the address of a Ray cluster, auto or local, which starts one on this machine: `replicas` copies of the
    model share the blocks then. What cannot be read is left out and named in the summary, and all else is written; a
    strict job raises BulkError at the first.
    """
    files = files_of(job.source, job.output)
    if not any(file.size for file in files):
        raise ValueError(f"{files[0].path.removeprefix('file://')} must hold rows, got an empty file")
    blocks = blocks_of(files, job.block_size)
    ledger = Ledger(job.output)
    ledger.open(
        {
            "format": FORMAT,
            "model": checked_description(Path(job.model))["files"],
            "columns": asdict(job.columns),
            "block_size": job.block_size,
            "precision": job.precision,
            "sentences": job.sentences,
            "threshold": job.threshold,
            "files": [list(file) for file in files],
            **({} if (promise := job.promise()) is None else {"guarantee": promise.to_dict()}),
            **({} if job.objective == "probability" else {"objective": job.objective}),
        }
    )
    finished = {i: outcome for i, outcome in ledger.finished().items() if i < len(blocks)}
    skipped = len(finished)
    if job.strict:
        _stop_at_problems(finished.values(), finished, blocks)
    waiting = [block for block in blocks if block.index not in finished]
    outcomes: Iterable[Outcome] = ()
    if waiting and ray is not None:
        from spansieve.prediction.bulk.ray_engine import predict_with_ray

        outcomes = predict_with_ray(job, waiting, ray, replicas)
    elif waiting:
        outcomes = predict_here(job, waiting)
    for outcome in outcomes:
        if outcome.is_fatal:
            raise BulkError(outcome.failure)
        finished[outcome.index] = outcome
        if watch is not None:
            watch(outcome, len(finished), len(blocks))
        if job.strict:
            _stop_at_problems([outcome], finished, blocks)
    if missing := len(blocks) - len(finished):
        raise BulkError(f"{missing} of {len(blocks)} blocks did not come back: run the same again")
    summary = _summary(finished, blocks, skipped)
    ledger.list_left_out(problem._asdict() for problem in summary.problems)
    return summary


def _stop_at_problems(outcomes: Iterable[Outcome], finished: dict[int, Outcome], blocks: list[Block]) -> None:
    if any(outcome.failure or outcome.left_out for outcome in outcomes):
        raise BulkError(f"{next(_problems(finished, blocks))}; without strict it is left out")


def _summary(finished: dict[int, Outcome], blocks: list[Block], skipped: int) -> Summary:
    done = finished.values()
    unread = sum(bool(outcome.failure) for outcome in done)
    return Summary(
        rows=sum(outcome.rows for outcome in done),
        left_out=sum(outcome.left_out for outcome in done),
        unread=unread,
        problems=tuple(_problems(finished, blocks)),
        entities=sum(outcome.entities for outcome in done),
        parts=len(blocks) - unread,
        skipped=skipped,
        workers=tuple(sorted({outcome.worker for outcome in done})),
    )


def _problems(finished: dict[int, Outcome], blocks: list[Block]) -> Iterator[Problem]:
    """What was left out, in the order of the files. Rows are counted over the blocks of a file, as far as they are
    known."""
    reached: dict[str, int | None] = {}  # how many lines or rows the blocks before have; None where one is missing
    for block in blocks:
        file, outcome = block.path.removeprefix("file://"), finished.get(block.index)
        before, unit = reached.get(block.path, 0), "row" if block.is_parquet else "line"
        if outcome is None or outcome.failure:
            reached[block.path] = None
            if outcome is not None:
                yield Problem(file, block.place, outcome.failure)
            continue
        for number, reason in outcome.reasons:
            place = f"{unit} {number} of {block.place}" if before is None else f"{unit} {before + number}"
            yield Problem(file, place, reason)
        reached[block.path] = None if before is None else before + outcome.num_read


# ---- In one process --------------------------------------------------------------------------------------------------


def predict_here(job: Job, blocks: Iterable[Block]) -> Iterator[Outcome]:
    with stream_of(job, job.model) as stream:
        yield from predict_blocks(blocks, stream, Ledger(job.output), job)


@contextmanager
def stream_of(job: Job, model: str | Path) -> Iterator[Stream]:
    """The stream of predictions of the job's model, which is in a folder."""
    tagger, promise = load_model(model, job.device), job.promise(model)
    options: dict[str, Any] = {"sentences": job.sentences, "promise": promise, "objective": job.objective}
    with Pipeline(tagger, job.workers, job.precision, **options) as pipeline:
        yield lambda texts: pipeline.stream(texts, threshold=job.threshold)


@dataclass
class _Reading:
    """A block some of whose entities are still to come."""

    block: Block
    outcome: Outcome
    rows: JsonRows | ParquetRows | None = None  # None: nothing is to be written
    entities: list[list[Entity]] = field(default_factory=list)

    @property
    def texts(self) -> list[str]:
        return [] if self.rows is None else self.rows.texts


def predict_blocks(blocks: Iterable[Block], stream: Stream, ledger: Ledger, job: Job) -> Iterator[Outcome]:
    """Read, predict and write each block. The next one is read while the stream still works on this one."""
    reading: deque[_Reading] = deque()

    def texts() -> Iterator[str]:
        for block in blocks:
            reading.append(_read(block, job))
            yield from reading[-1].texts

    for _, entities in stream(texts()):
        while len(reading[0].entities) == len(reading[0].texts):  # or nothing in it can be predicted
            yield _write(reading.popleft(), ledger)
        reading[0].entities.append(entities)
    while reading:
        yield _write(reading.popleft(), ledger)


def _read(block: Block, job: Job) -> _Reading:
    outcome = Outcome(block.index, worker=f"{socket.gethostname()}:{os.getpid()}")
    try:
        rows = block.read(job.columns)
    except Exception as error:  # what damage makes of a library's reader has no common name
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        return _Reading(block, replace(outcome, failure=" ".join(reason.split())))
    left_out = rows.left_out
    outcome = replace(outcome, left_out=len(left_out), reasons=left_out[:MAX_NAMED], num_read=rows.num_read)
    return _Reading(block, outcome, None if job.strict and left_out else rows)


def _write(read: _Reading, ledger: Ledger) -> Outcome:
    if read.rows is None:
        return read.outcome
    content = read.rows.written(read.entities)
    num_entities = sum(map(len, read.entities))
    outcome = replace(read.outcome, rows=len(read.texts), entities=num_entities, bytes=len(content))
    try:
        ledger.commit(read.block, content, outcome)
    except BulkError as error:
        return replace(outcome, failure=str(error), is_fatal=True)
    return outcome
