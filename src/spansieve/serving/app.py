"""The application: its paths, their limits, and the page."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.middleware.cors import CORSMiddleware
from fastapi.security import HTTPBearer
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from spansieve import __version__
from spansieve.prediction.text_predictor import TextPredictor
from spansieve.serving.limits import CLIENT_GONE, Limits, RefusedError, add_error_handlers
from spansieve.serving.middleware import REQUEST_ID, GuardMiddleware
from spansieve.serving.queue import Batcher, Job, Task
from spansieve.serving.schema import Health, ModelInfo, ModelLimits, PredictRequest, PredictResponse, Problem, Promise

DESCRIPTION = """Finds the entities of texts.

Positions are characters (Unicode code points) of the text that was sent: `text[start:end]` is the entity's text.
Probabilities are exact marginals of the model. An error is JSON with a `code` and a `reason`."""

REASONS = {
    400: "The body is no JSON that can be read.",
    401: "The bearer token is missing or wrong.",
    408: "The headers or the body did not come in time.",
    409: "The constraints do not fit their text, or not together; the reason names them.",
    413: "The body, a text or a sentence is too large, or there are too many constraints.",
    415: "The body is not sent as `application/json`.",
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
API_PAGE = Template(Path(__file__).with_name("api_page.html").read_text(encoding="utf-8"))
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


def _responses(*statuses: int) -> Responses:
    return {status: {"model": Problem, "description": REASONS[status]} for status in statuses}


def create_app(
    batcher: Batcher,
    info: Callable[[], ModelInfo],
    limits: Limits,
    token: str | None = None,
    cors_origins: Sequence[str] = (),
) -> FastAPI:
    """Build the application. `info` may be called once the batcher is ready. Pages of `cors_origins` may call it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        batcher.start()
        yield
        await asyncio.to_thread(batcher.close)

    app = FastAPI(
        title="spansieve",
        version=__version__,
        description=DESCRIPTION,
        docs_url=None,  # both pages load scripts from elsewhere: see `_api_page`
        redoc_url=None,
        redirect_slashes=False,  # to where the `Host` header says
        lifespan=lifespan,
    )
    # For the schema: the token is checked by `GuardMiddleware`, before anything is read.
    bearer = [Depends(HTTPBearer(auto_error=False, description="The service's token."))] if token else []
    protected = APIRouter(dependencies=bearer, responses=_responses(401) if token else {})
    _add_prediction(protected, batcher, info, limits)
    _add_operation(app, protected, batcher)
    app.include_router(protected)
    _add_page(app)
    add_error_handlers(app)
    _show_limits(app, limits)
    app.add_middleware(GuardMiddleware, limits=limits, metrics=batcher.metrics, token=token, protected=PROTECTED)
    if cors_origins:  # around the check of the token: a browser asks without it whether it may send it
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", REQUEST_ID],
            expose_headers=["Retry-After", REQUEST_ID],
        )
    return app


def _add_prediction(router: APIRouter, batcher: Batcher, info: Callable[[], ModelInfo], limits: Limits) -> None:
    @router.post(
        "/predict",
        summary="Find the entities of texts",
        tags=["prediction"],
        response_model=PredictResponse,
        responses=_responses(400, 408, 409, 413, 415, 422, 429, 500, 503, 504),
    )
    async def predict(body: PredictRequest, request: Request) -> Response:
        _check_size(body, limits)
        batcher.check_ready()
        guarantee = info().guarantee
        if guarantee is not None and (body.constraints or body.threshold):
            reason = "constraints and threshold must be left out: the service is under a guarantee, which /model shows"
            raise RefusedError(409, "conflict", reason)
        options = (body.probabilities, body.alternatives, body.graph)
        given = zip(body.texts, body.text_constraints())
        tasks = [Task(text, *options, constraints, body.threshold) for text, constraints in given]
        job = batcher.submit(tasks, request.scope["request_id"])
        results = await _results(batcher, job, request, limits.seconds)
        promise = "null" if guarantee is None else guarantee.model_dump_json()
        content = f'{{"results":[{",".join(results)}],"guarantee":{promise}}}'
        return Response(content, media_type="application/json")

    summary = "What the model is and how much it takes"

    @router.get("/model", summary=summary, tags=["prediction"], responses=_responses(503))
    async def model() -> ModelInfo:
        batcher.check_ready()
        return info()


def _add_operation(app: FastAPI, protected: APIRouter, batcher: Batcher) -> None:
    @app.get("/healthz", summary="The process answers", tags=["operation"])
    async def healthz() -> Health:
        return Health(status="ok")

    summary = "The model is loaded, warm, and takes requests"

    @app.get("/readyz", summary=summary, tags=["operation"], responses=_responses(503))
    async def readyz() -> Health:
        batcher.check_ready()
        return Health(status="ready")

    @protected.get("/metrics", summary="For Prometheus", tags=["operation"], response_class=Response, responses=METRICS)
    def metrics() -> Response:
        return Response(batcher.metrics.exposition(), media_type=CONTENT_TYPE_LATEST)


