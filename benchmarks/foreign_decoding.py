"""`spansieve.decode` on the logits of a token classifier that is not ours: a softmax on a frozen encoder's vectors.

F1 beside its own greedy decoding, and time beside pytorch-crf's Viterbi on the same logits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from benchmarks.peers import pytorch_crf_layer
from benchmarks.process_usage import least_times
from benchmarks.result_page import ResultPage, Table, percent
from benchmarks.timings import Contender, one_thread
from spansieve.data.example import Example
from spansieve.data.tag_schemes import segments_of_tags, tags_of_segments
from spansieve.decode import TokenDecoder
from spansieve.evaluation.scores import Counts, evaluate
from spansieve.segments import NamedSegment

BATCH = 32
HIDDEN = 256
FORBIDDEN = -1e4  # what pytorch-crf takes for a transition that cannot be
GREEDY, BEST, F1 = "greedy", "best set", "largest expected F1"


class Softmax(NamedTuple):
    """The logits of a classifier on test, one (L, T) for each sentence."""

    seed: int
    tags: list[str]
    logits: list[np.ndarray]


def vectors_of(encoder: str, examples: Sequence[Example]) -> list[np.ndarray]:
    """The vector of each token's first subword, (L, D), and zeros for what the encoder does not see."""
    from transformers import AutoModel, AutoTokenizer

    from spansieve.nn.pretrained_encoder import SINGLE_PRECISION

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = AutoModel.from_pretrained(encoder, **SINGLE_PRECISION).eval()
    order = sorted(range(len(examples)), key=lambda i: len(examples[i].tokens))
    vectors: list[np.ndarray] = [np.zeros(0)] * len(examples)
    for at in range(0, len(order), BATCH):
        index = order[at : at + BATCH]
        words = [list(examples[i].tokens) for i in index]
        inputs = tokenizer(words, is_split_into_words=True, padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(**inputs).last_hidden_state.numpy()
        for row, i in enumerate(index):
            ids = inputs.word_ids(row)
            first = {word: position for position, word in reversed(list(enumerate(ids))) if word is not None}
            rows = np.zeros((len(examples[i].tokens), hidden.shape[2]), np.float32)
            rows[list(first)] = hidden[row, list(first.values())]
            vectors[i] = rows
    return vectors


def train_softmax(
    vectors: Sequence[np.ndarray], tags: Sequence[Sequence[int]], num_tags: int, seed: int, epochs: int
) -> nn.Module:
    """A hidden layer and a softmax for each token by itself, by cross-entropy."""
    torch.manual_seed(seed)
    x, y = torch.from_numpy(np.concatenate(vectors)), torch.tensor([tag for row in tags for tag in row])
    model = nn.Sequential(nn.Linear(x.shape[1], HIDDEN), nn.GELU(), nn.Dropout(0.2), nn.Linear(HIDDEN, num_tags))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for index in torch.randperm(len(x)).split(256):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[index]), y[index]).backward()
            optimizer.step()
    return model.eval()


def run_softmaxes(
    train: Sequence[Example],
    test: Sequence[Example],
    encoder: str,
    folder: Path,
    seeds: Sequence[int],
    epochs: int,
    seen: Callable[[str], None] = lambda line: None,
) -> list[Softmax]:
    """One classifier for each seed; the logits of one that were stored in the folder are read."""
    labels = sorted({segment.label for example in train for segment in example.segments})
    tags = ["O", *(f"{prefix}-{label}" for label in labels for prefix in "BI")]
    folder.mkdir(parents=True, exist_ok=True)
    paths = {seed: folder / f"logits-{seed}.npz" for seed in seeds}
    missing = [seed for seed in seeds if not paths[seed].exists()]
    if missing:
        learned, tested = vectors_of(encoder, train), vectors_of(encoder, test)
        seen(f"vectors of {len(train) + len(test):,} sentences")
        written = [tags_of_segments(example.segments, len(example.tokens)) for example in train]
        gold = [[tags.index(tag) for tag in row] for row in written]
        for seed in missing:
            model = train_softmax(learned, gold, len(tags), seed, epochs)
            with torch.inference_mode():
                rows = {str(i): model(torch.from_numpy(own)).numpy() for i, own in enumerate(tested)}
            np.savez(paths[seed], **rows)
            seen(f"seed {seed} trained")
    stored = {seed: np.load(path) for seed, path in paths.items()}
    return [Softmax(seed, tags, [rows[str(i)] for i in range(len(test))]) for seed, rows in stored.items()]


