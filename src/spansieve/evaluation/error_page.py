"""The errors of a model as an HTML page: one file that loads nothing and runs nothing, with all text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template

from spansieve.data.example import Example
from spansieve.data.overlap_resolution import laminar
from spansieve.evaluation.error_types import ERROR_KINDS, ErrorAnalysis, SegmentError
from spansieve.segments import NamedSegment

PAGE = Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))
MAX_SENTENCES = 200  # of a page
Predicted = Mapping[NamedSegment, float | None]  # with probabilities
_COLOURS = ("210 40 40", "150 60 200", "225 120 0", "30 110 220", "130 90 50", "40 150 70")
_OPENING = {kind: f"<mark style='--colour: {colour}'>" for kind, colour in zip((*ERROR_KINDS, "right"), _COLOURS)}
_MARK = {kind: f"{opening}{kind}</mark>" for kind, opening in _OPENING.items()}


def error_page(
    title: str,
    examples: Sequence[Example],
    predicted: Sequence[Predicted],
    analysis: ErrorAnalysis,
    max_sentences: int = MAX_SENTENCES,
) -> str:
    """Make a page of the worst sentences, gold beside predictions: the most errors first and, of equals, the most
    probability on wrong predictions."""
    errors: dict[int, list[SegmentError]] = {}
    for error in analysis.errors:
        errors.setdefault(error.sentence, []).append(error)
    worst = sorted(errors, key=lambda b: (-len(errors[b]), -sum(error.probability or 0 for error in errors[b])))
    articles = [_article(b, examples[b], predicted[b], errors[b]) for b in worst[:max_sentences]]
    kinds = [[label, *counts.values()] for label, counts in analysis.by_label.items()]
    kinds.append(["all", *analysis.by_kind.values()])
    labels = sorted({label for pair in analysis.confusion for label in pair if label is not None})
    ends = [*((label, label) for label in labels), ("nothing", None)]
    confusion = [[name, *(analysis.confusion[gold, label] for _, label in ends)] for name, gold in ends]
    return PAGE.substitute(
        {kind.replace(" ", "_"): mark for kind, mark in _MARK.items()},
        title=escape(title),
        errors=f"{len(analysis.errors):,}",
        wrong=f"{len(errors):,}",
        sentences=f"{len(examples):,}",
        kinds=_table("errors by label, those of pairs under gold's", ["label", *ERROR_KINDS], kinds),
        confusion=_table("gold by predicted label, whatever the boundary", ["gold", *dict(ends)], confusion),
        shown=f"{len(articles):,}",
        articles="".join(articles),
    )


def _article(number: int, example: Example, predicted: Predicted, errors: Sequence[SegmentError]) -> str:
    kind = {segment: error.kind for error in errors for segment in (error.gold, error.predicted)}
    rows = [
        f"<tr><td>{_MARK[error.kind]}<td>{_quoted(example, error.gold, None)}"
        f"<td>{_quoted(example, error.predicted, error.probability)}"
        for error in errors
    ]
    columns = [
        f"<div><small>{name}</small><div dir='auto'>{_marked(example, segments, kind)}</div></div>"
        for name, segments in (("gold", dict.fromkeys(example.segments)), ("predicted", predicted))
    ]
    document = "" if example.document is None else f" of {escape(example.document)}"
    return f"""<article><small>sentence {number}{document}</small><div class="pair">{"".join(columns)}</div>
<table><tr><th>error<th>gold<th>predicted{"".join(rows)}</table></article>
"""


def _marked(example: Example, segments: Predicted, kind: Mapping[NamedSegment | None, str]) -> str:
    """The sentence with its segments marked. Of those that cross, one can be: errors stand below the sentence, too."""
    nested = laminar(Example(example.tokens, tuple(segments)))[0].segments
    opening, closing = [""] * len(example), [""] * len(example)
    for segment in nested:  # by start and end: what is within another comes after it, unless both start together
        opening[segment.start] = _OPENING[kind.get(segment, "right")] + opening[segment.start]
    for segment in reversed(nested):
        closing[segment.end - 1] += f"{_tag(segment, segments[segment])}</mark>"
    return " ".join(map("{}{}{}".format, opening, map(escape, example.tokens), closing))


def _quoted(example: Example, segment: NamedSegment | None, probability: float | None) -> str:
    return "–" if segment is None else f"<bdi>{escape(example.words(segment))}</bdi>{_tag(segment, probability)}"


def _tag(segment: NamedSegment, probability: float | None) -> str:
    return f"<small>{escape(segment.label)}{'' if probability is None else f' {probability:.2f}'}</small>"


def _table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = "".join(f"<th>{escape(name)}" for name in columns)
    body = "".join("<tr><th>" + "<td>".join(escape(str(cell or "·")) for cell in row) for row in rows)
    return f"<table><caption>{title}</caption><tr>{head}{body}</table>"
