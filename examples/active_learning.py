"""Train, rank, annotate, train again: the loop in which few annotations go far.

Here gold answers in place of the annotators. Yours is a file that `spansieve rank` wrote, a tool, and a file that comes
back (see docs/learning-from-less.md).

    python examples/active_learning.py --rounds 3
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable
from pathlib import Path

from spansieve.config import preset, with_settings
from spansieve.data.example import Example
from spansieve.data.sample import sample_corpus
from spansieve.integrations.hub import load
from spansieve.prediction.uncertainty import rank
from spansieve.training.run import train

CORPUS = sample_corpus()
GOLD = {" ".join(example.tokens): example for example in CORPUS.train}


def annotate(texts: Iterable[str]) -> list[Example]:
    """Your annotators."""
    return [GOLD[text] for text in texts]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=3, help="of training")
    arguments.add_argument("--step", type=int, default=100, help="sentences to annotate in each")
    arguments.add_argument("--pool", type=int, default=4000, help="sentences to choose from")
    arguments.add_argument("--epochs", type=int, default=12, help="of each training")
    options = arguments.parse_args()

    config = with_settings(preset("demo"), {"training.epochs": options.epochs, "training.batch_size": 8})
    unlabelled = list(GOLD)[: options.pool]
    labelled = annotate(unlabelled[: options.step])  # nothing is known yet: any will do
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, options.rounds + 1):
            known = {" ".join(example.tokens) for example in labelled}
            result = train(config, labelled, CORPUS.dev, Path(folder) / f"round-{number}", use_cpu=True)
            print(f"round {number}: {len(labelled)} sentences, dev F1 {100 * result.dev['micro']['f1']:.1f}")
            if number == options.rounds:
                break
            predictor = load(result.model)
            # A model that filters is asked what its filter is unsure of, for what it left out has no other trace.
            ranked = rank(predictor, [t for t in unlabelled if t not in known], by="filter", most=options.step)
            labelled += annotate(one.text for one in ranked)


if __name__ == "__main__":
    main()
