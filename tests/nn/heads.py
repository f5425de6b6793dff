"""Heads on drawn vectors of tokens, with their oracles: what a structure is worth, by enumeration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from spansieve import Segment
from spansieve.config import ModelConfig
from spansieve.models.crf import CRF
from spansieve.models.filtered import FilteredHead, GlobalSelection
from spansieve.models.fsemicrf import FSemiCRF
from spansieve.models.head import Head
from spansieve.models.heads import head_class
from spansieve.models.semi_crf import SemiCRF
from spansieve.segments import LabelSet
from tests import oracle

SIZE = 5


def head_of(name: str, num_names: int = 2, max_width: int = 3, seed: int = 0, **settings) -> Head:
    """With weights that say something, transitions included."""
    torch.manual_seed(seed)
    config = ModelConfig(head=name, hidden_size=6, dropout=0.0, **settings)
    labels = LabelSet([f"L{i}" for i in range(num_names)])
    head = head_class(name)(config, labels, SIZE, max_width).eval()
    for parameter in head.parameters():
        torch.nn.init.normal_(parameter)
    return head


def keep_half(head: FilteredHead, vectors: torch.Tensor, lengths: list[int]) -> None:
    """Move the bias of null so that the filter keeps about half of what it decides on, and nothing by a hair.

    Null is put into the widest gap among the middle ones, a margin included: were it as good as some label, how a
    processor rounds would say whether that one is kept.
    """
    with torch.no_grad():
        local = head.scorer.dense(head.scorer(vectors))[..., : len(head.labels)]
        end = torch.arange(local.shape[1])[:, None] + torch.arange(1, local.shape[2] + 1)
        labels = local[end <= torch.tensor(lengths)[:, None, None]]  # (spans, Y)
        best = labels[:, 1:].topk(min(head.limits.labels_per_span, labels.shape[1] - 1)).values
        below_null = (labels[:, :1] - best).flatten().sort().values
        quarter = len(below_null) // 4
        middle = below_null[quarter : len(below_null) - quarter]
        widest = int(middle.diff().argmax())
        bias = head.scorer.output.bias if head.scorer.output.bias is not None else head.scorer.bias
        bias[0] += getattr(head, "margin", 0.0) - middle[widest : widest + 2].mean()


def vectors_of(lengths: list[int], seed: int = 0) -> torch.Tensor:
    torch.manual_seed(seed + 1)
    return torch.randn(len(lengths), max(lengths, default=0), SIZE)


def oracle_of(head: Head, vectors: torch.Tensor, lengths: list[int], gold=None, unknown=None) -> oracle.Oracle:
    """Everything listed. With gold, of what the filtered heads keep in training."""
    with torch.no_grad():
        if isinstance(head, CRF):
            transition = np.where(head.constraints.is_allowed, head.transition, -np.inf)
            return _tagged(head, head.output(vectors).numpy(), transition, lengths)
        scores = head.scorer.dense(head.scorer(vectors)).numpy()
    if isinstance(head, SemiCRF):
        return oracle.semi_markov(scores, head.transition.detach().numpy(), lengths, head.unit_null)
    return _filtered(head, scores, lengths, gold, unknown or [()] * len(lengths))


def _tagged(head: CRF, scores: np.ndarray, transition: np.ndarray, lengths: list[int]) -> oracle.Oracle:
    listed = oracle.linear_chain(scores, transition, lengths)
    is_start, is_end = head.constraints.can_start.numpy(), head.constraints.can_end.numpy()
    for b, sentence in enumerate(listed.scored):
        listed.scored[b] = [
            (score, one)
            for score, one in sentence
            if not one.labels or (is_start[one.labels[0]] and is_end[one.labels[-1]])
        ]
    return listed


def _filtered(head: FilteredHead, scores: np.ndarray, lengths: list[int], gold, unknown) -> oracle.Oracle:
    num_labels = len(head.labels)
    local = scores[..., :num_labels]
    transition = np.zeros((num_labels, num_labels))
    if isinstance(head, GlobalSelection):
        global_scores = np.repeat(scores[..., num_labels:], num_labels, axis=-1)
    elif isinstance(head, FSemiCRF):
        global_scores, transition = scores[..., num_labels:], head.transition.detach().numpy()
    else:
        global_scores = local - local[..., :1]
    if getattr(head, "score_null", False):
        null, global_scores = global_scores[:, :, 0, 0], global_scores.copy()
        for start, width in itertools.product(*map(range, global_scores.shape[1:3])):
            global_scores[:, start, width] -= null[:, start : start + width + 1].sum(1, keepdims=True)
    skip = head.kind == "nested" or getattr(head, "skip", False)
    local = np.concatenate((local[..., :1] - getattr(head, "margin", 0.0), local[..., 1:]), -1)
    limits = {"labels_per_span": head.limits.labels_per_span, "budget": head.limits.budget}
    if gold is None:
        kept = oracle.kept_by_filter(local, lengths, **limits)
    elif head.is_loss_filtered:
        kept = oracle.kept_for_training(local, lengths, gold, skip, unknown, **limits)
    else:
        kept = oracle.every_span(local, lengths)
    if gold is not None and isinstance(head, GlobalSelection):
        kept = [_one_label_per_span(nodes, golden) for nodes, golden in zip(kept, gold)]
    flat = [
        global_scores[b, s.start, s.width - 1, s.label]
        for b, nodes in enumerate(kept)
        for s in sorted(nodes, key=lambda s: (s.end, s.start, s.label))
    ]
    if head.kind == "nested":
        return oracle.nested(kept, np.array(flat), transition if isinstance(head, FSemiCRF) else None)
    return oracle.filtered(kept, np.array(flat), transition, skip)


def _one_label_per_span(nodes: list[Segment], golden: list[Segment]) -> list[Segment]:
    """The gold label where there is one. Which one elsewhere does not matter: the labels of a span have one score."""
    by_span = {(s.start, s.end): s for s in (*nodes, *golden)}
    return sorted(by_span.values())


def probability_of(listed: oracle.Oracle, head: Head, b: int, segment: Segment) -> float:
    """The part of all structures of sentence b, by their probability, that say that this segment is one."""
    return sum(p for p, one in listed.probabilities(b) if segment in entities_by_definition(head, one.structure))


def are_level(listed: oracle.Oracle, b: int, one, other) -> bool:
    """Two structures of sentence b are the same, or so equally good that rounding alone makes one of them the best.

    Of the largest features, two spans that differ by a token which adds nothing have the same scores.
    """
    score = {str(each.structure): value for value, each in listed.possible(b)}
    return one == other or math.isclose(score[str(one)], score[str(other)], abs_tol=1e-4)


def entities_by_definition(head: Head, structure) -> list[Segment]:
    if not isinstance(head, CRF):
        return [segment for segment in structure if segment.label]
    found, start = [], None
    padded = [*(head.tags.names[tag] for tag in structure), "O"]
    for i, tag in enumerate(padded):
        if start is not None and (tag[0] not in "IE" or tag[2:] != padded[start][2:]):
            found.append(Segment(start, i, head.labels.id(padded[start][2:])))
            start = None
        if tag[0] in "BS":
            start = i
    return found
