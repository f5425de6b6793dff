"""A table or figure on disk: a page that says how it was made, a CSV and a plot, all of one name."""

from __future__ import annotations

import math
import shlex
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.measuring import markdown_table, provenance, write_csv
from benchmarks.reproduce.plan import Plan

Row = Mapping[str, object]
NO_PLACES = ("--out", "--runs")  # where files go is nobody's business but the machine's
OURS_COLOUR, OTHER_COLOUR, QUIET_COLOUR = "#c2410c", "#1d4ed8", "#94a3b8"
COLOURS = {
    "crf": OTHER_COLOUR,
    "semicrf": "#15803d",
    "semicrf-unit-null": "#0d9488",
    "fsemicrf": OURS_COLOUR,
    "filter-only": "#a16207",
    "fsemicrf-paper": "#7e22ce",
}


class Spread(NamedTuple):
    """A figure over seeds: its mean and its sample standard deviation, which one seed has none of."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """
        >>> Spread.of([1.0, 3.0])
        Spread(mean=2.0, deviation=1.4142135623730951)
        """
        return cls(statistics.mean(values), statistics.stdev(values) if len(values) > 1 else math.nan)

    def percent(self) -> str:
        """
        >>> Spread(0.9, 0.001).percent(), Spread(0.9, math.nan).percent()
        ('90.00 ± 0.10', '90.00')
        """
        text = f"{100 * self.mean:.2f}"
        return text if math.isnan(self.deviation) else f"{text} ± {100 * self.deviation:.2f}"


@dataclass(frozen=True)
class Table:
    """A table of a page, with what is said above it."""

    title: str
    rows: Sequence[Row]
    about: str = ""


@dataclass(frozen=True)
class Page:
    """What a page says beside its tables."""

    title: str
    stem: str  # of the names of its files
    about: Sequence[str]  # how it was made, a paragraph each


def write_page(
    plan: Plan,
    table: str,
    title: str,
    tables: Sequence[Table],
    figure: Figure,
    out: Path,
    command: str,
    points: Mapping[str, Sequence[Row]] | None = None,
) -> Path:
    """The page of a plan: see `write_files`."""
    where = "on a GPU" if plan.device == "cuda" else "on the CPU"
    heading = f"{title}: {plan.corpus.name}, {plan.encoder_name} encoder, {where}"
    about = [*provenance(command, plan.device), *plan.describe()]
    return write_files(Page(heading, plan.stem(table), about), tables, figure, out, points)


def write_files(
    page: Page,
    tables: Sequence[Table],
    figure: Figure,
    out: Path,
    points: Mapping[str, Sequence[Row]] | None = None,
) -> Path:
    """The page; beside it the first table as a CSV, the plot, and points that are too many for a table as CSVs."""
    out.mkdir(parents=True, exist_ok=True)
    lines = [f"# {page.title}", *page.about]
    for one in tables:
        lines += [f"## {one.title}", *([one.about] if one.about else []), _as_markdown(one.rows)]
    lines.append(f"![{page.title.partition(':')[0]}]({page.stem}.png)")
    write_csv(out / f"{page.stem}.csv", tables[0].rows)
    for name, rows in (points or {}).items():
        write_csv(out / f"{page.stem}_{name}.csv", rows)
    figure.savefig(out / f"{page.stem}.png", dpi=150)
    path = out / f"{page.stem}.md"
    path.write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    return path


def _as_markdown(rows: Sequence[Row]) -> str:
    """With bars that are no borders of cells, such as those of |V|."""
    safe = [{name.replace("|", "\\|"): str(value).replace("|", "\\|") for name, value in row.items()} for row in rows]
    return markdown_table(safe).rstrip()


def command_line(arguments: Sequence[str]) -> str:
    """As it was typed, but for where things are on this machine: paths are told by their names.

    >>> command_line(["table1", "--out", "/a/b", "--seeds", "3"])
    'python -m benchmarks table1 --seeds 3'
    """
    kept: list[str] = []
    is_place = False
    for argument in arguments:
        if is_place or argument in NO_PLACES:
            is_place = not is_place
        elif not argument.startswith(tuple(f"{name}=" for name in NO_PLACES)):
            kept.append(_without_folder(argument))
    return shlex.join(["python", "-m", "benchmarks", *kept])


def _without_folder(argument: str) -> str:
    name, sign, value = argument.rpartition("=")
    is_path = "/" in value and Path(value).exists()
    return f"{name}{sign}{Path(value).name}" if is_path else argument


def tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
