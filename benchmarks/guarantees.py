"""Whether promises are kept: hundreds of draws of calibration data from held-out text, and what each promise costs.

The held-out sentences of a corpus stand for all text, so that what is expected of new text is known: the share over all
of them. A promise is kept in a draw where that share is at most the level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.guarantee_scores import OURS, SIGMOIDS, WAYS, HeldOut, Model
from benchmarks.plots import OTHER_COLOUR, OURS_COLOUR, QUIET_COLOUR, Figure, panels
from benchmarks.result_page import ResultPage, Row, Table
from spansieve.evaluation import calibration
from spansieve.evaluation.calibration import Units, covering_threshold, fitted_units

LEVELS, CONFIDENCES, DRAWS = (0.005, 0.01, 0.02, 0.05), (0.9, 0.95), 200
PART = "ours as a part of it"
MANY = 25  # thresholds that a promise of precision may test
PREDICTED = 100.0  # the log-odds of a token that is predicted: it is always covered


@dataclass(frozen=True)
class Cell:
    """What became of all draws at one level and confidence."""

    corpus: str
    encoder: str
    model: str  # with the way in which it scores tokens
    promise: str  # miss or precision
    unit: str
    drawn: str  # how calibration data was drawn: split, with replacement, or no promise but a naive threshold
    level: float
    confidence: float
    draws: int
    refused: int
    held: int  # of those not refused: the share over all held-out text is at most the level
    held_on_test: int  # and that on the half that was not drawn, which has chance of its own
    cost: float  # mean over draws: of other tokens the share covered; of gold entities the share lost
    share: float  # mean over draws: missed, or wrong

    def row(self) -> Row:
        return dict(vars(self))


# ---- Draws -----------------------------------------------------------------------------------------------------------


class Pool:
    """Held-out text as units to draw from: gold tokens with their scores, and other tokens."""

    def __init__(self, held: HeldOut, way: int, by_document: bool) -> None:
        of_sentence = held.document if by_document else np.arange(len(held.lengths))
        of_token = np.repeat(of_sentence, held.lengths)
        score = np.where(held.is_predicted, PREDICTED, held.scores[way].astype(np.float64))
        # Scores above 0 can be covered: log-odds are moved there, and what a filter left out is at 0.
        score = np.where(score == -np.inf, 0.0, score + PREDICTED)
        self.num_units = int(of_sentence.max()) + 1
        self.gold = Units(score[held.is_gold], of_token[held.is_gold], np.ones(held.is_gold.sum(), bool))
        self.others = Units(score[~held.is_gold], of_token[~held.is_gold], np.zeros((~held.is_gold).sum(), bool))
        self.sorted_others, self.sorted_gold = np.sort(self.others.score), np.sort(self.gold.score)
        found = (held.probability.astype(np.float64), of_sentence[held.sentence], ~held.is_correct)
        self.found, self.num_gold = Units(*found), int(held.num_gold.sum())

    def missed(self, threshold: float) -> float:
        return np.searchsorted(self.sorted_gold, threshold) / len(self.sorted_gold)

    def over_covered(self, threshold: float) -> float:
        return 1 - np.searchsorted(self.sorted_others, threshold) / len(self.sorted_others)


def drawn(units: Units, index: np.ndarray, num_units: int) -> Units:
    """Select what belongs to the units drawn, as often as each was, numbered anew."""
    order = np.argsort(units.unit, kind="stable")
    bounds = np.searchsorted(units.unit[order], np.arange(num_units + 1))
    size = bounds[index + 1] - bounds[index]
    new = np.repeat(np.arange(len(index)), size)
    at = np.repeat(bounds[index] - np.append(0, size.cumsum()[:-1]), size) + np.arange(size.sum())
    rows = order[at]
    return Units(units.score[rows], new, units.is_wrong[rows])


def draws_of(pool: Pool, draws: int, with_replacement: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Draw calibration units, and those that are left for a test."""
    chance, half = np.random.default_rng(0), pool.num_units // 2
    for _ in range(draws):
        if with_replacement:
            yield chance.integers(pool.num_units, size=half), np.zeros(0, np.int64)
        else:
            order = chance.permutation(pool.num_units)
            yield order[:half], order[half:]


