"""Requests and responses, as OpenAPI shows them. All positions are characters (code points) of the text, half-open."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from spansieve.decoding.constraints import ConstraintError, Constraints
from spansieve.models.inference import SURROGATE
from spansieve.serving.limits import Limits, RefusedError

MAX_FIELDS = 16  # of an object: each that is unknown would be an error of its own
EXAMPLE = "Ada Lovelace met Charles Babbage in London."


def _whole(value: Any) -> Any:
    """Read a whole number: 3.0 is an integer to JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


class RequestModel(BaseModel):
    """The base of what clients send: a misspelt option is refused and not overlooked."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _has_few_fields(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > MAX_FIELDS:
            raise ValueError(f"an object must have at most {MAX_FIELDS} fields, got {len(given):,}")
        return given


Position = Annotated[int, Field(ge=0), BeforeValidator(_whole)]
Probability = Annotated[float, Field(ge=0, le=1)]


class CompleteSpan(RequestModel):
    start: Position
    end: Position


class RequiredEntity(CompleteSpan):
    label: str


class ForbiddenEntity(CompleteSpan):
    label: str | None = Field(None, description="null: whatever its label.")


class TextConstraints(RequestModel):
    """Constraints that the entities of a text must agree with. They are the best set that does, and their probabilities
    are conditioned on it, but for the thresholds. Positions are characters; they must fall on the borders of tokens."""

    required: list[RequiredEntity] = Field([], description="Entities that are there.")
    forbidden: list[ForbiddenEntity] = Field([], description="Entities that are not.")
    complete: list[CompleteSpan] = Field([], description="Where there is no entity but the required ones.")
    banned: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        [],
        description="Pairs of labels that must not meet: in entities that follow one another where a model filters, "
        "that touch in others, that lie one right within the other in a nested one.",
    )
    thresholds: dict[str, Probability] = Field({}, description="By label: less probable entities are not returned.")

    def to_constraints(self) -> Constraints:
        """Convert to the constraints of a text that a predictor takes."""
        return Constraints(
            required=[(entity.start, entity.end, entity.label) for entity in self.required],
            forbidden=[(entity.start, entity.end, entity.label) for entity in self.forbidden],
            complete=[(span.start, span.end) for span in self.complete],
            banned=[(first, second) for first, second in self.banned],
            thresholds=self.thresholds,
        )


def _num_constraints(given: Any) -> int:
    """Count the constraints of a text, which are not checked yet."""
    parts = given.values() if isinstance(given, dict) else [given]
    return sum(len(part) if isinstance(part, (list, dict)) else part is not None for part in parts)


class PredictRequest(RequestModel):
    """Texts, and what to give of each beside its entities."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"texts": [EXAMPLE]}]})

    texts: list[str] = Field(
        fail_fast=True, description="The texts to read; each is split into sentences and tokens by the service."
    )
    probabilities: bool = Field(True, description="Give each entity its probability.")
    alternatives: Annotated[int, BeforeValidator(_whole)] = Field(
        0, ge=0, description="How many of the best segmentations of each sentence to give, the best included; 0: none."
    )
    graph: bool = Field(False, description="Give each sentence's filtered graph: candidates, their scores, edges.")
    threshold: Probability = Field(0.0, description="Less probable ones are not returned; `thresholds` by label win.")
    constraints: list[TextConstraints | None] | None = Field(
        None, description=f"Those of each text, null for none; at most {Limits.constraints:,} in all (413)."
    )

    @model_validator(mode="before")
    @classmethod
    def _has_few_constraints(cls, given: Any) -> Any:
        """Count before anything is made of them: a megabyte has 35,000, for half a second."""
        constraints = given.get("constraints") if isinstance(given, dict) else None
        if isinstance(constraints, list):
            count = sum(map(_num_constraints, constraints))
            if count > Limits.constraints:
                reason = f"constraints must be at most {Limits.constraints:,} in all texts of a request, got {count:,}"
                raise RefusedError(413, "too_many_constraints", f"{reason}; send fewer texts at a time")
        return given

    @field_validator("texts")
    @classmethod
    def _is_unicode(cls, texts: list[str]) -> list[str]:
        for i, text in enumerate(texts):
            if half := SURROGATE.search(text):
                raise ValueError(f"texts[{i}] must be Unicode, got half a surrogate pair at {half.start()}")
        return texts

    def text_constraints(self) -> list[Constraints | None]:
        """The constraints of each text."""
        if self.constraints is None:
            return [None] * len(self.texts)
        if len(self.constraints) != len(self.texts):
            reason = f"constraints must be one per text, {len(self.texts)}, got {len(self.constraints)}"
            raise RefusedError(409, "conflict", reason)
        constraints: list[Constraints | None] = []
        for i, given in enumerate(self.constraints):
            try:
                constraints.append(None if given is None else given.to_constraints())
            except ConstraintError as error:
                raise RefusedError(409, "conflict", f"constraints[{i}]: {error}") from error
        return constraints


class ResponseModel(BaseModel):
    """The base of what the service returns: exactly these fields."""

    model_config = ConfigDict(extra="forbid", json_schema_serialization_defaults_required=True)


