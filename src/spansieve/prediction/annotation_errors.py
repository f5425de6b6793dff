"""Annotation errors: what models that have not seen a sentence doubt of its annotation, the most doubtful first.

The data is cut into parts, and each part is judged by a model trained on the others (cross-fitting). For a segment s of
a sentence, the log-odds of its absence are

    log Z(s forbidden) - log Z(s required)

both exact, over all segmentations of the model's distribution. A model that filters spans may have dropped s; required,
it is a candidate again, with its own score, so that these are the odds in the graph of the candidates and s. Where the
global scores were learned of what the filter kept alone (`global_loss` filtered), they say nothing of whether to keep
it: there P(s) is that of the graph times the filter's own of the label, as `with-filter` probabilities are.

An annotated segment is as suspicious as these odds are high. A segment that is not annotated is as suspicious as they
are low; those that are judged are in one of the k best segmentations of the sentence, and overlap no annotated one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch.nn.functional import logsigmoid

from spansieve.config import Config
from spansieve.crf import Known, given
from spansieve.data.batching import by_document
from spansieve.data.example import Example, check_known
from spansieve.models.crf import CRF
from spansieve.models.filtered import FilteredHead, FilterOnly
from spansieve.models.head import Head
from spansieve.models.storage import load_model
from spansieve.models.tagger import Tagger
from spansieve.models.torch_backend import Scored, predict_segments
from spansieve.prediction.alternatives import Entities, k_best, selected
from spansieve.segments import NamedSegment, Segment
from spansieve.training.callbacks import Observer
from spansieve.training.run import train

Doubt = Literal["no entity", "wrong label", "wrong boundaries", "missing"]
K_BEST = 5  # segmentations, whose segments are judged where they are not annotated
MIN_DOUBT = 1e-300  # of P = 1, whose odds would be infinite
DEV_PARTS = 10  # of what a model is trained on, one chooses its best epoch


class Finding(NamedTuple):
    """A segment of which the annotation is doubted, and what the model reads instead."""

    sentence: int  # which of the examples
    segment: NamedSegment  # annotated or, if it is missing, not
    doubt: Doubt
    log_odds: float  # that the annotation is wrong here: of the segment's absence or, if it is missing, its presence
    segmentation: tuple[NamedSegment, ...]  # the best of the whole sentence that disagrees with the annotation here
    probability: float  # of this segmentation among those that disagree here


class Claim(NamedTuple):
    """What an annotation says of a segment: that it is there, or that it is not."""

    row: int  # its sentence's, in a batch
    segment: Segment
    is_annotated: bool


class Audit(NamedTuple):
    """What was found, the most suspicious first, and how many annotated segments no model could judge: they overlap
    another, are wider than any of the model's, or have a label of which the other parts have none."""

    findings: list[Finding]
    num_not_judged: int


def audit(
    config: Config,
    examples: Sequence[Example],
    folder: str | Path,
    folds: int = 5,
    *,
    use_cpu: bool = False,
    observer: Observer | None = None,
) -> Audit:
    """Judge each of `folds` parts of the data by a model trained on the others, in `folder/fold-1` and so on, where an
    interrupted audit goes on. Sentences of one document are in one part, and so are equal sentences without any."""
    check_known(examples, "audited data")
    parts = parts_of_data(examples, folds, config.training.seed)
    findings: list[Finding] = []
    num_not_judged = 0
    for number, part in enumerate(parts, start=1):
        others = [examples[i] for other in parts if other is not part for i in other]
        dev, *rest = parts_of_data(others, min(DEV_PARTS, len(by_document(others))), config.training.seed)
        training = [others[i] for indices in rest for i in indices]
        run = Path(folder) / f"fold-{number}"
        result = train(config, training, [others[i] for i in dev], run, resume=True, observer=observer, use_cpu=use_cpu)
        found = findings_of(load_model(result.model, "cpu"), [examples[i] for i in part])
        findings += [finding._replace(sentence=part[finding.sentence]) for finding in found.findings]
        num_not_judged += found.num_not_judged
    return Audit(sorted(findings, key=lambda finding: (-finding.log_odds, finding.sentence)), num_not_judged)


def parts_of_data(examples: Sequence[Example], count: int, seed: int) -> list[list[int]]:
    """Cut the data into parts of about as many tokens each; a document, or all of a sentence, is whole."""
    groups = by_document(examples)
    if not 2 <= count <= len(groups):
        raise ValueError(
            f"the number of parts must lie between 2 and the {len(groups)} documents or different sentences of the "
            f"data, got {count}"
        )
    random.Random(seed).shuffle(groups)
    parts: list[list[int]] = [[] for _ in range(count)]
    tokens = [0] * count
    for group in groups:
        smallest = min(range(count), key=lambda p: (tokens[p], len(parts[p])))
        parts[smallest] += group
        tokens[smallest] += sum(len(examples[i]) for i in group)
    return parts


