"""What the plots of the result pages share; the only module here that imports matplotlib."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes as Axes
from matplotlib.figure import Figure as Figure
from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, StrMethodFormatter

OURS_COLOUR, OTHER_COLOUR, QUIET_COLOUR = "#c2410c", "#1d4ed8", "#94a3b8"
COLOURS = {
    "crf": OTHER_COLOUR,
    "semicrf": "#15803d",
    "semicrf-unit-null": "#0d9488",
    "fsemicrf": OURS_COLOUR,
    "filter-only": "#a16207",
    "fsemicrf-paper": "#7e22ce",
}  # of the heads


def panels(width: float, height: float, rows: int = 1, columns: int = 1, **shared: Any) -> tuple[Figure, list[Axes]]:
    """An empty figure of that many inches, and its panels row by row; `shared` goes to `Figure.subplots`."""
    figure = Figure(figsize=(width, height), layout="constrained")
    grid = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for axes in grid:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
        axes.set_axisbelow(True)
    return figure, grid


def log_counts(axes: Axes, ticks: Sequence[float] | None = None) -> None:
    """Make the x axis logarithmic, with counts as 1,000 at the ticks, or at 1, 2 and 5 times each power of ten."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)) if ticks is None else FixedLocator(ticks))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    no_minor_labels(axes)


def no_minor_labels(axes: Axes) -> None:
    """Label no minor ticks of the x axis: a narrow panel would write them over each other."""
    axes.xaxis.set_minor_formatter(NullFormatter())


def bar_names(axes: Axes, names: Sequence[str]) -> None:
    """Name the bars at 0, 1, 2 …, long names broken into lines, and draw no lines between them."""
    in_lines = [re.sub(r",? (?=\+|w/o|paper's|softmax)", "\n", name) for name in names]
    axes.set_xticks(range(len(names)), in_lines, fontsize=8)
    axes.grid(visible=False, axis="x")