def miss_cells(pool: Pool, names: Mapping[str, Any], draws: int, drawn_how: str) -> Iterator[Cell]:
    """Promise that few gold tokens are left uncovered, in every draw."""
    keys = list(product(LEVELS, CONFIDENCES))
    found: dict[tuple[float, float], list[tuple[float | None, float]]] = {key: [] for key in keys}
    for index, rest in draws_of(pool, draws, drawn_how == "with replacement"):
        gold = drawn(pool.gold, index, pool.num_units)
        test = np.sort(drawn(pool.gold, rest, pool.num_units).score)
        fitted, given = gold.halves(fitted_units(len(index)))
        cap, naive = fitted.cap(), np.sort(gold.score)
        for level, confidence in keys:
            if drawn_how == "naive":
                threshold: float | None = float(naive[int(level * len(naive))])
            else:
                threshold = covering_threshold(given, len(index), level, confidence, cap)
            missed = 0.0 if threshold is None else np.searchsorted(test, threshold) / max(1, len(test))
            found[level, confidence].append((threshold, missed))
    for (level, confidence), pairs in found.items():
        kept = [(t, missed) for t, missed in pairs if t is not None]
        held, on_test = sum(pool.missed(t) <= level for t, _ in kept), sum(missed <= level for _, missed in kept)
        means = [_mean([part(t) for t, _ in kept]) for part in (pool.over_covered, pool.missed)]
        counts = (len(pairs), len(pairs) - len(kept), held, on_test)
        at: dict[str, Any] = {"promise": "miss", "drawn": drawn_how, "level": level, "confidence": confidence}
        yield Cell(**names, **at, **_counts(counts, means))


def precision_cells(pool: Pool, names: Mapping[str, Any], draws: int, drawn_how: str) -> Iterator[Cell]:
    """Promise that few accepted entities are wrong, in every draw."""
    keys = list(product(LEVELS, CONFIDENCES))
    found: dict[tuple[float, float], list[tuple[float | None, float]]] = {key: [] for key in keys}
    for index, rest in draws_of(pool, draws, drawn_how == "with replacement"):
        entities, test = drawn(pool.found, index, pool.num_units), drawn(pool.found, rest, pool.num_units)
        fitted, given = entities.halves(fitted_units(len(index)))
        cap = fitted.cap()
        for level in LEVELS:
            order = calibration.order_of_tests(fitted, len(index), level, cap, MANY)
            for confidence in CONFIDENCES:
                if drawn_how == "naive":
                    threshold = _naive_acceptance(entities, level)
                else:
                    threshold = calibration.accepting_threshold(given, len(index), level, confidence, cap, order)
                found[level, confidence].append((threshold, 0.0 if threshold is None else _wrong(test, threshold)))
    all_right = (~pool.found.is_wrong).sum()
    for (level, confidence), pairs in found.items():
        kept = [(t, wrong) for t, wrong in pairs if t is not None]
        wrong = [_wrong(pool.found, t) for t, _ in kept]
        lost = [(all_right - (~pool.found.is_wrong & (pool.found.score >= t)).sum()) / pool.num_gold for t, _ in kept]
        counts = (len(pairs), len(pairs) - len(kept), sum(w <= level for w in wrong), sum(w <= level for _, w in kept))
        at: dict[str, Any] = {"promise": "precision", "drawn": drawn_how, "level": level, "confidence": confidence}
        yield Cell(**names, **at, **_counts(counts, [_mean(lost), _mean(wrong)]))


def _wrong(found: Units, threshold: float) -> float:
    is_accepted = found.score >= threshold
    return float((found.is_wrong & is_accepted).sum() / max(1, is_accepted.sum()))


def _naive_acceptance(found: Units, level: float) -> float | None:
    """The lowest threshold at which the same data has the precision."""
    order = np.argsort(-found.score)
    wrong = found.is_wrong[order].cumsum() / np.arange(1, len(order) + 1)
    good = np.flatnonzero(wrong <= level)
    return float(found.score[order[good[-1]]]) if len(good) else None


