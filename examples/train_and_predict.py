"""Train a model and find entities with it, in a few seconds on a CPU.

python examples/train_and_predict.py --output runs/mine
"""

from __future__ import annotations

import argparse

import spansieve
from spansieve.config import preset, with_settings
from spansieve.data.sample import sample_corpus
from spansieve.training.run import train


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--output", default="runs/mine", help="the run's folder, a new one")
    arguments.add_argument("--sentences", type=int, default=400, help="to learn from")
    options = arguments.parse_args()

    corpus = sample_corpus()  # yours: read_examples("train.conll"), of spansieve.data.formats
    config = with_settings(preset("demo"), {"training.epochs": 6, "training.batch_size": 16})
    result = train(config, corpus.train[: options.sentences], corpus.dev[:100], options.output)
    print(f"dev F1 {100 * result.dev['micro']['f1']:.1f}")

    tagger = spansieve.load(result.model)
    for entity in tagger.predict("Ada Lovelace met Charles Babbage in London."):
        print(f"{entity.start:2} {entity.end:2} {entity.label:5} {entity.text} ({entity.probability:.2f})")


if __name__ == "__main__":
    main()
