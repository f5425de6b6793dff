"""Error responses: a status, a code for programs and a sentence for readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

CODES = {404: "not_found", 405: "method_not_allowed"}


class RefusedError(Exception):
    """A request is answered with an error."""

    def __init__(self, status: int, code: str, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.code, self.reason = status, code, reason
        self.headers = dict(headers or {})


class FailedTextError(Exception):
    """The model failed on a text."""

    def __init__(self, index: int) -> None:
        super().__init__(f"the model failed on texts[{index}]")
        self.index = index


def constraint_conflict(index: int, error: Exception) -> RefusedError:
    """The error for constraints that do not fit their text, or one another."""
    return RefusedError(409, "conflict", f"constraints[{index}]: {error}")


def not_ready() -> RefusedError:
    return RefusedError(503, "not_ready", "the model is still being loaded; see /readyz", {"Retry-After": "2"})


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


# ---- Handlers --------------------------------------------------------------------------------------------------------


def _problem(status: int, code: str, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    # A reason may quote the request, which may hold half a surrogate pair.
    reason = reason.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"code": code, "reason": reason}, status, headers)


def add_error_handlers(app: FastAPI) -> None:
    """Answer every error with JSON that has a code and a reason."""

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> JSONResponse:
        return _problem(error.status, error.code, error.reason, error.headers)

    @app.exception_handler(FailedTextError)
    async def text_failed(_: Request, error: FailedTextError) -> JSONResponse:
        return _problem(500, "model_failed", f"{error}; the others can be sent again without it")

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return _problem(422, "invalid", "; ".join(map(_validation_message, error.errors()[:5])))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        reason = {
            404: f"there is nothing at {request.url.path}; /openapi.json lists what there is",
            405: f"{request.url.path} does not take {request.method}",
        }.get(error.status_code, "the body must be JSON in UTF-8")
        headers = dict(error.headers) if error.headers else None
        return _problem(error.status_code, CODES.get(error.status_code, "malformed"), reason, headers)

    @app.exception_handler(Exception)
    async def internal(_: Request, error: Exception) -> JSONResponse:
        return _problem(500, "internal", "something went wrong here; the log has more")


def _validation_message(error: dict[str, Any]) -> str:
    """A message such as `texts[0]: Input should be a valid string`, without what was sent."""
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"][1:])
    if error["type"] == "json_invalid":
        return f"the body must be JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
    if error["type"] == "missing" and not field:
        return "the body must be JSON, got none"
    return f"{field.lstrip('.') or 'the body'}: {error['msg']}"