def _counts(counts: Sequence[int], means: Sequence[float]) -> dict[str, Any]:
    return dict(zip(("draws", "refused", "held", "held_on_test", "cost", "share"), (*counts, *means)))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def run_guarantees(scores: Path, models: Sequence[Model], draws: int = DRAWS) -> Iterator[list[Cell]]:
    """Make all draws of each model, by what each head has to score tokens with."""
    for model in models:
        held = HeldOut.load(scores / model.file)
        names = {"corpus": model.corpus, "encoder": Path(model.encoder).name, "unit": "sentence"}
        cells: list[Cell] = []
        for way in range(1, 2) if model.head == OURS else range(2):
            own = {**names, "model": f"{model.head}, {WAYS[model.head][way]}"}
            pool = Pool(held, way, by_document=False)
            for how in ("split", "naive", "with replacement") if model.head == OURS else ("split",):
                cells += miss_cells(pool, own, draws, how)
        own = {**names, "model": model.head}
        for how in ("split", "naive") if model.head == OURS else ("split",):
            cells += precision_cells(Pool(held, 0, by_document=False), own, draws, how)
        if model.head == OURS and len(np.unique(held.document)) < len(held.document):
            by_document = Pool(held, 1, by_document=True)
            own = {**names, "model": f"{model.head}, {WAYS[model.head][1]}", "unit": "document"}
            cells += miss_cells(by_document, own, draws, "split")
        yield cells


# ---- The page --------------------------------------------------------------------------------------------------------

ABOUT = (
    "Of each corpus the held-out sentences (dev and test) stand for all text. {draws} times, half of them are drawn "
    "by chance to calibrate on, and the other half is left for a test. A promise is *kept* in a draw where what is "
    "expected of new text, the share over all held-out sentences, is at most the level: that is promised, with the "
    "confidence that is asked for. Of {draws} draws a promise with confidence 0.9 that is just kept fails in up to "
    "{most_90}, one with 0.95 in up to {most_95} (99 % of the time). With replacement, which is how new text comes, no "
    "sentence of the draw is missing in what it is compared with, and the draws are the exact case of the theorem."
)
ABOUT_MODELS = (
    "Trained with the shipped settings on the first {train:,} sentences of each corpus at most, {builtin} epochs "
    "(built-in encoder) or {pretrained} (MiniLM), the best epoch by the first {dev} of dev; of nested corpora the "
    "outermost segments. Ours is the shipped model; a token's score is P(it is part of an entity) by all spans. The "
    "rival has the same encoder and the same span features, and a sigmoid for each label of each span, trained by "
    "binary cross-entropy alone; a token's score is the largest sigmoid of the spans over it, or the noisy or of all "
    "of them, and the better of the two stands here. MiniLM knows English; germeval2014 is German and newsfane Arabic."
)
ABOUT_MISS = (
    "Gold entity tokens left uncovered: at most the level. Each cell: of {draws} draws those in which the promise was "
    "kept, of those in which it was made; where some were refused for too little data, how many."
)
ABOUT_COST = (
    "Tokens outside of gold that are covered, percent, mean over draws, confidence 0.95; *naive*: the threshold at "
    "which exactly the level is missed on the calibration data, with how often it held; *refused*: in most draws."
)
ABOUT_EXACT = (
    "The two scores alone, without calibration: tokens outside of gold that are covered, percent, where exactly 1 % of "
    "the gold tokens is missed in all held-out text, and ours as a part of the rival's. At most half was asked for, on "
    "four of six corpora; it is reached on {reached}."
)
ABOUT_PRECISION = (
    "Accepted entities that are wrong: at most the level. Kept as above; beside it the recall that is lost, in points, "
    "confidence 0.95."
)
ABOUT_DOCUMENTS = "Whole documents drawn, as `calibrate` does. There are few of them: small levels are refused."


def guarantees_page(
    cells: Sequence[Cell], exact: Sequence[Row], draws: int, sizes: Mapping[str, int], machine: str
) -> ResultPage:
    most = {f"most_{round(100 * confidence)}": most_failures(draws, confidence) for confidence in CONFIDENCES}
    parts: list[str | Table | Figure] = [
        ABOUT.format(draws=draws, **most),
        ABOUT_MODELS.format(**sizes),
        summary(cells),
        Table(held_rows(cells, "miss", "split", "sentence"), "Missed tokens: kept", ABOUT_MISS.format(draws=draws)),
        Table(held_rows(cells, "miss", "with replacement", "sentence"), "Missed tokens: kept, drawn with replacement"),
        draw(cells),
        Table(cost_rows(cells), "Missed tokens: what is covered beside them", ABOUT_COST),
        Table(exact, "At 1 % missed, without calibration", ABOUT_EXACT.format(reached=reached(exact))),
        Table(precision_rows(cells), "Precision", ABOUT_PRECISION),
    ]
    if any(cell.unit == "document" for cell in cells):
        documents = held_rows(cells, "miss", "split", "document")
        parts.append(Table(documents, "Missed tokens: by document", ABOUT_DOCUMENTS))
    return ResultPage("guarantees", "Guarantees: are they kept?", parts, csv=[c.row() for c in cells], machine=machine)


