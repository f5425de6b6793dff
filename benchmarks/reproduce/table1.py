"""Table 1: precision, recall and F1 of every head on one encoder, over several seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.plots import COLOURS, QUIET_COLOUR, Figure, bar_names, panels
from benchmarks.reproduce.paper import TABLE1
from benchmarks.reproduce.plan import NAMES, OURS, PAPER_RECIPE, Plan
from benchmarks.reproduce.runs import Outcome, by_head
from benchmarks.result_page import ResultPage, Row, Spread, Table, percent
from spansieve.data.example import Example
from spansieve.evaluation.significance import Comparison, compare
from spansieve.prediction.predictor import GoldOutcomes
from spansieve.segments import NamedSegment

TEST = (
    "The difference is a row's F1 less that of FSemiCRF, with a 95 % interval of the paired bootstrap and the p-value "
    "of approximate randomisation, two-sided, 10,000 resamples each. What is resampled or swapped is a test sentence "
    "with the predictions of all seeds on it, so that the same sentence under another seed does not count as a new "
    "one; F1 is there that of the counts of all seeds together. Both are about chance in the choice of sentences; "
    "chance in training is in the standard deviation. The p-values are not corrected for the number of rows."
)
OUTCOMES = (
    "Where the filtered models lose test gold, the mean over the seeds: segments wider than max_width, those that the "
    "filter does not keep with their label, and those that are candidates but not on the best path. Labels that "
    "training data lacks are lost to every head."
)


@dataclass(frozen=True)
class HeadRow:
    """A row of the table."""

    head: str
    precision: Spread
    recall: Spread
    f1: Spread
    dev_f1: Spread
    gold_outcomes: Sequence[GoldOutcomes]  # of each seed, where the head is a filtered one
    comparison: Comparison | None  # a is FSemiCRF, b this head; None for FSemiCRF itself


def head_rows(outcomes: Sequence[Outcome], test: Sequence[Example]) -> list[HeadRow]:
    groups = by_head(outcomes)
    gold = [example.segments for example in test]
    pooled_gold = pooled([gold] * max(map(len, groups.values())))
    ours = pooled([outcome.found for outcome in groups[OURS]]) if OURS in groups else None
    rows = []
    for head, some in groups.items():
        comparison = None
        if ours is not None and head != OURS:
            comparison = compare(pooled_gold, ours, pooled([outcome.found for outcome in some]))
        rows.append(
            HeadRow(
                head,
                Spread.of([outcome.test.precision for outcome in some]),
                Spread.of([outcome.test.recall for outcome in some]),
                Spread.of([outcome.test.f1 for outcome in some]),
                Spread.of([outcome.dev.f1 for outcome in some]),
                [outcome.gold_outcomes for outcome in some if outcome.gold_outcomes is not None],
                comparison,
            )
        )
    return rows


def pooled(seeds: Sequence[Sequence[Sequence[NamedSegment]]]) -> list[list[tuple[int, int, str]]]:
    """The segments of all seeds in each sentence, with the seed in front of each label.

    >>> pooled([[[(0, 1, "PER")]], [[(0, 1, "PER")]]])
    [[(0, 1, '0 PER'), (0, 1, '1 PER')]]
    """
    return [
        [(start, end, f"{seed} {label}") for seed, segments in enumerate(found) for start, end, label in segments]
        for found in zip(*seeds)
    ]


# ---- The page --------------------------------------------------------------------------------------------------------


def table1_page(plan: Plan, outcomes: Sequence[Outcome], paper: str | None) -> ResultPage:
    rows = head_rows(outcomes, plan.corpus.test)
    tables = [Table([_score_row(row, paper) for row in rows], "Test scores", _about_scores(plan, paper))]
    if compared := [row for row in rows if row.comparison is not None]:
        tables.append(Table([_difference_row(row, rows) for row in compared], "Differences to FSemiCRF", TEST))
    if filtered := [row for row in rows if row.gold_outcomes]:
        lost = [gold_outcomes_row(row.head, row.gold_outcomes) for row in filtered]
        tables.append(Table(lost, "Gold lost by the filtered models", OUTCOMES))
    seeds = [seed_row(outcome) for outcome in outcomes]
    tables.append(Table(seeds, "Seed by seed"))
    return plan.page("table1", "Table 1", tables, draw(rows, paper), {"seeds": seeds})


def _about_scores(plan: Plan, paper: str | None) -> str:
    over = f"mean and sample standard deviation over {len(plan.seeds)} seeds" if len(plan.seeds) > 1 else "one seed"
    about = f"Exact match, micro average, percent: {over}. The epoch that is tested is the best on dev."
    if paper is None:
        return about + " The paper has no figures for this corpus."
    return about + " The paper's figures are its own, with its own encoders: bert-large-cased, and AraBERT for Arabic."


def _score_row(row: HeadRow, paper: str | None) -> Row:
    cells: dict[str, object] = {
        "model": NAMES[row.head],
        "P": row.precision.percent(),
        "R": row.recall.percent(),
        "F1": row.f1.percent(),
        "dev F1": row.dev_f1.percent(),
    }
    if paper is not None:
        cells |= {f"{name}, paper": f"{x:.2f}" for name, x in zip(("P", "R", "F1"), _of_paper(paper, row.head))}
    return cells


def _of_paper(corpus: str, row: str) -> tuple[float, float, float]:
    """Precision, recall and F1. The paper's FSemiCRF stands beside both of ours."""
    return TABLE1[corpus][OURS if row == PAPER_RECIPE else row]


