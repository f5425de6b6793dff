"""Why a request is not answered: a status, a code for programs and a sentence for readers."""

from __future__ import annotations

from collections.abc import Mapping


class RefusedError(Exception):
    def __init__(self, status: int, code: str, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.code, self.reason = status, code, reason
        self.headers = dict(headers or {})


class FailedTextError(Exception):
    """The model failed on a text."""

    def __init__(self, index: int) -> None:
        super().__init__(f"the model failed on texts[{index}]")
        self.index = index


def cannot_be(index: int, error: Exception) -> RefusedError:
    """The error for constraints that do not fit their text, or one another."""
    return RefusedError(409, "conflict", f"constraints[{index}]: {error}")


def not_ready() -> RefusedError:
    return RefusedError(
        503, "not_ready", "the model is still being loaded; /readyz tells when it is", {"Retry-After": "2"}
    )


def shutting_down() -> RefusedError:
    return RefusedError(
        503, "shutting_down", "the service is shutting down and takes nothing new", {"Retry-After": "5"}
    )


def queue_full(queue: int, seconds: int) -> RefusedError:
    reason = f"{queue} requests are waiting already, which is the most; try again in {seconds} s"
    return RefusedError(429, "queue_full", reason, {"Retry-After": str(seconds)})


def worker_ended() -> RefusedError:
    return RefusedError(500, "internal", "the thread of the model has ended, and the service with it")


def client_gone() -> RefusedError:
    """The error for a client that has gone: never read, but counted by the metrics."""
    return RefusedError(499, "client_gone", "the client has closed the connection")


def too_slow(seconds: float) -> RefusedError:
    return RefusedError(504, "too_slow", f"no answer within {seconds:g} s; the request was dropped")
