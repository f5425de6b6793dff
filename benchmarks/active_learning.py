"""F1 against the number of labelled sentences: those labelled next are drawn by chance, or are those of which the
model of the round before was least sure.

The annotator is gold. Each round trains from scratch.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.experiment import Fitted, Splits, fit
from benchmarks.plots import Figure, log_counts, panels
from benchmarks.result_page import ResultPage, Table, percent
from spansieve.config import Config, preset, with_settings
from spansieve.data.example import Example
from spansieve.models.filtered import FilteredHead
from spansieve.models.tagger import Tagger
from spansieve.prediction.alternatives import Wanted, explain

Order = Literal["random", "uncertainty", "uncertainty per token"]
ORDERS: tuple[Order, ...] = ("random", "uncertainty", "uncertainty per token")
SIZES = (100, 200, 400, 800, 1600)
LEAST_STEPS = 300  # of training, however few the sentences are


@dataclass(frozen=True)
class Round:
    """A model trained on what was labelled so far."""

    order: Order
    seed: int
    sentences: int
    tokens: int
    entities: int
    f1: float
    seconds: float


def run_active_learning(
    splits: Splits,
    folder: Path,
    sizes: Sequence[int] = SIZES,
    orders: Sequence[Order] = ORDERS,
    seeds: Sequence[int] = (0, 1),
    settings: dict[str, Any] | None = None,
    seen: Callable[[Round], None] = lambda one: None,
) -> list[Round]:
    """`splits.train` is the pool. For each seed all orders begin with the same sentences, drawn by chance."""
    if list(sizes) != sorted(set(sizes)) or not 1 <= sizes[0] <= sizes[-1] <= len(splits.train):
        raise ValueError(f"sizes must rise, from 1 to the {len(splits.train)} sentences of the pool, got {list(sizes)}")
    rounds = []
    for seed in seeds:
        drawn = list(range(len(splits.train)))
        random.Random(seed).shuffle(drawn)
        first = _fit(splits, drawn[: sizes[0]], settings or {}, seed, folder)
        for order in orders:
            labelled, fitted = drawn[: sizes[0]], first
            for size in sizes:
                if size > sizes[0]:
                    rest = [i for i in drawn if i not in set(labelled)]
                    labelled = labelled + ordered(fitted.tagger, splits.train, rest, order)[: size - len(labelled)]
                    fitted = _fit(splits, labelled, settings or {}, seed, folder)
                rounds.append(_round(order, seed, [splits.train[i] for i in labelled], fitted))
                seen(rounds[-1])
    return rounds


def ordered(tagger: Tagger, pool: Sequence[Example], rest: Sequence[int], order: Order) -> list[int]:
    """The rest of the pool, what is to be labelled next first."""
    if order == "random":
        return list(rest)
    unsure = uncertainties(tagger, [pool[i].tokens for i in rest])
    share = [max(1, len(pool[i])) if order == "uncertainty per token" else 1 for i in rest]
    return [i for _, i in sorted(zip([-u / s for u, s in zip(unsure, share)], rest), key=lambda pair: pair[0])]


def uncertainties(tagger: Tagger, sentences: Sequence[Sequence[str]]) -> list[float]:
    """In nats: of models that filter the entropy of the filter's labels, of others that of their sets of entities."""
    filters = isinstance(tagger.head, FilteredHead)
    explained = explain(tagger, sentences, [Wanted(filter_entropy=filters)] * len(sentences))
    return [explanation.filter_entropy if filters else explanation.entropy for explanation in explained]


def _fit(splits: Splits, labelled: Sequence[int], settings: dict[str, Any], seed: int, folder: Path) -> Fitted:
    config = _config(len(labelled), settings | {"training.seed": seed})
    return fit(config, splits._replace(train=tuple(splits.train[i] for i in labelled)), folder / "round")