def _difference_row(row: HeadRow, rows: Sequence[HeadRow]) -> Row:
    assert row.comparison is not None
    ours = next(one for one in rows if one.head == OURS)
    low, high = row.comparison.difference.low, row.comparison.difference.high
    return {
        "model": NAMES[row.head],
        "difference of mean F1": f"{100 * (row.f1.mean - ours.f1.mean):+.2f}",
        "95 % interval, all seeds together": f"{100 * low:+.2f} … {100 * high:+.2f}",
        "p": f"{row.comparison.randomisation_p_value:.4f}",
    }


def gold_outcomes_row(head: str, gold_outcomes: Sequence[GoldOutcomes]) -> Row:
    gold = gold_outcomes[0].gold

    def lost(counts: Sequence[int]) -> str:
        mean = sum(counts) / len(counts)
        return f"{mean:,.1f} ({100 * mean / max(gold, 1):.2f} %)"

    return {
        "model": NAMES[head],
        "gold": f"{gold:,}",
        "lost to max_width": lost([one.width for one in gold_outcomes]),
        "lost to the filter": lost([one.filter for one in gold_outcomes]),
        "lost to the path": lost([one.path for one in gold_outcomes]),
        "lost to unknown labels": lost([one.unknown for one in gold_outcomes]),
    }


def seed_row(outcome: Outcome) -> Row:
    test = outcome.test
    figures = {"P": test.precision, "R": test.recall, "F1": test.f1, "dev F1": outcome.dev.f1}
    return {
        "model": NAMES[outcome.run.head],
        "seed": outcome.run.seed,
        **{name: percent(value) for name, value in figures.items()},
        "best epoch": outcome.best_epoch,
        "training, s": f"{outcome.seconds:.0f}",
        "on": outcome.device,
    }


def draw(rows: Sequence[HeadRow], paper: str | None) -> Figure:
    """Draw F1 of each head with its standard deviation, and the paper's as a mark."""
    figure, (axes,) = panels(7.2, 3.6)
    means = [100 * row.f1.mean for row in rows]
    errors = [0.0 if math.isnan(row.f1.deviation) else 100 * row.f1.deviation for row in rows]
    places = range(len(rows))
    axes.bar(places, means, yerr=errors, width=0.6, capsize=4, color=[COLOURS[row.head] for row in rows])
    shown = [*(m - e for m, e in zip(means, errors)), *(m + e for m, e in zip(means, errors))]
    if paper is not None:
        theirs = [_of_paper(paper, row.head)[2] for row in rows]
        axes.plot(places, theirs, "D", color=QUIET_COLOUR, markeredgecolor="black", label="paper, its encoder")
        axes.legend(frameon=False, loc="upper left", bbox_to_anchor=(0, 1.12))
        shown += theirs
    room = max(max(shown) - min(shown), 0.5)
    axes.set_ylim(max(0.0, min(shown) - room), min(100.0, max(shown) + 0.5 * room))
    for place, mean, error in zip(places, means, errors):
        # In the bar: above it there may be the paper's mark.
        below_error = (place, mean - error)
        axes.annotate(f"{mean:.2f}", below_error, (0, -14), textcoords="offset points", ha="center", color="white")
    bar_names(axes, [NAMES[row.head] for row in rows])
    axes.set_ylabel("test F1, % (the axis does not begin at 0)")
    return figure