def most_failures(draws: int, confidence: float, sure: float = 0.99) -> int:
    """How many of the draws may fail, so often by chance, where each does with what is left of the confidence.

    >>> most_failures(200, 0.95)
    18
    """
    total = 0.0
    for failures in range(draws + 1):
        total += math.comb(draws, failures) * (1 - confidence) ** failures * confidence ** (draws - failures)
        if total >= sure:
            return failures
    return draws


def summary(cells: Sequence[Cell]) -> str:
    """Count over all cells that made a promise in most draws how often promises were kept."""
    lines = []
    for how in ("split", "with replacement", "naive"):
        own = [cell for cell in cells if cell.drawn == how and cell.promise == "miss" and cell.unit == "sentence"]
        own = [cell for cell in own if cell.model.startswith(OURS) and 2 * cell.refused < cell.draws]
        if own:
            shares = [cell.held / (cell.draws - cell.refused) for cell in own]
            least = min(zip(shares, own), key=lambda pair: pair[0] - pair[1].confidence)
            at = f"{least[1].corpus}, {least[1].encoder}, level {least[1].level:g}, confidence {least[1].confidence:g}"
            what = {"naive": "with a naive threshold it was", "split": "the promise was"}.get(how, f"{how} it was")
            kept = f"kept in {100 * np.mean(shares):.1f} % of the draws"
            lines.append(f"{what} {kept}, in the worst cell in {100 * least[0]:.1f} % ({at})")
    return "Over all corpora, encoders, levels and confidences: " + "; ".join(lines) + "."


def _groups(cells: Sequence[Cell], *names: str) -> dict[tuple[str, ...], list[Cell]]:
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        groups.setdefault(tuple(getattr(cell, name) for name in names), []).append(cell)
    return groups


def held_rows(cells: Sequence[Cell], promise: str, how: str, unit: str) -> Sequence[Row]:
    """A row for each corpus and encoder: how often the promise was kept at each level and confidence."""
    chosen = [c for c in cells if (c.promise, c.drawn, c.unit) == (promise, how, unit) and c.model.startswith(OURS)]
    rows = []
    for (corpus, encoder), own in _groups(chosen, "corpus", "encoder").items():
        row: dict[str, object] = {"corpus": corpus, "encoder": encoder}
        for cell in own:
            row[f"{100 * cell.level:g} %, {cell.confidence:g}"] = _held(cell)
        rows.append(row)
    return rows


def _held(cell: Cell) -> str:
    made = cell.draws - cell.refused
    if not made:
        return "refused"
    return f"{cell.held} of {made}" + (f" ({cell.refused} refused)" if cell.refused else "")


def cost_rows(cells: Sequence[Cell]) -> Sequence[Row]:
    """A row for each corpus and encoder: what is covered beside gold, by ours, the rival and naively."""
    chosen = [c for c in cells if c.promise == "miss" and c.unit == "sentence" and c.confidence == max(CONFIDENCES)]
    rows = []
    for (corpus, encoder), own in _groups(chosen, "corpus", "encoder").items():
        row: dict[str, object] = {"corpus": corpus, "encoder": encoder}
        for level in LEVELS:
            here = [cell for cell in own if cell.level == level]
            ours = next(c for c in here if c.model.startswith(OURS) and c.drawn == "split")
            naive = next(c for c in here if c.drawn == "naive")
            rivals = [c for c in here if c.model.startswith(SIGMOIDS) and 2 * c.refused <= c.draws]
            name = f"{100 * level:g} %"
            row[f"{name}: ours"] = _cost(ours)
            row[f"{name}: sigmoids"] = _cost(min(rivals, key=lambda c: c.cost)) if rivals else "refused"
            row[f"{name}: naive"] = f"{100 * naive.cost:.1f} ({100 * naive.held / naive.draws:.0f} %)"
        rows.append(row)
    return rows


