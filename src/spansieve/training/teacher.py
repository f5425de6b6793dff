"""Distillation: a student learns from the exact distributions of a trained model, its teacher, beside gold.

Axes: B sentences, L tokens, K widths, Y labels, N parts, P pairs of labels.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save
from torch import Tensor

from spansieve.config import Config
from spansieve.crf import Distribution, Gold
from spansieve.crf.divergence import dense_marginals
from spansieve.data.example import Example
from spansieve.models.head import SoftTargets
from spansieve.models.heads import head_class
from spansieve.models.storage import load_model, version_of
from spansieve.models.tagger import Batch, Tagger
from spansieve.models.torch_backend import Scored, predict_segments
from spansieve.persistence.atomic import write_durably
from spansieve.persistence.manifest import name_of
from spansieve.training.run_folder import TEACHER, fingerprint, on_disk

LEAST_PROBABILITY = 1e-4  # of a part, and count of a transition, that is kept


def unlabelled(tokens: Sequence[str]) -> Example:
    """Make an example of which nothing is known, to learn from a teacher alone."""
    return Example(tuple(tokens), unknown=((0, len(tokens)),) if tokens else ())


class Teacher:
    """A trained model with a flat head, and how much of it a student learns. The student has its labels."""

    def __init__(self, tagger: Tagger, name: str, temperature: float = 1.0, mixture: float = 0.5) -> None:
        """Take a model, whose scores are divided by `temperature`; of gold and the teacher, the part `mixture` is the
        teacher's. The name is any, followed by the version of the weights."""
        if not 0 < temperature < float("inf"):
            raise ValueError(f"temperature must be above 0, got {temperature}")
        if not 0 <= mixture <= 1:
            raise ValueError(f"mixture must lie between 0, gold alone, and 1, the teacher alone, got {mixture}")
        if tagger.head.kind == "nested":
            raise ValueError(f"teacher must be a flat model, got {tagger.config.head}: nested ones cannot be distilled")
        self.tagger, self.temperature, self.mixture = tagger, temperature, mixture
        self.version = version_of(tagger)
        self.name = f"{name}-{self.version}"

    @classmethod
    def read(cls, folder: str | Path, temperature: float = 1.0, mixture: float = 0.5) -> Teacher:
        """Load a model that `spansieve train` left in a folder."""
        return cls(load_model(folder), name_of(folder), temperature, mixture)

    def about(self) -> dict[str, str | float]:
        return {"name": self.name, "temperature": self.temperature, "mixture": self.mixture}

    def described(self, examples: Sequence[Example]) -> str:
        """Describe the teacher in a line."""
        alone = sum(bool(example.unknown) for example in examples)
        more = f"; {alone:,} sentences by it alone" if alone else ""
        return f"{self.name}, temperature {self.temperature:g}, mixture {self.mixture:g}{more}"

    def student_config(self, config: Config) -> Config:
        """Check a student's settings, and give it the teacher's `max_width` where they have none."""
        own, width = self.tagger.head, config.model.max_width
        if head_class(config.model.head).kind != "linear-chain" and (width or own.max_width) < own.max_width:
            raise ValueError(f"model.max_width must be at least the teacher's, {own.max_width}, got {width}")
        return replace(config, model=replace(config.model, max_width=width or own.max_width))

    def check_data(self, examples: Sequence[Example]) -> None:
        """Check that gold is in the teacher's labels, and known of a sentence in full or not at all."""
        known = self.tagger.labels
        for number, example in enumerate(examples):
            for segment in example.segments:
                if segment.label not in known.names:
                    got = f"{segment.label!r} in sentence {number}"
                    raise ValueError(f"training data must have labels of the teacher, {', '.join(known)}, got {got}")
            if example.unknown and (example.segments or example.num_unknown < len(example)):
                where = f"unknown tokens {example.unknown[0]} in sentence {number}"
                raise ValueError(f"training data must be annotated in full beside a teacher, or be texts, got {where}")

    def targets(self, examples: Sequence[Example], folder: Path, device: torch.device) -> TeacherTargets:
        """The teacher's distributions: those that the folder of the run has or, where there are none of this teacher
        and these examples, computed and stored there."""
        key = json.dumps([self.version, self.temperature, fingerprint(examples)])
        sentences = _read(folder / TEACHER, key)
        if sentences is None:
            sentences = self._computed(examples, device)
            with on_disk(folder):
                write_durably(folder / TEACHER, _stored(sentences, key))
        return TeacherTargets(sentences, [1.0 if example.unknown else self.mixture for example in examples])

    def _computed(self, examples: Sequence[Example], device: torch.device) -> list[SentenceTargets]:
        head = self.tagger.to(device).head
        weight: Tensor = head.transition  # type: ignore[assignment]
        kept = weight.detach().clone()
        sentences = [NOTHING for _ in examples]  # which those without a token keep

        def take(indices: Sequence[int], scored: Scored) -> None:
            scores = tuple(part / self.temperature for part in scored.scores)
            weight.data.div_(self.temperature)
            for i, one in zip(indices, sentence_targets(head.distribution_of(scores, scored.lengths))):
                sentences[i] = one
            weight.data.copy_(kept)

        predict_segments(self.tagger, [example.tokens for example in examples], on_batch=take)
        self.tagger.to("cpu")  # the student needs the room
        return sentences


