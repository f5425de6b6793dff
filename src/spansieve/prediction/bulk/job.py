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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from spansieve.models.storage import checked_description, load_model
from spansieve.prediction.bulk.blocks import BLOCK_SIZE, Block, blocks_of, files_of
from spansieve.prediction.bulk.ledger import BulkError, Ledger, Outcome
from spansieve.prediction.bulk.rows import Columns, JsonRows, ParquetRows
from spansieve.prediction.pipeline import Pipeline, Precision
from spansieve.prediction.predictor import Predictor
from spansieve.segments import Entity

Engine = Literal["local", "ray"]
Stream = Callable[[Iterable[str]], Iterator[tuple[str, list[Entity]]]]
FORMAT = 1


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


@dataclass(frozen=True)
class Summary:
    rows: int
    errors: int  # rows whose text could not be read
    entities: int
    parts: int
    skipped: int  # parts that were there already
    workers: tuple[str, ...]  # the processes that wrote them


def run_bulk(
    job: Job,
    engine: Engine = "local",
    address: str | None = None,
    replicas: int | None = None,
    watch: Callable[[Outcome, int, int], None] | None = None,
) -> Summary:
    """Do what is not done yet. `watch` is called with each block's outcome, how many are done and how many there are.

    With Ray, `address` is the cluster's, or a cluster is started on this machine, and `replicas` copies of the model
    share the blocks. Raises BulkError at the end where blocks could not be read; all others are written by then.
    """
    if engine not in ("local", "ray"):
        raise ValueError(f"engine must be local or ray, got {engine!r}")
    files = files_of(job.source, job.output)
    blocks = blocks_of(files, job.block_size, job.columns)
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
        }
    )
    finished = {i: outcome for i, outcome in ledger.finished().items() if i < len(blocks)}
    skipped = len(finished)
    waiting = [block for block in blocks if block.index not in finished]
    outcomes: Iterable[Outcome] = ()
    if waiting and engine == "local":
        outcomes = predict_here(job, waiting)
    elif waiting:
        from spansieve.prediction.bulk.ray_engine import predict_with_ray

        outcomes = predict_with_ray(job, waiting, address, replicas)
    for outcome in outcomes:
        finished[outcome.index] = outcome
        if watch is not None:
            watch(outcome, len(finished), len(blocks))
    return _summary(finished, blocks, skipped)


def _summary(finished: dict[int, Outcome], blocks: list[Block], skipped: int) -> Summary:
    if failed := [outcome for outcome in finished.values() if outcome.failure]:
        first = min(failed, key=lambda outcome: outcome.index)
        raise BulkError(
            f"{len(failed)} of {len(blocks)} blocks could not be read, the others are written; the first, "
            f"{blocks[first.index]}: {first.failure}"
        )
    if missing := len(blocks) - len(finished):
        raise BulkError(f"{missing} of {len(blocks)} blocks did not come back: run the same again")
    done = finished.values()
    return Summary(
        rows=sum(outcome.rows for outcome in done),
        errors=sum(outcome.errors for outcome in done),
        entities=sum(outcome.entities for outcome in done),
        parts=len(blocks),
        skipped=skipped,
        workers=tuple(sorted({outcome.worker for outcome in done})),
    )


# ---- In one process --------------------------------------------------------------------------------------------------


def predict_here(job: Job, blocks: Iterable[Block]) -> Iterator[Outcome]:
    with stream_of(job, job.model) as stream:
        yield from predict_blocks(blocks, stream, Ledger(job.output), job.columns)


@contextmanager
def stream_of(job: Job, model: str | Path) -> Iterator[Stream]:
    """The stream of predictions of the job's model, which is in a folder."""
    tagger = load_model(model, job.device)
    if job.device == "cpu" and not job.workers and job.precision == "fp32":
        predictor = Predictor(tagger)
        yield lambda texts: predictor.stream(texts, sentences=job.sentences, threshold=job.threshold)
        return
    with Pipeline(tagger, job.workers, job.precision, sentences=job.sentences) as pipeline:
        yield lambda texts: pipeline.stream(texts, threshold=job.threshold)


@dataclass
class _Reading:
    """A block some of whose entities are still to come."""

    block: Block
    rows: JsonRows | ParquetRows | None = None
    failure: str = ""
    texts: list[str] = field(default_factory=list)  # of the rows that have one
    entities: list[list[Entity]] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return len(self.entities) == len(self.texts)


def predict_blocks(blocks: Iterable[Block], stream: Stream, ledger: Ledger, columns: Columns) -> Iterator[Outcome]:
    """Read, predict and write each block. The next one is read while the stream still works on this one."""
    reading: deque[_Reading] = deque()

    def texts() -> Iterator[str]:
        for block in blocks:
            reading.append(_read(block, columns))
            yield from reading[-1].texts

    for _, entities in stream(texts()):
        while reading[0].is_complete:  # nothing in it can be predicted
            yield _write(reading.popleft(), ledger)
        reading[0].entities.append(entities)
        if reading[0].is_complete:
            yield _write(reading.popleft(), ledger)
    while reading:
        yield _write(reading.popleft(), ledger)


def _read(block: Block, columns: Columns) -> _Reading:
    try:
        rows = block.read(columns)
    except (OSError, ValueError, NotImplementedError, EOFError) as error:  # damaged: the other blocks are not
        return _Reading(block, failure=f"{type(error).__name__}: {error}")
    return _Reading(block, rows, texts=[text for text in rows.texts if text is not None])


def _write(read: _Reading, ledger: Ledger) -> Outcome:
    worker = f"{socket.gethostname()}:{os.getpid()}"
    if read.rows is None:
        return Outcome(read.block.index, worker=worker, failure=read.failure)
    content = read.rows.written(read.entities)
    outcome = Outcome(
        read.block.index,
        rows=len(read.rows.texts),
        errors=len(read.rows.texts) - len(read.texts),
        entities=sum(map(len, read.entities)),
        bytes=len(content),
        worker=worker,
    )
    ledger.commit(read.block, content, outcome)
    return outcome