def _cost(cell: Cell) -> str:
    return "refused" if 2 * cell.refused > cell.draws else f"{100 * cell.cost:.1f}"


def exact_rows(scores: Path, models: Sequence[Model], level: float = 0.01) -> Sequence[Row]:
    """List what is covered beside gold where exactly the level is missed: how well a score ranks tokens."""
    rows = []
    for model in (one for one in models if one.head == OURS):
        ours = HeldOut.load(scores / model.file)
        rival = HeldOut.load(scores / Model(model.corpus, model.encoder, SIGMOIDS).file)
        own, theirs = _exact(ours, 1, level), min(_exact(rival, way, level) for way in range(2))
        rows.append(
            {
                "corpus": model.corpus,
                "encoder": Path(model.encoder).name,
                "F1 ours": f"{100 * ours.f1[0]:.1f}",
                "F1 sigmoids": f"{100 * rival.f1[0]:.1f}",
                "ours": f"{100 * own:.1f}",
                "sigmoids": f"{100 * theirs:.1f}",
                PART: f"{own / theirs:.2f}",
            }
        )
    return rows


def reached(rows: Sequence[Row]) -> str:
    """Count the corpora on which ours covers at most half of what the rival does, by encoder."""
    parts = {row["encoder"]: [float(str(r[PART])) for r in rows if r["encoder"] == row["encoder"]] for row in rows}
    return ", ".join(f"{sum(p <= 0.5 for p in own)} of {len(own)} with {name}" for name, own in parts.items())


def _exact(held: HeldOut, way: int, level: float) -> float:
    pool = Pool(held, way, by_document=False)
    return pool.over_covered(pool.sorted_gold[int(level * len(pool.sorted_gold))])


def precision_rows(cells: Sequence[Cell]) -> Sequence[Row]:
    """A row for each corpus and encoder: precision kept, and recall lost, by ours, the rival and naively."""
    chosen = [c for c in cells if c.promise == "precision" and c.confidence == max(CONFIDENCES)]
    rows = []
    for (corpus, encoder), own in _groups(chosen, "corpus", "encoder").items():
        row: dict[str, object] = {"corpus": corpus, "encoder": encoder}
        for level in LEVELS:
            here = {(c.model, c.drawn): c for c in own if c.level == level}
            ours, naive, rival = here[OURS, "split"], here[OURS, "naive"], here[SIGMOIDS, "split"]
            name = f"{100 * level:g} %"
            row[f"{name}: kept"], row[f"{name}: naive"] = _held(ours), _held(naive)
            row[f"{name}: lost"], row[f"{name}: sigmoids lose"] = _cost(ours), _cost(rival)
        rows.append(row)
    return rows


def draw(cells: Sequence[Cell]) -> Figure:
    """Draw what is covered beside gold over the share that is missed, a panel for each corpus and encoder."""
    chosen = [c for c in cells if c.promise == "miss" and c.unit == "sentence" and c.confidence == max(CONFIDENCES)]
    chosen = [c for c in chosen if c.drawn == "split" and c.refused < c.draws]
    groups = _groups(chosen, "encoder", "corpus")
    encoders = list(dict.fromkeys(encoder for encoder, _ in groups))
    corpora = list(dict.fromkeys(corpus for _, corpus in groups))
    figure, grid = panels(14, 2.8 * len(encoders), len(encoders), len(corpora), sharex=True)
    for axes, (encoder, corpus) in zip(grid, product(encoders, corpora)):
        by_model = _groups(groups.get((encoder, corpus), ()), "model")
        for colour, (name, own) in zip((OURS_COLOUR, OTHER_COLOUR, QUIET_COLOUR), by_model.items()):
            at = [100 * cell.level for cell in own]
            axes.plot(at, [100 * cell.cost for cell in own], marker="o", markersize=4, color=colour, label=name[0])
        axes.set(xscale="log", title=f"{corpus}, {encoder}", ylim=(0, None))
        axes.title.set_fontsize(9)
        axes.set_xticks([100 * level for level in LEVELS], [f"{100 * level:g}" for level in LEVELS])
        axes.minorticks_off()
    grid[-1].set_xlabel("level, % missed")
    grid[0].set_ylabel("% of other tokens covered")
    grid[0].legend(frameon=False, fontsize=7)
    return figure
