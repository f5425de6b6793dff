"""The queue and its worker: who shares a batch, who is refused, and what a bad text takes down."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from spansieve.cli.options import parsed
from spansieve.decoding.constraints import Constraints
from spansieve.serving.limits import Limits, RefusedError
from spansieve.serving.queue import Batcher, Metrics, State, Task
from tests.serving.running import until


class Worker:
    """Answers in capitals, keeps the batches that it was given, and can be held up."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.may_go = threading.Event()
        self.may_go.set()
        self.is_busy = threading.Event()

    def __call__(self, tasks):
        texts = [task.text for task in tasks]
        self.batches.append(texts)
        self.is_busy.set()
        assert self.may_go.wait(20)
        if "bad" in texts:
            raise RuntimeError(f"no model can bear {texts}")
        return [text.upper() for text in texts]


@pytest.fixture
def worker():
    return Worker()


@pytest.fixture
def make(worker):
    made = []

    def make(prepare=lambda: worker, **limits):
        batcher = Batcher(prepare, Limits(**limits), Metrics())
        made.append(batcher)
        batcher.start()
        return batcher

    yield make
    worker.may_go.set()
    for batcher in made:
        batcher.close(20)


def ready(batcher):
    until(lambda: batcher.state is State.READY)
    return batcher


def submit(batcher, *texts):
    return batcher.submit([Task(text) for text in texts])


def hold(batcher, worker):
    """Busy with a text, so that what comes now must wait."""
    worker.may_go.clear()
    worker.is_busy.clear()
    job = submit(batcher, "first")
    assert worker.is_busy.wait(20)
    return job


def answer(job):
    return job.future.result(20)


def test_requests_share_a_batch(make, worker):
    batcher = ready(make())
    first = hold(batcher, worker)
    jobs = [submit(batcher, f"a{i}", f"b{i}") for i in range(5)]
    worker.may_go.set()
    assert answer(first) == ["FIRST"]
    assert [answer(job) for job in jobs] == [[f"A{i}", f"B{i}"] for i in range(5)]
    assert [len(batch) for batch in worker.batches] == [1, 10]


def test_a_batch_waits_for_company_but_not_long(make, worker):
    batcher = ready(make(batch_wait=5.0, batch_texts=3))
    jobs = [submit(batcher, text) for text in "abc"]  # the third fills it
    assert [answer(job) for job in jobs] == [["A"], ["B"], ["C"]]
    assert worker.batches == [["a", "b", "c"]]


def test_requests_take_turns(make, worker):
    batcher = ready(make(batch_texts=4))
    hold(batcher, worker)
    large, small = submit(batcher, *"abcdefgh"), submit(batcher, "z")
    worker.may_go.set()
    assert answer(large) == list("ABCDEFGH")
    assert answer(small) == ["Z"]
    assert worker.batches[1:] == [["a", "z", "b", "c"], ["d", "e", "f", "g"], ["h"]]


def test_a_batch_is_bounded_in_characters_and_a_longer_text_goes_alone(make, worker):
    batcher = ready(make(batch_characters=5))
    hold(batcher, worker)
    jobs = [submit(batcher, text) for text in ("aaa", "bb", "c", "dddddddd", "e")]
    worker.may_go.set()
    for job in jobs:
        answer(job)
    assert worker.batches[1:] == [["aaa", "bb"], ["c"], ["dddddddd"], ["e"]]


def test_what_takes_long_is_read_alone(make, worker):
    batcher = ready(make())
    hold(batcher, worker)
    known = Constraints(forbidden=[(0, 1)])
    heavy = [Task("x" * 4_001), Task("y" * 501, alternatives=2), Task("z" * 501, constraints=known), Task("after")]
    jobs = [submit(batcher, "a"), batcher.submit(heavy), submit(batcher, "b", "c"), submit(batcher, "d")]
    worker.may_go.set()
    assert answer(jobs[1]) == [task.text.upper() for task in heavy]
    assert [[text[:5] for text in batch] for batch in worker.batches[1:]] == [
        ["a", "b", "d", "c"],
        ["xxxxx"],
        ["yyyyy"],
        ["zzzzz"],
        ["after"],
    ]


def test_no_texts_need_no_model(make, worker):
    batcher = ready(make())
    assert answer(submit(batcher)) == []
    assert worker.batches == []


def test_a_bad_text_fails_alone(make, worker, caplog):
    batcher = ready(make())
    hold(batcher, worker)
    good = [submit(batcher, f"good {i}") for i in range(6)]
    bad = batcher.submit([Task(text) for text in ("fine", "bad", "never read")], "order-7")
    worker.may_go.set()
    assert [answer(job) for job in good] == [[f"GOOD {i}"] for i in range(6)]
    with pytest.raises(RefusedError, match=r"failed on texts\[1\]"):
        answer(bad)
    assert answer(submit(batcher, "after")) == ["AFTER"]
    assert batcher.metrics.failed_texts._value.get() == 1
    (record,) = caplog.records  # with where it failed, and without the message, which quotes the text
    assert record.getMessage().startswith("the model failed on a text of 3 characters id=order-7: RuntimeError\n")
    assert "in _answer" in record.getMessage()
    assert "bear [" not in caplog.text


