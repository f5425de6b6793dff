"""Texts of many requests through one model: a bounded queue, and one thread that owns the model.

Requests take turns, text by text, and a long text lets the others have theirs while it is read: between two batches of
its sentences. A batch that no request waits for any more is given up there.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from enum import Enum
from functools import partial
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from spansieve.decoding.constraints import ConstraintError, Constraints
from spansieve.models.inference import between_batches
from spansieve.serving.limits import Limits, RefusedError

LIGHT_CHARACTERS, LIGHT_EXPLAINED = 4_000, 500  # of a text that shares its batch; of one that is explained
TURN = 0.1  # seconds that a batch is read for before others that wait have a turn
SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)  # the buckets of histograms
TEXTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)

logger = logging.getLogger(__name__)


class Metrics:
    """The metrics for Prometheus, in a registry of the service's own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter, gauge = partial(Counter, registry=self.registry), partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry)
        took = "From a request's first byte to the end of its answer."
        self.requests = counter("spansieve_requests", "Requests by path and status.", ["path", "status"])
        self.request_seconds = histogram("spansieve_request_seconds", took, ["path"], buckets=SECONDS)
        self.queue_length = gauge("spansieve_queue_length", "Requests that wait for the model.")
        self.ready = gauge("spansieve_ready", "1 when the model is loaded and warm.")
        self.batch_texts = histogram("spansieve_batch_texts", "Texts that went to the model together.", buckets=TEXTS)
        self.batch_seconds = histogram("spansieve_batch_seconds", "The model's time for a batch.", buckets=SECONDS)
        self.tokens = counter("spansieve_tokens", "Tokens that were read.")
        self.texts = counter("spansieve_texts", "Texts that were read.")
        self.failed_texts = counter("spansieve_failed_texts", "Texts that the model failed on.")

    def exposition(self) -> bytes:
        return generate_latest(self.registry)


class GivenUpError(Exception):
    """Nobody waits for the batch any more."""


class Task(NamedTuple):
    """A text, and the options of its request."""

    text: str
    probabilities: bool = True
    alternatives: int = 0
    graph: bool = False
    constraints: Constraints | None = None
    threshold: float = 0.0

    @property
    def is_light(self) -> bool:
        """Whether others may wait for it, in one batch or for its turn. Any other text is read alone."""
        is_explained = self.alternatives or self.graph
        is_free = not self.constraints or not self.constraints.has_spans
        most = LIGHT_EXPLAINED if is_explained or not is_free else LIGHT_CHARACTERS
        return len(self.text) <= most


class State(Enum):
    LOADING = "loading"
    READY = "ready"
    STOPPING = "stopping"
    FAILED = "failed"


class Job:
    """A request on its way: its texts, and the answers so far."""

    def __init__(self, tasks: Sequence[Task], request_id: str = "-") -> None:
        self.tasks, self.request_id = tasks, request_id
        self.taken = 0
        self.answers: list[str] = []  # in order, since its texts are taken in order
        self.future: Future[list[str]] = Future()

    def end(self, error: Exception | None = None) -> None:
        """Return the answers, or raise an error, unless it is done or withdrawn."""
        if self.future.done() or not self.future.set_running_or_notify_cancel():
            return
        if error is None:
            self.future.set_result(self.answers)
        else:
            self.future.set_exception(error)


Batch = list[tuple[Job, Task]]
Answering = Callable[[Sequence[Task]], list[str]]  # texts in, a result of each as JSON out


