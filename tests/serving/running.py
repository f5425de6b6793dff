"""A service at a free port of this machine, in a thread of the test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from spansieve.prediction.predictor import Predictor
from spansieve.serving.limits import Limits
from spansieve.serving.queue import State
from spansieve.serving.server import Service, listen


class Running:
    def __init__(self, service: Service, address: str) -> None:
        self.service, self.address = service, address
        self.client = httpx.Client(base_url=address, timeout=120)

    def predict(self, *texts: str, **options: Any) -> httpx.Response:
        return self.client.post("/predict", json={"texts": list(texts), **options})

    def results(self, *texts: str, **options: Any) -> list[dict[str, Any]]:
        answer = self.predict(*texts, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()["results"]


def until(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


@contextmanager
def running(
    model: Predictor | Callable[[], Predictor],
    wait: bool = True,
    token: str | None = None,
    cors_origins: Sequence[str] = (),
    **limits: Any,
) -> Iterator[Running]:
    load = (lambda: model) if isinstance(model, Predictor) else model
    service = Service(load, "tiny", Limits(**limits), token, cors_origins=cors_origins)
    listener = listen("127.0.0.1", 0)
    thread = threading.Thread(target=service.run, args=(listener,))
    thread.start()
    served = Running(service, f"http://127.0.0.1:{listener.getsockname()[1]}")
    try:
        until(lambda: service.server is not None and service.server.started)
        if wait:
            until(lambda: service.batcher.state is State.READY)
        yield served
    finally:
        service.server.is_ending = True
        served.client.close()
        thread.join(40)
        assert not thread.is_alive()


def problem(answer: httpx.Response, status: int, code: str) -> str:
    """The reason, of an answer that must be this refusal."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    told = answer.json()
    assert set(told) == {"code", "reason"}
    assert told["code"] == code
    return told["reason"]
