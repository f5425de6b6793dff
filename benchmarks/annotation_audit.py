"""How well an audit finds annotation errors that others have corrected: by segments, and by tokens."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.result_page import ResultPage, Table
from spansieve.config import Config
from spansieve.crf import FilteredSemiMarkov
from spansieve.data.example import Example
from spansieve.models.fsemicrf import FSemiCRF
from spansieve.models.storage import load_model
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import Scored, predict_segments
from spansieve.prediction.annotation_errors import Finding, audit, parts_of_data
from spansieve.segments import NamedSegment
from spansieve.training.callbacks import Observer

FIRST = (50, 100, 200, 500)


class Pair(NamedTuple):
    """A sentence as it was annotated and as it was corrected, where both have the same tokens."""

    annotated: Example
    corrected: Example

    def is_wrong(self, segment: NamedSegment) -> bool:
        """Whether the annotation is wrong at a segment: it is annotated and no longer there, or it is not annotated and
        shares a token with what was added."""
        if segment in self.annotated.segments:
            return segment not in self.corrected.segments
        return any(s.start < segment.end and segment.start < s.end for s in self.corrected.segments)

    @property
    def errors(self) -> list[NamedSegment]:
        """The annotated segments that were changed or removed, and those that were added where there was none."""
        changed = [s for s in self.annotated.segments if s not in self.corrected.segments]
        covered = {i for s in self.annotated.segments for i in range(s.start, s.end)}
        return changed + [s for s in self.corrected.segments if not covered & set(range(s.start, s.end))]


class Ranking(NamedTuple):
    """What a ranking is worth."""

    name: str
    items: int
    average_precision: float
    precision: dict[int, float]  # among the first so many


class AuditResult(NamedTuple):
    rankings: list[Ranking]
    errors: int  # in the sentences that are compared
    entities: int
    compared: int  # sentences
    findings: list[Finding]


def paired(annotated: Sequence[Example], corrected: Sequence[Example]) -> dict[int, Pair]:
    """Pair the sentences that both have, in their order, by which of the annotated it is."""
    before, after = ([example.tokens for example in examples] for examples in (annotated, corrected))
    blocks = SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks()
    return {a + i: Pair(annotated[a + i], corrected[b + i]) for a, b, size in blocks for i in range(size)}


def run_audit(
    config: Config,
    examples: Sequence[Example],
    pairs: dict[int, Pair],
    folder: Path,
    folds: int,
    observer: Observer | None = None,
) -> AuditResult:
    """Audit all examples; those of `pairs` are scored."""
    found = audit(config, examples, folder, folds, observer=observer)
    probabilities: dict[int, list[dict[str, float]]] = {}
    for number, part in enumerate(parts_of_data(examples, folds, config.training.seed), start=1):
        own = [i for i in part if i in pairs]
        tagger = load_model(folder / f"fold-{number}" / "model")
        probabilities |= zip(own, token_probabilities(tagger, [examples[i].tokens for i in own]))
    findings = [finding for finding in found.findings if finding.sentence in pairs]
    errors = sum(len(pair.errors) for pair in pairs.values())
    entities = sum(len(pair.annotated.segments) for pair in pairs.values())
    by_segment = [(f.log_odds, pairs[f.sentence].is_wrong(f.segment)) for f in findings]
    tokens, segments = by_tokens(pairs, probabilities)
    rankings = [
        ranking("segments, by exact log-odds", by_segment, errors),
        ranking("segments, by their least probable token", segments, errors),
        ranking("tokens, by their probability", tokens, sum(is_wrong for _, is_wrong in tokens)),
    ]
    return AuditResult(rankings, errors, entities, len(pairs), findings)


def by_tokens(
    pairs: dict[int, Pair], probabilities: dict[int, list[dict[str, float]]]
) -> tuple[list[tuple[float, bool]], list[tuple[float, bool]]]:
    """Score by 1 - P(the annotated label of the token) every token, and every place: an annotated segment by its least
    probable token, and each token outside as a segment of its own."""
    tokens, places = [], []
    for i, pair in pairs.items():
        annotated, corrected = labels_of(pair.annotated), labels_of(pair.corrected)
        doubt = [1 - p.get(label, 0.0) for p, label in zip(probabilities[i], annotated)]
        tokens += [(d, a != c) for d, a, c in zip(doubt, annotated, corrected)]
        outside = [NamedSegment(t, t + 1, "") for t, label in enumerate(annotated) if not label]
        places += [(max(doubt[s.start : s.end]), pair.is_wrong(s)) for s in (*pair.annotated.segments, *outside)]
    return tokens, places


def labels_of(example: Example) -> list[str]:
    """The label of each token, empty outside of segments."""
    labels = [""] * len(example)
    for segment in example.segments:
        labels[segment.start : segment.end] = [segment.label] * segment.width
    return labels


def token_probabilities(tagger: Tagger, sentences: Sequence[Sequence[str]]) -> list[list[dict[str, float]]]:
    """Compute P(label of the token) of every token, by the marginals of all segments, the filter left out."""
    head = tagger.head
    if not isinstance(head, FSemiCRF) or not head.skip:
        raise ValueError(f"model.head must be fsemicrf with model.skip=true, got {tagger.config.head!r}")
    found: list[list[dict[str, float]]] = [[] for _ in sentences]
    names = ("", *tagger.labels.names)

    def on_batch(indices: Sequence[int], scored: Scored) -> None:
        local_scores, global_scores = scored.scores
        everything, limits = head.for_loss(local_scores) if not head.is_loss_filtered else (local_scores, head.limits)
        inputs = (everything, global_scores, head.transition, scored.lengths)
        marginals = FilteredSemiMarkov.from_scores(*inputs, skip=True, **limits._asdict()).marginals.detach()
        covering = torch.zeros_like(marginals[:, :, 0])  # (B, L, Y)
        for width in range(marginals.shape[2]):
            for offset in range(min(width + 1, covering.shape[1])):
                covering[:, offset:] += marginals[:, : covering.shape[1] - offset, width]
        covering[..., 0] = 1 - covering[..., 1:].sum(-1)
        for row, i in enumerate(indices):
            found[i] = [dict(zip(names, token)) for token in covering[row, : len(sentences[i])].tolist()]

    predict_segments(tagger, sentences, on_batch=on_batch)
    return found


def ranking(name: str, items: Sequence[tuple[float, bool]], errors: int) -> Ranking:
    """Rank items by their doubt. Average precision counts errors that are no items as found by none."""
    hits = [is_wrong for _, is_wrong in sorted(items, key=lambda item: -item[0])]
    found, total = 0, 0.0
    for place, is_hit in enumerate(hits, start=1):
        found += is_hit
        total += found / place if is_hit else 0.0
    return Ranking(name, len(items), total / max(errors, 1), {n: sum(hits[:n]) / n for n in FIRST if n <= len(hits)})


# ---- What is shown ---------------------------------------------------------------------------------------------------

ABOUT = (
    "{sentences:,} sentences are annotated as they were published, {compared:,} of them have the same tokens in the "
    "corrected edition; in these, {errors:,} places are wrong by its authors' corrections, beside {entities:,} "
    "annotated entities. Each of {folds} models is trained on the other parts of the published annotation, with "
    "{encoder} for {epochs} epochs, and judges its own. *segments, by exact log-odds* is `spansieve audit`. The others "
    "have the same models' exact marginals, summed over the segments that hold a token: P(the annotated label of the "
    "token), for each token, or the least of an annotated segment's tokens. Average precision is over all places that "
    "are wrong, found or not; that of tokens over the tokens that are wrong."
)


def audit_page(result: AuditResult, config: Config, corpus: str, sentences: int, folds: int, device: str) -> ResultPage:
    encoder = config.model.encoder.name
    about = ABOUT.format(
        sentences=sentences,
        compared=result.compared,
        errors=result.errors,
        entities=result.entities,
        folds=folds,
        encoder="the built-in encoder" if encoder == "builtin" else f"the encoder {Path(encoder).name}",
        epochs=config.training.epochs,
    )
    rows = [
        {"what is ranked": r.name, "items": f"{r.items:,}", "average precision": f"{r.average_precision:.3f}"}
        | {f"precision of the first {n}": f"{r.precision[n]:.2f}" if n in r.precision else "" for n in FIRST}
        for r in result.rankings
    ]
    title = f"Annotation errors found by cross-fitted models: {corpus}"
    return ResultPage(f"audit_{corpus}_{Path(encoder).name}_{device}", title, [about, Table(rows)], device=device)