def scores_of(softmax: Softmax, test: Sequence[Example]) -> dict[str, Counts]:
    """Greedy decoding, the best tag of each token, is read as conlleval and seqeval read it."""
    decoded = TokenDecoder(softmax.tags)(softmax.logits)
    greedy = [segments_of_tags([softmax.tags[y] for y in rows.argmax(-1)], "BIO") for rows in softmax.logits]
    outputs = {
        GREEDY: greedy,
        BEST: [[NamedSegment(*s[:3]) for s in row] for row in decoded.best(with_probabilities=False)],
        F1: [[NamedSegment(*s[:3]) for s in row] for row in decoded.best("f1")],
    }
    gold = [example.segments for example in test]
    return {name: evaluate(gold, output).micro for name, output in outputs.items()}


def score_rows(softmaxes: Sequence[Softmax], test: Sequence[Example]) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for softmax in softmaxes:
        for name, counts in scores_of(softmax, test).items():
            row: dict[str, object] = {"seed": softmax.seed, "decoding": name}
            figures = {"precision": counts.precision, "recall": counts.recall, "F1": counts.f1}
            rows.append(row | {figure: percent(value) for figure, value in figures.items()})
    return rows


def speed_rows(softmax: Softmax, seconds: float, sentences: int = 256) -> list[dict[str, object]]:
    """Microseconds a sentence for the same logits, in batches of one size after the other, each by one thread."""
    rows: list[dict[str, object]] = []
    logits = sorted((one for one in softmax.logits if len(one)), key=len)
    logits = logits[:: max(1, len(logits) // sentences)][:sentences]
    for size in (1, BATCH, len(logits)):
        batches = [logits[at : at + size] for at in range(0, len(logits), size)]
        contenders = _contenders(softmax.tags, batches)
        with one_thread():
            times = least_times(contenders, seconds)
        for contender, took in zip(contenders, times):
            row: dict[str, object] = {"batch": size, "decoder": contender.name}
            row["µs per sentence"] = f"{1e6 * took / len(logits):.1f}"
            rows.append(row | {"times as fast": f"{times[0] / took:.1f}"})
    return rows


def _contenders(tags: Sequence[str], batches: Sequence[Sequence[np.ndarray]]) -> list[Contender]:
    """pytorch-crf has the rules of the scheme as transitions, so that it decodes the same."""
    decoder = TokenDecoder(tags)
    scheme = decoder.scheme
    crf = pytorch_crf_layer(torch.from_numpy(np.where(scheme.is_allowed, 0.0, FORBIDDEN)).float())
    with torch.no_grad():
        crf.start_transitions.copy_(torch.from_numpy(np.where(scheme.can_start, 0.0, FORBIDDEN)))
    padded, masks, lengths = [], [], []
    for batch in batches:
        counts = np.array([len(one) for one in batch])
        scores = np.zeros((len(batch), counts.max(), len(tags)), np.float32)
        for row, one in zip(scores, batch):
            row[: len(one)] = one
        padded.append(scores)
        lengths.append(counts)
        masks.append(torch.from_numpy(np.arange(counts.max()) < counts[:, None]))
    tensors = [torch.from_numpy(scores) for scores in padded]

    def viterbi() -> list[list[int]]:
        with torch.no_grad():
            return [tags for scores, mask in zip(tensors, masks) for tags in crf.decode(scores, mask)]

    def ours(**options) -> list:
        return [row for scores, counts in zip(padded, lengths) for row in decoder(scores, counts).best(**options)]

    named = [[tuple(s[:3]) for s in segments_of_tags([tags[y] for y in row], "BIO")] for row in viterbi()]
    if named != [[s[:3] for s in row] for row in ours()]:
        raise ValueError("pytorch-crf must decode the same segments, got others")
    return [
        Contender("decode", "pytorch-crf, tags", viterbi),
        Contender("decode", "entities", lambda: ours(with_probabilities=False)),
        Contender("decode", "entities with exact marginals", ours),
        Contender("decode", "largest expected F1, with marginals", lambda: ours(objective="f1")),
    ]


def decode_page(
    scores: Sequence[dict[str, object]], speed: Sequence[dict[str, object]], corpus: str, epochs: int
) -> ResultPage:
    about = (
        f"A token classifier: a hidden layer and a softmax on the vectors of a frozen encoder, {epochs} epochs on "
        f"{corpus}, nothing of this library in it. Exact match on test. *Greedy* takes the best tag of each token, and "
        "reads what comes as conlleval does."
    )
    times = (
        "The logits of the first seed, 256 sentences of test by length, float32, one thread; contenders take turns. "
        "Processor time, the least of all turns. pytorch-crf has the rules of BIO as transitions, and both find the "
        "same entities, which is checked. It returns tags; the others return entities with their labels."
    )
    return ResultPage(
        "decode_cpu",
        "Decoding a token classifier that is not ours",
        [Table(scores, "F1", about), Table(speed, "Time", times)],
    )
