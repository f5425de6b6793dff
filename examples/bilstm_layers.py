"""A BiLSTM of your own with each distribution as its last layer: tags, segments, filtered segments, nested ones.

The network is plain PyTorch and makes scores. The layer holds the transition, returns the losses and predicts. A
filtered layer has two losses: the local scores, which say what is kept, learn by `filtering` and by nothing else.

    python examples/bilstm_layers.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from spansieve.crf import FilteredSemiMarkovLayer, LinearChainLayer, NestedLayer, SemiMarkovLayer, TagConstraints
from spansieve.data.example import Example
from spansieve.data.sample import LABELS, sample_corpus
from spansieve.data.tag_schemes import segments_of_tags, tags_of_segments
from spansieve.evaluation import evaluate
from spansieve.segments import NamedSegment

NAMES = ("null", *LABELS)  # label 0 is null
TAGS = ["O", *(f"{prefix}-{label}" for label in LABELS for prefix in "BI")]
WIDEST = 6  # tokens of a segment: wider ones are not scored
ENDS = 4  # letters at either end of a word


# ---- Your network: nothing in here knows of CRFs --------------------------------------------------------------------


class BiLSTM(nn.Module):
    """Sentences in, a vector for each token out, (B, L, D), from the letters that words begin and end with."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.letters = nn.Embedding(256, 12)
        self.lstm = nn.LSTM(2 * ENDS * 12, size, bidirectional=True, batch_first=True)
        self.dropout = nn.Dropout(0.3)

    def forward(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        lengths = torch.tensor([len(tokens) for tokens in sentences])
        letters = pad_sequence([letters_of(tokens) for tokens in sentences], batch_first=True)
        words = self.dropout(self.letters(letters).flatten(2))
        packed = pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
        vectors, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        mask = torch.arange(vectors.shape[1]) < lengths[:, None]  # (B, L): true for tokens, false for padding
        return self.dropout(vectors), mask


def letters_of(tokens: Sequence[str]) -> Tensor:
    words = [token.encode() for token in tokens]
    return torch.tensor([list(word[:ENDS].ljust(ENDS) + word[-ENDS:].rjust(ENDS)) for word in words])


class SpanScores(nn.Module):
    """Vectors of tokens to scores of spans, (B, L, K, Y): `scores[b, i, w, y]` is of tokens i … i + w as label y."""

    def __init__(self, size: int, num_labels: int, hidden_size: int = 64) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(size, hidden_size), nn.Linear(size, hidden_size)
        self.width = nn.Embedding(WIDEST, hidden_size)
        self.output = nn.Linear(hidden_size, num_labels)

    def forward(self, vectors: Tensor) -> Tensor:
        num_tokens = vectors.shape[1]
        last = torch.arange(num_tokens)[:, None] + torch.arange(WIDEST)  # (L, K)
        of_last = self.last(vectors)[:, last.clamp(max=num_tokens - 1)]  # (B, L, K, D)
        return self.output(torch.relu(self.first(vectors)[:, :, None] + of_last + self.width.weight))


# ---- The network with a layer on top --------------------------------------------------------------------------------


class Tagger(nn.Module):
    """The network, what makes the scores that the layer takes, and the layer."""

    def __init__(self, name: str, size: int = 64) -> None:
        super().__init__()
        self.network = BiLSTM(size)
        self.scorers: nn.ModuleList
        self.layer: nn.Module
        if name == "linear chain":
            self.scorers = nn.ModuleList([nn.Linear(2 * size, len(TAGS))])
            self.layer = LinearChainLayer(len(TAGS), TagConstraints.from_tags(TAGS))  # no I without its B
        elif name == "semi-Markov":
            self.scorers = nn.ModuleList([SpanScores(2 * size, len(NAMES))])
            self.layer = SemiMarkovLayer(len(NAMES))
        else:  # local scores, for the filter, and global ones, for what it keeps
            self.scorers = nn.ModuleList([SpanScores(2 * size, len(NAMES)) for _ in range(2)])
            make = {"filtered": FilteredSemiMarkovLayer, "nested": NestedLayer}[name]
            self.layer = make(len(NAMES))

    def scores(self, examples: Sequence[Example]) -> tuple[list[Tensor], Tensor]:
        vectors, mask = self.network([example.tokens for example in examples])
        return [scorer(vectors) for scorer in self.scorers], mask

    def loss(self, examples: Sequence[Example]) -> Tensor:
        scores, mask = self.scores(examples)
        losses = self.layer(*scores, self.gold(examples), mask)
        if isinstance(losses, dict):  # filtering and segmentation: both are needed
            losses = losses["filtering"] + losses["segmentation"]
        return losses.mean()

    def gold(self, examples: Sequence[Example]) -> list[list[Any]]:
        if isinstance(self.layer, LinearChainLayer):
            return [[TAGS.index(tag) for tag in tags_of_segments(e.segments, len(e.tokens))] for e in examples]
        return [
            [(start, end, NAMES.index(label)) for start, end, label in example.segments if end - start <= WIDEST]
            for example in examples
        ]

    @torch.no_grad()
    def predict(self, examples: Sequence[Example]) -> list[list[NamedSegment]]:
        scores, mask = self.scores(examples)
        found = self.layer.predict(*scores, mask)
        if isinstance(self.layer, LinearChainLayer):
            return [segments_of_tags([TAGS[tag] for tag in tags]) for tags in found]
        return [[NamedSegment(start, end, NAMES[label]) for start, end, label in segments] for segments in found]


def train(tagger: Tagger, examples: Sequence[Example], epochs: int) -> None:
    optimizer = torch.optim.Adam(tagger.parameters(), lr=5e-3)
    batches = len(range(0, len(examples), 16)) * epochs
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, batches)
    tagger.train()
    for _ in range(epochs):
        for at in torch.randperm(len(examples)).split(16):
            optimizer.zero_grad()
            tagger.loss([examples[i] for i in at]).backward()
            nn.utils.clip_grad_norm_(tagger.parameters(), 5.0)
            optimizer.step()
            decay.step()
    tagger.eval()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sentences", type=int, default=2000, help="to train on")
    arguments.add_argument("--epochs", type=int, default=6)
    options = arguments.parse_args()
    corpus = sample_corpus()
    gold = [example.segments for example in corpus.dev]
    for name in ("linear chain", "semi-Markov", "filtered", "nested"):
        torch.manual_seed(0)
        tagger = Tagger(name)
        train(tagger, corpus.train[: options.sentences], options.epochs)
        f1 = evaluate(gold, tagger.predict(corpus.dev)).f1
        print(f"{name}: dev F1 {f1:.2f}")


if __name__ == "__main__":
    main()