def test_a_full_queue_refuses_and_says_when_to_come_back(make, worker):
    batcher = ready(make(queue=2))
    hold(batcher, worker)
    waiting = [submit(batcher, "one"), submit(batcher, "two")]
    with pytest.raises(RefusedError) as refused:
        submit(batcher, "three")
    assert (refused.value.status, refused.value.code) == (429, "queue_full")
    assert int(refused.value.headers["Retry-After"]) >= 1
    worker.may_go.set()
    assert [answer(job) for job in waiting] == [["ONE"], ["TWO"]]
    assert answer(submit(batcher, "three")) == ["THREE"]


def test_who_goes_leaves_the_queue(make, worker):
    batcher = ready(make(queue=1))
    hold(batcher, worker)
    gone = submit(batcher, "gone")
    batcher.withdraw(gone)
    stays = submit(batcher, "stays")  # there is room again
    worker.may_go.set()
    assert answer(stays) == ["STAYS"]
    with pytest.raises(CancelledError):
        answer(gone)
    assert worker.batches == [["first"], ["stays"]]


def test_who_goes_while_being_read_costs_nothing_more(make, worker):
    batcher = ready(make(batch_texts=1))
    worker.may_go.clear()
    job = submit(batcher, "one", "two", "three")
    assert worker.is_busy.wait(20)
    batcher.withdraw(job)
    worker.may_go.set()
    assert answer(submit(batcher, "next")) == ["NEXT"]
    assert worker.batches == [["one"], ["next"]]


def test_closing_finishes_what_was_accepted_and_refuses_the_rest(make, worker):
    batcher = ready(make(batch_texts=2))
    jobs = [hold(batcher, worker), submit(batcher, *"abcde"), submit(batcher, "f")]
    batcher.refuse_new()
    with pytest.raises(RefusedError) as refused:
        submit(batcher, "late")
    assert (refused.value.status, refused.value.code) == (503, "shutting_down")
    worker.may_go.set()
    batcher.close(20)
    assert [job.future.result(0) for job in jobs] == [["FIRST"], list("ABCDE"), ["F"]]


def test_nothing_is_taken_before_the_model_is_there(make, worker):
    may_load = threading.Event()

    def prepare():
        assert may_load.wait(20)
        return worker

    batcher = make(prepare)
    with pytest.raises(RefusedError) as refused:
        submit(batcher, "early")
    assert (refused.value.status, refused.value.code) == (503, "not_ready")
    may_load.set()
    assert answer(submit(ready(batcher), "now")) == ["NOW"]


def test_a_model_that_cannot_be_loaded_is_told():
    told = []

    def prepare():
        raise FileNotFoundError("no model here")

    batcher = Batcher(prepare, Limits(), Metrics(), told.append)
    batcher.start()
    until(lambda: batcher.state is State.FAILED)
    assert [str(error) for error in told] == ["no model here"]
    with pytest.raises(RefusedError):
        submit(batcher, "text")
    batcher.close(20)


def test_a_worker_that_ends_leaves_nobody_waiting(make, worker):
    told = []

    def answer_once(tasks):
        worker(tasks)
        raise SystemExit("the end")

    batcher = Batcher(lambda: answer_once, Limits(), Metrics(), told.append)
    batcher.start()
    jobs = [hold(ready(batcher), worker), submit(batcher, "waits")]
    worker.may_go.set()
    for job in jobs:
        with pytest.raises(RefusedError, match="has ended"):
            answer(job)
    assert batcher.state is State.FAILED
    assert len(told) == 1
    batcher.close(20)


@pytest.mark.parametrize("field", ["texts", "queue", "body_bytes", "seconds"])
def test_limits_are_above_zero(field):
    with pytest.raises(ValueError, match=f"{field} must be at least"):
        Limits(**{field: 0})


def test_limits_as_they_are_typed():
    assert parsed(Limits, ["texts=7", "seconds=2.5", "texts=8", "header_seconds=3"]) == Limits(
        texts=8, seconds=2.5, header_seconds=3.0
    )
    for typed, message in (
        ("text=7", "unknown setting 'text'; known here are body_bytes, texts"),
        ("texts", "a setting must look like .*, got 'texts'"),
        ("texts=1.5", "texts must be one of int, got 1.5"),
        ("seconds=nan", "seconds must be at least"),
        ("queue=0", "queue must be at least"),
    ):
        with pytest.raises(ValueError, match=message):
            parsed(Limits, [typed])