class Entity(ResponseModel):
    """An entity. `text` is what stands at `[start, end)`, in code points, of the text that was sent."""

    start: int = Field(ge=0)
    end: int = Field(ge=1)
    label: str
    text: str = Field(min_length=1)
    probability: Probability | None = Field(
        description="Of exactly this span with this label being in the output, by the model; `/model` says which of a "
        "filtered one. null where it was not asked for.",
    )
    depth: int = Field(0, ge=0, description="How many entities it lies within; above 0 only with nested models.")


class Alternative(ResponseModel):
    """A segmentation of a sentence."""

    probability: Probability = Field(description="Of the segmentation as a whole.")
    entities: list[Entity] = Field(description="Without probabilities of their own.")


class Candidate(ResponseModel):
    """A node of the filtered graph: a span that the filter kept, with its label."""

    start: int = Field(ge=0, description="In characters of the text.")
    end: int = Field(ge=1)
    first_token: int = Field(ge=0, description="The index, among the tokens of the sentence, of its first token.")
    last_token: int = Field(ge=0, description="That of its last token.")
    label: str
    local_score: float = Field(description="By which the filter kept it: how far its label stands above null.")
    local_probability: Probability = Field(description="That the span has this label, by the filter alone.")
    global_score: float = Field(description="What it adds to the score of a path.")
    probability: Probability = Field(description="That it is on the path.")
    best: bool = Field(description="It is on the best path.")


class Edge(ResponseModel):
    """One candidate may follow another; null is the start of the sentence, or its end."""

    source: int | None = Field(description="Index among the candidates; null: the start.")
    target: int | None = Field(description="Index among the candidates; null: the end.")
    transition: float = Field(description="What the edge adds to the score of a path.")


class Graph(ResponseModel):
    candidates: list[Candidate]
    num_edges: int = Field(ge=0, description="Start and end included; none where a nested model chooses a set.")
    edges: list[Edge] | None = Field(description="null where there are too many to list.")


class Sentence(ResponseModel):
    start: int = Field(ge=0)
    end: int = Field(ge=1)
    tokens: list[tuple[int, int]] = Field(description="`[start, end)` of each token, in characters of the text.")
    entropy: float | None = Field(ge=0, description="In nats, of all segmentations: how unsure the model is.")
    alternatives: list[Alternative] | None = Field(description="Best first; null where not asked for, or see `note`.")
    graph: Graph | None = Field(description="null where not asked for, or see `note`.")
    note: str | None = Field(description="Why something that was asked for is missing.")


class Result(ResponseModel):
    """The result of one text."""

    entities: list[Entity] = Field(description="In order; no two overlap, but of a nested model one may hold another.")
    sentences: list[Sentence] | None = Field(description="Where alternatives or a graph were asked for.")


class Promise(ResponseModel):
    """A promise that the model's guarantee makes for text like that it was calibrated on."""

    promise: Literal["miss", "precision"] = Field(
        description="miss: at most this share of the entity tokens is left uncovered; precision: at least this share "
        "of the entities is right."
    )
    level: Probability
    confidence: Probability | None = Field(description="Over the draw of the labelled text.")
    made: str = Field(description="On which day.")


class PredictResponse(ResponseModel):
    results: list[Result] = Field(description="One per text, in the order of the request.")
    guarantee: Promise | None = Field(description="The promise that the results are under, where the service has one.")


class ModelLimits(ResponseModel):
    """The limits of the service: more is refused."""

    body_bytes: int
    texts: int
    text_characters: int
    sentence_tokens: int
    constraints: int = Field(description="Of all texts together.")
    explained_characters: int = Field(description="Of all texts together, with alternatives or graphs.")
    alternatives: int
    seconds: float


class ModelInfo(ResponseModel):
    name: str
    head: str = Field(description="Which of the models it is.")
    labels: list[str]
    probability: Literal["marginal", "given-candidates", "with-filter"] = Field(
        description="What an entity's probability is: its marginal; of a model that filters, given the candidates, or "
        "that times the filter's own probability of the label."
    )
    objective: str = Field(description="What is largest of the entities: their probability or, as f1=0.4, expected F1.")
    has_graph: bool = Field(description="It filters candidates, so that there is a graph to give.")
    has_alternatives: bool = Field(description="It can give alternatives; an ONNX export cannot.")
    version: str = Field(description="Of spansieve.")
    guarantee: Promise | None = Field(description="The promise that all entities are under; it takes no constraints.")
    limits: ModelLimits


class Health(ResponseModel):
    status: Literal["ok", "ready"]


Code = Literal[
    "malformed", "unauthorized", "not_found", "method_not_allowed", "unsupported_media_type",
    "headers_too_slow", "body_too_slow", "body_too_large", "text_too_long", "texts_too_long", "sentence_too_long",
    "too_many_constraints", "invalid", "conflict",
    "queue_full", "model_failed", "internal", "not_ready", "shutting_down", "too_slow",
]  # fmt: skip


class Problem(ResponseModel):
    """Why a request was not answered."""

    code: Code = Field(description="For programs.")
    reason: str = Field(description="For people.")
