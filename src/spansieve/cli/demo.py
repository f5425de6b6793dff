"""`spansieve demo`: from nothing to a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from spansieve.cli.outputs import Console

FOLDER = Path("runs/demo")


def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="the run's folder; an old demo is replaced")] = FOLDER,
    seed: Annotated[int, typer.Option(help="the same seed gives the same model, on one machine")] = 0,
) -> None:
    """Train on the built-in sample corpus, score, predict.

    The built-in encoder with a filtered semi-Markov CRF learns from generated sentences, is scored, and finds the
    entities of sentences that it has not seen. Downloads nothing.
    """
    from spansieve.cli.outputs import highlighted
    from spansieve.cli.train import use_threads_that_pay
    from spansieve.config import preset, with_settings

    config = with_settings(preset("demo"), {"training.seed": seed})
    use_threads_that_pay(config)

    from spansieve.cli.terminal import TerminalObserver, duration, score_table
    from spansieve.data.sample import sample_corpus, unseen_sentences
    from spansieve.evaluation.scores import Scores
    from spansieve.integrations.hub import load
    from spansieve.training.run import train
    from spansieve.training.run_folder import is_run_on, remove_run

    console = Console()
    corpus = sample_corpus()
    if is_run_on(output, corpus.train, corpus.dev):  # any other run is left alone, with an error
        remove_run(output)
    console.print("\n[bold]The built-in encoder with a filtered semi-Markov CRF, on a generated sample corpus[/]")
    with TerminalObserver(console) as observer:
        result = train(
            config, corpus.train, corpus.dev, output, test_examples=corpus.test, observer=observer, use_cpu=True
        )
    console.print(f"trained in {duration(result.seconds)}")
    if result.test is not None:
        console.print(score_table(Scores.from_dict(result.test), "on test sentences, half of whose names are new"))
    predictor = load(result.model)
    console.print("\n[bold]Sentences that were not in the sample[/]")
    for example in unseen_sentences():
        text = " ".join(example.tokens)
        console.print(highlighted(text, predictor.predict(text), predictor.labels), soft_wrap=True, highlight=False)
    model = escape(str(result.model))
    console.print(
        f"\nThe model is in [bold]{model}[/]. Yours next:\n"
        f'  spansieve predict {model} "Ada Lovelace met Charles Babbage in London."\n'
        f"  spansieve train train.conll dev.conll --output runs/mine\n",
        highlight=False,
        soft_wrap=True,
    )
