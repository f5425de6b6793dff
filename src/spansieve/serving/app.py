"""The application: its paths, and the response to each thing that can go wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from spansieve import __version__
from spansieve.prediction.predictor import Predictor
from spansieve.serving.constraining import read_constraints
from spansieve.serving.errors import FailedTextError, RefusedError, client_gone, not_ready, shutting_down, too_slow
from spansieve.serving.limits import Limits
from spansieve.serving.metrics import CONTENT_TYPE
from spansieve.serving.middleware import Guarded
from spansieve.serving.queue import Batcher, Job, State, Task
from spansieve.serving.schema import Health, ModelInfo, ModelLimits, PredictRequest, PredictResponse, Problem, Result
from spansieve.serving.static import add_page

DESCRIPTION = """Finds the entities of texts.

Positions are characters (Unicode code points) of the text that was sent: `text[start:end]` is the entity's text.
Probabilities are exact marginals of the model. An error is JSON with a `code` and a `reason`."""

REASONS = {
    400: "The body is no JSON that can be read.",
    401: "The bearer token is missing or wrong.",
    408: "The body did not come in time.",
    409: "The constraints do not fit their text, or not together; the reason names them.",
    413: "The body or a text is too large.",
    422: "The request is not as it should be; the reason names the field.",
    429: "The queue is full; `Retry-After` says when to try again.",
    500: "The model failed on one of the texts, which the reason names; other requests are not touched by it.",
    503: "The model is being loaded, or the service is shutting down.",
    504: "The answer took too long.",
}
Responses = dict[int | str, dict[str, Any]]  # by status, for the schema
METRICS: Responses = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "Its text format."}
}
PROTECTED = {"/predict", "/model", "/metrics"}
CODES = {404: "not_found", 405: "method_not_allowed"}


def _responses(*statuses: int) -> Responses:
    return {status: {"model": Problem, "description": REASONS[status]} for status in statuses}


def create_app(
    batcher: Batcher[Result], info: Callable[[], ModelInfo], limits: Limits, token: str | None = None
) -> FastAPI:
    """Build the application. `info` may be called once the batcher is ready."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        await asyncio.to_thread(batcher.close)

    app = FastAPI(
        title="spansieve",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # both pages load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )
    # For the schema: the token is checked by `Guarded`, before anything is read.
    bearer = [Depends(HTTPBearer(auto_error=False, description="The service's token."))] if token else []
    unauthorized = _responses(401) if token else {}
    _add_prediction(app, batcher, info, limits, bearer, unauthorized)
    _add_operation(app, batcher, bearer, unauthorized)
    add_page(app)
    _tell_errors(app)
    _show_limits(app, limits)
    app.add_middleware(Guarded, limits=limits, metrics=batcher.metrics, token=token, protected=PROTECTED)
    return app


def _add_prediction(
    app: FastAPI,
    batcher: Batcher[Result],
    info: Callable[[], ModelInfo],
    limits: Limits,
    bearer: list[Any],
    unauthorized: Responses,
) -> None:
    @app.post(
        "/predict",
        summary="Find the entities of texts",
        tags=["prediction"],
        response_model=PredictResponse,
        responses=_responses(400, 408, 409, 413, 422, 429, 500, 503, 504) | unauthorized,
        dependencies=bearer,
    )
    async def predict(wanted: PredictRequest, request: Request) -> Response:
        _check_size(wanted, limits)
        options = (wanted.probabilities, wanted.alternatives, wanted.graph)
        known = read_constraints(wanted)
        job = batcher.submit([Task(text, *options, one) for text, one in zip(wanted.texts, known)])
        results = await _answered(batcher, job, request, limits.seconds)
        return Response(PredictResponse(results=results).model_dump_json(), media_type="application/json")

    @app.get(
        "/model",
        summary="What the model is and how much it takes",
        tags=["prediction"],
        responses=_responses(503) | unauthorized,
        dependencies=bearer,
    )
    async def model() -> ModelInfo:
        _check_ready(batcher)
        return info()


def _add_operation(app: FastAPI, batcher: Batcher[Result], bearer: list[Any], unauthorized: Responses) -> None:
    @app.get("/healthz", summary="The process answers", tags=["operation"])
    async def healthz() -> Health:
        return Health(status="ok")

    @app.get(
        "/readyz",
        summary="The model is loaded, warm, and takes requests",
        tags=["operation"],
        responses=_responses(503),
    )
    async def readyz() -> Health:
        _check_ready(batcher)
        return Health(status="ready")

    @app.get(
        "/metrics",
        summary="For Prometheus",
        tags=["operation"],
        response_class=Response,
        responses=METRICS | unauthorized,
        dependencies=bearer,
    )
    def metrics() -> Response:
        return Response(batcher.metrics.exposition(), media_type=CONTENT_TYPE)


def model_info(name: str, predictor: Predictor, limits: Limits) -> ModelInfo:
    is_filtered = predictor.tagger.head.decoder_settings.filters
    shown = {field: value for field, value in asdict(limits).items() if field in ModelLimits.model_fields}
    return ModelInfo(
        name=name,
        head=predictor.tagger.config.head,
        labels=list(predictor.labels),
        probability=predictor.probability if is_filtered else "marginal",
        has_graph=is_filtered,
        version=__version__,
        limits=ModelLimits(**shown),
    )


# ---- How a request is answered ---------------------------------------------------------------------------------------


def _check_ready(batcher: Batcher[Result]) -> None:
    if batcher.state is State.LOADING:
        raise not_ready()
    if batcher.state is not State.READY:
        raise shutting_down()


def _check_size(wanted: PredictRequest, limits: Limits) -> None:
    if len(wanted.texts) > limits.texts:
        raise RefusedError(422, "invalid", f"texts must be at most {limits.texts}, got {len(wanted.texts)}")
    if wanted.alternatives > limits.alternatives:
        reason = f"alternatives must be at most {limits.alternatives}, got {wanted.alternatives}"
        raise RefusedError(422, "invalid", reason)
    for i, text in enumerate(wanted.texts):
        if len(text) > limits.text_characters:
            reason = f"texts[{i}] must have at most {limits.text_characters:,} characters, got {len(text):,}"
            raise RefusedError(413, "text_too_long", reason)
    total = sum(map(len, wanted.texts))
    if (wanted.alternatives or wanted.graph) and total > limits.explained_characters:
        reason = f"texts must have at most {limits.explained_characters:,} characters together where alternatives or a "
        raise RefusedError(413, "texts_too_long", f"{reason}graph are asked for, got {total:,}; ask without")


async def _answered(batcher: Batcher[Result], job: Job[Result], request: Request, seconds: float) -> list[Result]:
    """The answer, unless it takes too long or the client goes: then the job leaves the queue."""
    answer: asyncio.Future[Any] = asyncio.wrap_future(job.future)
    # After the body only that the client has gone can come.
    gone: asyncio.Future[Any] = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({answer, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        raise client_gone() if gone.done() else too_slow(seconds)
    finally:
        gone.cancel()
        if not answer.done():
            answer.cancel()
            batcher.withdraw(job)


# ---- Error responses -------------------------------------------------------------------------------------------------


def _problem(status: int, code: str, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    # A reason may quote what the client sent, and that may be no text at all.
    reason = reason.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"code": code, "reason": reason}, status, headers)


def _tell_errors(app: FastAPI) -> None:
    @app.exception_handler(RefusedError)
    async def refused(_: Request, error: RefusedError) -> JSONResponse:
        return _problem(error.status, error.code, error.reason, error.headers)

    @app.exception_handler(FailedTextError)
    async def text_failed(_: Request, error: FailedTextError) -> JSONResponse:
        return _problem(500, "model_failed", f"{error}; the others can be sent again without it")

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        return _problem(422, "invalid", "; ".join(_told(one) for one in error.errors()[:5]))

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


def _told(error: dict[str, Any]) -> str:
    """A message such as `texts[0]: Input should be a valid string`, without what was sent."""
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error["loc"][1:])
    if error["type"] == "json_invalid":
        return f"the body must be JSON: {error['ctx']['error']} at character {error['loc'][-1]}"
    if error["type"] == "missing" and not field:
        return "the body must be JSON, sent as application/json"
    return f"{field.lstrip('.') or 'the body'}: {error['msg']}"


def _show_limits(app: FastAPI, limits: Limits) -> None:
    """Add the limits to the OpenAPI schema, which is made once."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is not None:
            return app.openapi_schema
        schema = made()
        fields = schema["components"]["schemas"]["PredictRequest"]["properties"]
        fields["texts"]["maxItems"] = limits.texts
        fields["texts"]["description"] += f" At most {limits.text_characters:,} characters each (413)."
        fields["alternatives"]["maximum"] = limits.alternatives
        schema["components"]["schemas"].pop("HTTPValidationError", None)
        schema["components"]["schemas"].pop("ValidationError", None)
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