def model_info(name: str, predictor: TextPredictor, limits: Limits) -> ModelInfo:
    is_filtered = predictor.decoder_settings.filters
    return ModelInfo(
        name=name,
        head=predictor.head,
        labels=list(predictor.labels),
        probability=predictor.probability if is_filtered else "marginal",
        objective=predictor.objective,
        has_graph=is_filtered and predictor.can_explain,
        has_alternatives=predictor.can_explain,
        version=__version__,
        guarantee=None if predictor.promise is None else Promise(**predictor.promise.shown()),
        limits=ModelLimits.model_validate(limits, from_attributes=True),
    )


# ---- How a request is answered ---------------------------------------------------------------------------------------


def _check_size(body: PredictRequest, limits: Limits) -> None:
    for name, most, got in (
        ("texts", limits.texts, len(body.texts)),
        ("alternatives", limits.alternatives, body.alternatives),
    ):
        if got > most:
            raise RefusedError(422, "invalid", f"{name} must be at most {most}, got {got}")
    for i, text in enumerate(body.texts):
        if len(text) > limits.text_characters:
            reason = f"texts[{i}] must have at most {limits.text_characters:,} characters, got {len(text):,}"
            raise RefusedError(413, "text_too_long", reason)
    total = sum(map(len, body.texts))
    if (body.alternatives or body.graph) and total > limits.explained_characters:
        reason = f"texts must have at most {limits.explained_characters:,} characters together where alternatives or a "
        raise RefusedError(413, "texts_too_long", f"{reason}graph are asked for, got {total:,}; ask without")


async def _results(batcher: Batcher, job: Job, request: Request, seconds: float) -> list[str]:
    """The results, unless they take too long or the client closes the connection: then the job leaves the queue."""
    answer: asyncio.Future[Any] = asyncio.wrap_future(job.future)
    # After the body only a closed connection can come.
    gone: asyncio.Future[Any] = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait({answer, gone}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        if gone.done():
            raise RefusedError(CLIENT_GONE, "client_gone", "the client has closed the connection")
        raise RefusedError(504, "too_slow", f"no answer within {seconds:g} s; the request was dropped")
    finally:
        gone.cancel()
        if not answer.done():
            answer.cancel()
            batcher.withdraw(job)


def _show_limits(app: FastAPI, limits: Limits) -> None:
    """Add the limits to the OpenAPI schema, which is made once."""
    schemas = app.openapi()["components"]["schemas"]
    fields = schemas["PredictRequest"]["properties"]
    fields["texts"]["maxItems"] = limits.texts
    fields["texts"]["description"] += f" At most {limits.text_characters:,} characters each (413)."
    fields["alternatives"]["maximum"] = limits.alternatives
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)


# ---- The page at `/`: a few files of the package, read once ----------------------------------------------------------


def _add_page(app: FastAPI) -> None:
    for file in (Path(__file__).parent / "page").iterdir():
        if file.suffix in MEDIA_TYPES:
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            answer = _file(file.read_bytes(), MEDIA_TYPES[file.suffix])
            app.add_route(path, answer, methods=["GET"], include_in_schema=False)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return Response(_api_page(app.openapi()), media_type=MEDIA_TYPES[".html"])


def _file(content: bytes, media_type: str):
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}  # ask each time: another version may be running

    async def answer(request: Request) -> Response:
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=media_type, headers=headers)

    return answer


# ---- The page at `/docs`: the OpenAPI schema for reading, made here: nothing is loaded from elsewhere ----------------


def _api_page(schema: Mapping[str, Any]) -> str:
    """Write an OpenAPI schema as an HTML page: each path, what it takes, and what it answers."""
    described = "".join(f"<p>{escape(part)}</p>" for part in schema["info"]["description"].split("\n\n"))
    operations = [
        _operation(method, path, operation)
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    models = [_fields(name, model) for name, model in schema["components"]["schemas"].items() if "properties" in model]
    return API_PAGE.substitute(body="\n".join([described, *operations, "<h2>What is sent and answered</h2>", *models]))


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    taken = f"<p>Takes {_kind(body)}, as <code>application/json</code>.</p>" if body else ""
    answers = (
        (status, _kind(_content(answer)), escape(answer["description"]))
        for status, answer in operation["responses"].items()
    )
    title = f"<h2><code>{method.upper()} {escape(path)}</code></h2><p>{escape(operation['summary'])}.</p>"
    return title + taken + _table(("status", "answer", ""), answers)


def _content(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    contents: Iterable[Mapping[str, Any]] = answer.get("content", {}).values()
    return next((content["schema"] for content in contents), {})


def _fields(name: str, model: Mapping[str, Any]) -> str:
    needed = model.get("required", ())
    rows = (
        (
            f"<code>{escape(field)}</code>",
            _kind(about),
            escape(about.get("description", "")),
            "" if field in needed else f"<code>{escape(json.dumps(about.get('default')))}</code>",
        )
        for field, about in model["properties"].items()
    )
    title = f'<h3 id="{escape(name)}">{escape(name)}</h3><p>{escape(model.get("description", ""))}</p>'
    return title + _table(("field", "type", "", "default"), rows)


def _kind(about: Mapping[str, Any]) -> str:
    """The type of a value, with links to the models."""
    if "$ref" in about:
        name = escape(about["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in about:
        return " or ".join(map(_kind, about["anyOf"]))
    if "enum" in about:
        return " | ".join(f"<code>{escape(json.dumps(value))}</code>" for value in about["enum"])
    kind = escape(str(about.get("type", "")))
    return f"{kind} of {_kind(about['items'])}" if "items" in about else kind


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in header)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
