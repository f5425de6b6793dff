"""Limits of the service, and the errors that answer what is beyond them: a status, a code for programs and a sentence
for readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf
from typing import Any, ClassVar

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

CLIENT_GONE = 499  # never read, but counted by the metrics


@dataclass(frozen=True)
class Limits:
    constraints: ClassVar[int] = 2_000  # in a request; checked before anything is made of them
    body_bytes: int = 1_000_000
    texts: int = 128  # in a request
    text_characters: int = 200_000
    sentence_tokens: int = 5_000  # a sentence is one piece of work, for which all others wait
    explained_characters: int = 20_000  # of all texts of a request that asks for alternatives or graphs
    alternatives: int = 10
    queue: int = 128  # requests that wait for the model
    seconds: float = 30.0  # from the body's last byte to the answer; the body itself has as long to come
    header_seconds: float = 10.0  # from the connection, or the answer before, to the end of the headers
    connections: int = 512  # beyond, that which has waited longest for its client is closed
    batch_texts: int = 256
    batch_characters: int = 32_000  # about a fifth of a second of a small model; a longer text goes alone
    batch_wait: float = 0.003  # seconds that a batch waits for more requests

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            lowest = 0 if field.name in ("alternatives", "batch_wait") else 1 if isinstance(value, int) else 1e-3
            if not lowest <= value < inf:  # as it is of NaN
                raise ValueError(f"{field.name} must be at least {lowest}, got {value}")


class RefusedError(Exception):
    """A request is answered with an error."""

    def __init__(self, status: int, code: str, reason: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(reason)
        self.status, self.code, self.reason, self.headers = status, code, reason, headers

    def response(self) -> JSONResponse:
        # A reason may quote the request, which may hold half a surrogate pair.
        reason = self.reason.encode("utf-8", "backslashreplace").decode()
        return JSONResponse({"code": self.code, "reason": reason}, self.status, self.headers)


def add_error_handlers(app: FastAPI) -> None:
    """Answer every error with JSON that has a code and a reason."""

    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> JSONResponse:
        return error.response()

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        problems = error.errors()[:5]
        first = problems[0]
        is_none = first["type"] == "json_invalid" or (first["type"], len(first["loc"])) == ("missing", 1)
        status, code = (400, "malformed") if is_none else (422, "invalid")
        return RefusedError(status, code, "; ".join(map(_validation_message, problems))).response()

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        path = request.url.path
        code, reason = {
            404: ("not_found", f"there is nothing at {path}; /openapi.json lists what there is"),
            405: ("method_not_allowed", f"{path} does not take {request.method}"),
        }.get(error.status_code, ("malformed", "the body must be JSON in UTF-8"))
        return RefusedError(error.status_code, code, reason, error.headers).response()

    @app.exception_handler(Exception)
    async def internal(_: Request, error: Exception) -> JSONResponse:
        return RefusedError(500, "internal", "something went wrong here; the log has more").response()


def _validation_message(error: dict[str, Any]) -> str:
    """A message such as `texts[0]: Input should be a valid string`, without what was sent."""
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"][1:])
    if error["type"] == "json_invalid":
        return f"the body must be JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
    if error["type"] == "missing" and not field:
        return "the body must be JSON, got none"
    return f"{field.lstrip('.') or 'the body'}: {error['msg']}"