def findings_of(tagger: Tagger, examples: Sequence[Example]) -> Audit:
    """Judge examples, which the model should not have seen, in their order."""
    judged = []
    for example in examples:
        known = tuple(segment for segment in example.segments if segment.label in tagger.labels.names)
        learnable = set(tagger.training_segments(Example(example.tokens, known))[0])
        judged.append([Segment(s.start, s.end, tagger.labels.id(s.label)) for s in sorted(learnable)])
    found: list[Finding] = []

    def on_batch(indices: Sequence[int], scored: Scored) -> None:
        best = k_best(tagger.head, tagger.head.distribution_of(*scored), K_BEST)
        claims: list[Claim] = []
        for row, (i, segmentations) in enumerate(zip(indices, best)):
            likely = {segment for segments, _ in segmentations for segment in segments}
            missing = [s for s in sorted(likely) if _is_clear(s, examples[i], tagger.head.kind == "nested")]
            claims += [Claim(row, s, True) for s in judged[i]] + [Claim(row, s, False) for s in missing]
        for start in range(0, len(claims), len(indices)):  # as many at once as the batch has sentences
            some = claims[start : start + len(indices)]
            for claim, (log_odds, entities, probability) in zip(some, judge(tagger.head, scored, some)):
                (segment,), segmentation = tagger.named([claim.segment]), tuple(tagger.named(sorted(entities)))
                doubt = _doubt(segment, segmentation) if claim.is_annotated else "missing"
                found.append(Finding(indices[claim.row], segment, doubt, log_odds, segmentation, probability))

    predict_segments(tagger, [example.tokens for example in examples], on_batch=on_batch)
    num_annotated = sum(len(set(example.segments)) for example in examples)
    return Audit(sorted(found), num_annotated - sum(map(len, judged)))


def _is_clear(segment: Segment, example: Example, nests: bool) -> bool:
    """Whether a segment may be annotated beside the others: no two share a token unless one lies within the other."""
    annotated = [Segment(s.start, s.end, 0) for s in example.segments]
    sharing = [other for other in annotated if segment.overlaps(other)]
    within = [o for o in sharing if segment[:2] != o[:2] and (segment.contains(o) or o.contains(segment))]
    return len(within) == len(sharing) if nests else not sharing


def judge(head: Head, scored: Scored, claims: Sequence[Claim]) -> list[tuple[float, Entities, float]]:
    """Compute of each claim the log-odds that it is wrong, the best segmentation where it is wrong, and the probability
    of that segmentation there."""
    distribution = head.distribution_of(*selected(scored, [claim.row for claim in claims]))
    tags = head.tags if isinstance(head, CRF) else None
    forbidden = [Known(forbidden=[claim.segment]) for claim in claims]
    present = given(distribution, [Known(required=[claim.segment]) for claim in claims], tags=tags)
    absent = given(distribution, forbidden, tags=tags)
    of_presence = present.log_partition.double() - absent.log_partition.double()
    if isinstance(head, FilteredHead) and head.is_loss_filtered and not isinstance(head, FilterOnly):
        strict = given(distribution, forbidden, remove=False)
        of_presence = present.log_partition.double() - strict.log_partition.double()
        by_filter = head.local_log_probabilities(tuple(part.double() for part in scored.scores))
        index = [(c.row, c.segment.start, c.segment.width - 1, c.segment.label) for c in claims]
        log_p = logsigmoid(of_presence) + by_filter[tuple(torch.tensor(index).T)]
        of_presence = log_p - (-log_p.clamp(max=-MIN_DOUBT).expm1()).log()
    of_absence = (-of_presence).tolist()
    segmentations = zip(k_best(head, present, 1), k_best(head, absent, 1))
    return [
        (odds if claim.is_annotated else -odds, *pair[claim.is_annotated][0])
        for claim, odds, pair in zip(claims, of_absence, segmentations)
    ]


def _doubt(segment: NamedSegment, segmentation: Sequence[NamedSegment]) -> Doubt:
    if any(other[:2] == segment[:2] for other in segmentation):
        return "wrong label"
    is_shared = any(other.start < segment.end and segment.start < other.end for other in segmentation)
    return "wrong boundaries" if is_shared else "no entity"
