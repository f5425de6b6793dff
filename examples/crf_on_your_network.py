"""A CRF on a PyTorch network of your own: here an LSTM that reads how words begin and end.

The network makes scores, and `LinearChain` makes a distribution over tag sequences of them. Where you had
`cross_entropy(scores, tags)` you now have `-distribution.log_prob(tags).mean()`, and where you had `scores.argmax(-1)`,
`distribution.mode`.

    python examples/crf_on_your_network.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from spansieve.crf import LinearChain, TagConstraints
from spansieve.data.example import Example
from spansieve.data.sample import LABELS, sample_corpus
from spansieve.data.tag_schemes import segments_of_tags, tags_of_segments
from spansieve.evaluation import evaluate

TAGS = ["O", *(f"{prefix}-{label}" for label in LABELS for prefix in "BI")]
ENDS = 5  # letters at either end of a word


class YourNetwork(nn.Module):
    """Sentences in, a score for each token and tag out: nothing in here knows of CRFs."""

    def __init__(self, size: int = 64) -> None:
        super().__init__()
        self.letters = nn.Embedding(256, 16)
        self.read = nn.LSTM(2 * ENDS * 16, size, bidirectional=True, batch_first=True)
        self.score = nn.Linear(2 * size, len(TAGS))

    def forward(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        words = [self.letters(beginnings_and_ends(tokens)).flatten(1) for tokens in sentences]
        return self.score(self.read(pad_sequence(words, batch_first=True))[0])  # (B, L, Y)


def beginnings_and_ends(tokens: Sequence[str]) -> Tensor:
    letters = [token.encode() for token in tokens]
    return torch.tensor([list(word[:ENDS].ljust(ENDS) + word[-ENDS:].rjust(ENDS)) for word in letters])


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = YourNetwork()
        self.transition = nn.Parameter(torch.zeros(len(TAGS), len(TAGS)))
        self.constraints = TagConstraints.from_tags(TAGS)  # no I without its B, in training and in what comes out

    def forward(self, sentences: Sequence[Sequence[str]]) -> LinearChain:
        lengths = [len(tokens) for tokens in sentences]
        return LinearChain(self.network(sentences), self.transition, lengths, self.constraints)


def gold_tags(example: Example) -> list[int]:
    return [TAGS.index(tag) for tag in tags_of_segments(example.segments, len(example.tokens))]


def train(tagger: Tagger, examples: Sequence[Example], epochs: int) -> None:
    optimizer = torch.optim.Adam(tagger.parameters(), lr=1e-2)
    for _ in range(epochs):
        for at in torch.randperm(len(examples)).split(32):
            some = [examples[i] for i in at]
            loss = (
                -tagger([example.tokens for example in some]).log_prob([gold_tags(example) for example in some]).mean()
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--epochs", type=int, default=5)
    options = arguments.parse_args()
    torch.manual_seed(0)
    corpus, tagger = sample_corpus(), Tagger()
    with torch.enable_grad():
        train(tagger, corpus.train[:1000], options.epochs)

    modes = tagger([example.tokens for example in corpus.dev]).mode
    found = [segments_of_tags([TAGS[tag] for tag in tags]) for tags in modes]
    print(f"dev F1 {100 * evaluate([example.segments for example in corpus.dev], found).f1:.1f}")

    tokens = corpus.dev[0].tokens
    distribution = tagger([tokens])
    for token, tag, probabilities in zip(tokens, distribution.mode[0], distribution.marginals[0]):
        print(f"{token:15} {TAGS[tag]:8} {float(probabilities[tag]):.2f}")
    print("entropy", round(float(distribution.entropy()), 2))


if __name__ == "__main__":
    main()