class Batcher:
    """The queue and its worker. `prepare` loads the model, in the worker's thread, and returns what answers a batch."""

    def __init__(
        self,
        prepare: Callable[[], Answering],
        limits: Limits,
        metrics: Metrics,
        on_failure: Callable[[BaseException], None] | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self.limits, self.metrics = limits, metrics
        self.state = State.LOADING
        self._prepare, self._on_failure, self._on_ready = prepare, on_failure, on_ready
        self._jobs: deque[Job] = deque()
        self._taken: set[Job] = set()  # those of the batch that is being read
        self._changed = threading.Condition()
        self._rate = 20_000.0  # characters per second, of the last batches
        self._thread = threading.Thread(target=self._run, name="spansieve-model", daemon=True)
        metrics.queue_length.set_function(lambda: len(self._jobs))
        metrics.ready.set_function(lambda: self.state is State.READY)

    def start(self) -> None:
        self._thread.start()

    def refuse_new(self) -> None:
        """Refuse new requests from now on. Takes no lock: a signal handler calls this."""
        if self.state is not State.FAILED:
            self.state = State.STOPPING

    def close(self, timeout: float | None = None) -> None:
        """Close the queue when everything accepted is answered."""
        self.refuse_new()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(timeout)

    # ---- The requests' side

    def check_ready(self) -> None:
        """Raise RefusedError unless requests are taken."""
        if self.state is State.LOADING:
            reason = "the model is still being loaded; see /readyz"
            raise RefusedError(503, "not_ready", reason, {"Retry-After": "2"})
        if self.state is not State.READY:
            reason = "the service is shutting down and takes nothing new"
            raise RefusedError(503, "shutting_down", reason, {"Retry-After": "5"})

    def submit(self, tasks: Sequence[Task], request_id: str = "-") -> Job:
        """Queue a request. Raises RefusedError where the queue is full or not open."""
        job = Job(tasks, request_id)
        with self._changed:
            self.check_ready()
            if len(self._jobs) >= self.limits.queue:
                seconds = max(1, math.ceil(self._characters_left() / self._rate))
                reason = f"{self.limits.queue} requests are waiting already, which is the most"
                retry = {"Retry-After": str(seconds)}
                raise RefusedError(429, "queue_full", f"{reason}; try again in {seconds} s", retry)
            if tasks:
                self._jobs.append(job)
                self._changed.notify_all()
            else:
                job.end()
        return job

    def withdraw(self, job: Job) -> None:
        """Take a request out of the queue, whose result is no longer needed."""
        job.future.cancel()
        self._drop(job)

    def _drop(self, job: Job) -> None:
        with self._changed:
            if job in self._jobs:
                self._jobs.remove(job)

    # ---- The worker's side

    def _run(self) -> None:
        try:
            answer = self._prepare()
            if self.state is State.LOADING:
                self.state = State.READY
            if self._on_ready is not None:
                self._on_ready()
            while batch := self._take():
                self._taken = {job for job, _ in batch}
                self._read(answer, batch)
        except BaseException as error:  # whatever it is, no request may wait for a thread that is no more
            with self._changed:
                self.state = State.FAILED
                jobs, self._jobs = self._jobs, deque()
            for job in (*self._taken, *jobs):
                reason = "the thread of the model has ended, and the service with it"
                job.end(error=RefusedError(500, "internal", reason))
            if self._on_failure is not None:
                self._on_failure(error)

    def _read(self, answer: Answering, batch: Batch, is_turn: bool = False):
        """Answer a batch, with turns of others in between unless it is such a turn itself."""
        begin = turn = time.perf_counter()
        others = 0.0  # seconds of their turns

        def between() -> None:
            nonlocal turn, others
            if all(job.future.done() for job, _ in batch):
                raise GivenUpError
            now = time.perf_counter()
            if is_turn or now - turn < TURN or not (light := self._take_light()):
                return
            self._taken |= {job for job, _ in light}
            self._read(answer, light, is_turn=True)
            self._taken -= {job for job, _ in light}
            turn = time.perf_counter()
            others += turn - now

        with between_batches(between):
            self._answer(answer, batch)
        took = time.perf_counter() - begin - others
        self.metrics.batch_seconds.observe(took)
        self.metrics.batch_texts.observe(len(batch))
        self.metrics.texts.inc(len(batch))
        rate = sum(len(task.text) for _, task in batch) / max(took, 1e-6)
        self._rate = max(1.0, 0.9 * self._rate + 0.1 * rate)

    def _take(self) -> Batch:
        """The next batch; an empty one when there will be none."""
        with self._changed:
            while not self._jobs:
                if self.state is State.STOPPING:
                    return []
                self._changed.wait(0.5)  # `refuse_new` notifies no thread
                deadline = time.monotonic() + self.limits.batch_wait
                # For more requests; all may be withdrawn meanwhile.
                while self._jobs and not self._is_full() and (left := deadline - time.monotonic()) > 0:
                    self._changed.wait(left)
            return self._gather()

    def _is_full(self) -> bool:
        texts = sum(len(job.tasks) - job.taken for job in self._jobs)
        return texts >= self.limits.batch_texts or self._characters_left() >= self.limits.batch_characters

    def _characters_left(self) -> int:
        return sum(len(task.text) for job in self._jobs for task in job.tasks[job.taken :])

    def _take_light(self) -> Batch:
        """The next batch for a turn: light texts, and none of a request that is being read."""
        with self._changed:
            return self._gather(self._taken)

    def _gather(self, excluded: Collection[Job] | None = None) -> Batch:
        """Take a text of each request in turn, until the batch is full. One without a turn is first in the next. One
        that is not light is taken alone, when it is first, and never for a turn, which has requests `excluded`."""
        batch: Batch = []
        later: list[Job] = []
        characters = 0
        while self._jobs and len(batch) < self.limits.batch_texts:
            job = self._jobs.popleft()
            task = job.tasks[job.taken]
            is_alone = not task.is_light and excluded is None and not batch
            if not is_alone and (not task.is_light or job in (excluded or ())):
                later.append(job)
                continue
            characters += len(task.text)
            if batch and characters > self.limits.batch_characters:
                later.append(job)
                break
            batch.append((job, task))
            job.taken += 1
            if job.taken < len(job.tasks):
                self._jobs.append(job)
            if is_alone:
                break
        self._jobs.extendleft(reversed(later))
        return batch

    def _answer(self, answer: Answering, batch: Batch) -> None:
        open_tasks = [(job, task) for job, task in batch if not job.future.done()]
        if not open_tasks:
            return
        try:
            answers = answer([task for _, task in open_tasks])
        except GivenUpError:
            return
        except Exception as error:  # whatever a model raises must not end the thread that all requests wait for
            if len(open_tasks) > 1:  # one of them failed: halves find it, and the others are answered
                middle = len(open_tasks) // 2
                self._answer(answer, open_tasks[:middle])
                self._answer(answer, open_tasks[middle:])
            else:
                self._fail(open_tasks[0][0], error)
            return
        for (job, _), result in zip(open_tasks, answers):
            job.answers.append(result)
            if len(job.answers) == len(job.tasks):
                job.end()

    def _fail(self, job: Job, error: Exception) -> None:
        """Fail a job on its first text that is not answered."""
        index = len(job.answers)
        if isinstance(error, RefusedError):
            refused = RefusedError(error.status, error.code, f"texts[{index}] {error.reason}")
        elif isinstance(error, ConstraintError):  # the client's mistake
            refused = RefusedError(409, "conflict", f"constraints[{index}]: {error}")
        else:
            reason = f"the model failed on texts[{index}]; the others can be sent again without it"
            refused = RefusedError(500, "model_failed", reason)
            # Where it failed, without the message of the error, which may quote the text.
            where = "".join(traceback.format_tb(error.__traceback__)).rstrip()
            what = (len(job.tasks[index].text), job.request_id, type(error).__name__, where)
            logger.error("the model failed on a text of %d characters id=%s: %s\n%s", *what)
            self.metrics.failed_texts.inc()
        self._drop(job)
        job.end(refused)