def _config(size: int, settings: dict[str, Any]) -> Config:
    few = {"training.batch_size": 16, "training.ema_decay": 0.99, "model.max_width": 8, "training.epochs": 8}
    config = with_settings(preset("demo"), few | settings)
    steps = -(-size // config.training.batch_size)
    return with_settings(config, {"training.epochs": max(config.training.epochs, -(-LEAST_STEPS // steps))})


def _round(order: Order, seed: int, labelled: Sequence[Example], fitted: Fitted) -> Round:
    tokens, entities = sum(map(len, labelled)), sum(len(example.segments) for example in labelled)
    return Round(order, seed, len(labelled), tokens, entities, fitted.test.f1, fitted.result.seconds)


# ---- What is shown ---------------------------------------------------------------------------------------------------


def curve_rows(rounds: Sequence[Round]) -> list[dict[str, object]]:
    """Means over the seeds, with the F1 of each."""
    rows: list[dict[str, object]] = []
    for order in dict.fromkeys(one.order for one in rounds):
        for size in sorted({one.sentences for one in rounds}):
            those = [one for one in rounds if (one.order, one.sentences) == (order, size)]
            rows.append(
                {
                    "order": order,
                    "sentences": size,
                    "tokens": round(statistics.mean(one.tokens for one in those)),
                    "entities": round(statistics.mean(one.entities for one in those)),
                    "F1": percent(statistics.mean(one.f1 for one in those)),
                    "F1 of each seed": ", ".join(percent(one.f1) for one in those),
                }
            )
    return rows


def rows_by_tokens(rounds: Sequence[Round]) -> list[dict[str, object]]:
    """F1 of each order where as many tokens are labelled as the first order reads; none where a curve ends before.

    Between two rounds F1 is taken to rise with the logarithm of the tokens. Means over the seeds.
    """
    curves: dict[Order, dict[int, list[Round]]] = {}
    for one in rounds:
        curves.setdefault(one.order, {}).setdefault(one.seed, []).append(one)
    read = next(iter(curves.values()))
    rows = []
    for steps in zip(*read.values()):
        tokens = dict(zip(read, (one.tokens for one in steps)))
        row: dict[str, object] = {"tokens": round(statistics.mean(tokens.values()))}
        for order, by_seed in curves.items():
            found = [_f1_at(tokens[seed], curve) for seed, curve in by_seed.items()]
            row[order] = "" if None in found else percent(statistics.mean(f1 for f1 in found if f1 is not None))
        rows.append(row)
    return rows


def _f1_at(tokens: int, curve: Sequence[Round]) -> float | None:
    if tokens > curve[-1].tokens:
        return None
    return float(np.interp(np.log(tokens), np.log([one.tokens for one in curve]), [one.f1 for one in curve]))


ABOUT = (
    "From a pool of {pool:,} sentences the first {first} are drawn by chance; then, round by round, further ones by "
    "chance, or those of which the model of the round before is least sure: the entropy of its filter's labels, summed "
    "over the spans of a sentence, or divided by its tokens. Gold is the annotator. The built-in encoder is trained "
    "from scratch in every round; the best epoch on {dev} dev sentences is scored on the {test:,} sentences of test, "
    "which nothing is chosen by."
)
ABOUT_TOKENS = (
    "A model is less sure of long sentences, so that these orders ask for more tokens. Test F1 for as many labelled "
    "*tokens* as are read in random order, between two rounds on a line over the logarithm of the tokens:"
)


def active_learning_page(rounds: Sequence[Round], splits: Splits, corpus: str) -> ResultPage:
    sizes = {"pool": len(splits.train), "first": rounds[0].sentences, "dev": len(splits.dev), "test": len(splits.test)}
    return ResultPage(
        "active_learning_cpu",
        f"Labelling what the model is unsure of: {corpus}",
        [
            ABOUT.format(**sizes),
            draw(rounds),
            Table(curve_rows(rounds)),
            Table(rows_by_tokens(rounds), about=ABOUT_TOKENS),
        ],
        csv=[asdict(one) for one in rounds],
    )


def draw(rounds: Sequence[Round]) -> Figure:
    """Draw F1 against sentences and against tokens, which is what annotators read."""
    figure, (by_sentences, by_tokens) = panels(10, 4.2, columns=2, sharey=True)
    for axes, amount in ((by_sentences, "sentences"), (by_tokens, "tokens")):
        for number, order in enumerate(dict.fromkeys(one.order for one in rounds)):
            for seed in sorted({one.seed for one in rounds}):
                those = [one for one in rounds if (one.order, one.seed) == (order, seed)]
                axes.plot(
                    [getattr(one, amount) for one in those],
                    [100 * one.f1 for one in those],
                    color=f"C{number}",
                    marker="o",
                    markersize=3,
                    alpha=0.8,
                    label=order if seed == rounds[0].seed else None,
                )
        axes.set_xlabel(f"labelled {amount}")
    log_counts(by_sentences, sorted({one.sentences for one in rounds}))
    log_counts(by_tokens)
    by_sentences.set_ylabel("test F1, one line per seed")
    by_sentences.legend()
    return figure