@dataclass(frozen=True)
class TeacherTargets:
    """The soft targets of all training sentences."""

    sentences: list[SentenceTargets]
    shares: list[float]  # of the teacher, beside gold

    def mixed(self, batch: Batch, part: Sequence[int], tagger: Tagger) -> Batch:
        """Return the batch, which has gold, with soft targets in its place; `part` are its sentences."""
        gold, size = batch.gold.structures, len(tagger.head.transition)  # type: ignore
        targets = mixed_with_gold([self.sentences[i] for i in part], gold, [self.shares[i] for i in part], size)
        return replace(batch, gold=targets)


class SentenceTargets(NamedTuple):
    """The soft targets of one sentence, as they are stored: those of a linear chain have tags for labels."""

    parts: np.ndarray  # (N, 4): start, width - 1, label and P(part)
    pairs: np.ndarray  # (P, 3): a label, the one that follows it, and how often that is expected


NOTHING = SentenceTargets(np.zeros((0, 4), np.float32), np.zeros((0, 3), np.float32))


def sentence_targets(distribution: Distribution) -> list[SentenceTargets]:
    """The soft targets of each sentence, of a distribution's parts and transitions that are not next to impossible."""
    tables = []
    for values in (dense_marginals(distribution), distribution.transition_counts):
        where = (values > LEAST_PROBABILITY).nonzero()
        rows = torch.cat((where[:, 1:].float(), values[tuple(where.T)].float()[:, None]), 1)
        ends = torch.bincount(where[:, 0], minlength=len(values)).cumsum(0)[:-1]
        tables.append(np.split(rows.cpu().numpy(), ends.cpu().numpy()))
    return list(map(SentenceTargets, *tables))


def mixed_with_gold(
    targets: Sequence[SentenceTargets], gold: Gold, mixture: Sequence[float], num_labels: int
) -> SoftTargets:
    """Mix the targets of a batch, each by its part in the mixture, with gold for the rest, for scores shaped as gold
    has it and a transition between so many labels."""
    shape = (*gold.shape[:2], gold.shape[2] if len(gold.shape) == 4 else 1, gold.shape[-1])
    shares, own = torch.tensor(mixture, dtype=torch.float32), gold.parts
    part, probability, sentence = _flat([one.parts for one in targets], shape, shares)
    pair, count, _ = _flat([one.pairs for one in targets], (len(targets), num_labels, num_labels), shares)
    counts = torch.zeros(len(targets), num_labels**2).index_put((own.pair_sentence, own.pair), torch.tensor(1.0), True)
    counts = ((1.0 - shares)[:, None] * counts).flatten().index_add(0, pair, count)
    return SoftTargets(
        torch.cat((part, own.part)),
        torch.cat((probability, 1.0 - shares[own.sentence])),
        torch.cat((sentence, own.sentence)),
        counts.view(-1, num_labels, num_labels),
    )


def _flat(tables: Sequence[np.ndarray], shape: Sequence[int], shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The positions of the rows of all sentences in a flattened tensor, their shares of the values, and sentences."""
    sentence = np.repeat(np.arange(len(tables)), [len(rows) for rows in tables])
    rows, index = np.concatenate(tables), sentence
    for size, column in zip(shape[1:], rows[:, :-1].T.astype(np.int64)):
        index = index * size + column
    at = torch.from_numpy(sentence)
    return torch.from_numpy(index), torch.from_numpy(rows[:, -1].copy()) * shares[at], at


# ---- On disk ---------------------------------------------------------------------------------------------------------


def _stored(sentences: Sequence[SentenceTargets], key: str) -> bytes:
    """Make one file of arrays of the targets of all sentences."""
    arrays = {}
    for name, tables in zip(SentenceTargets._fields, zip(*sentences)):
        # Safetensors writes an array as it lies in memory, whatever the order there.
        arrays[name] = np.ascontiguousarray(np.concatenate(tables))
        arrays[f"{name}_per_sentence"] = np.array(list(map(len, tables)))
    return save(arrays, {"key": key})


def _read(path: Path, key: str) -> list[SentenceTargets] | None:
    """Read the targets of all sentences; None where the file is missing, damaged, or of other data."""
    try:
        with safe_open(str(path), "np") as file:
            if (file.metadata() or {}).get("key") != key:
                return None
            columns = [
                np.split(file.get_tensor(name), file.get_tensor(f"{name}_per_sentence").cumsum()[:-1])
                for name in SentenceTargets._fields
            ]
    except (OSError, SafetensorError):
        return None
    return list(map(SentenceTargets, *columns))
