"""Plots: training curves and reliability diagrams. Matplotlib, an extra, is imported here alone, and only to draw."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spansieve.evaluation.calibration import Calibration

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EXTRA = "pip install 'spansieve[plots]'"
RIGHT, PROMISED = "#3b6fb6", "#b0b0b0"


def can_draw() -> bool:
    """True when Matplotlib is installed."""
    return find_spec("matplotlib") is not None


def check_can_draw() -> None:
    """Raise an error that names the extra where Matplotlib is not installed."""
    if not can_draw():
        raise ImportError(f"to draw a plot matplotlib must be installed: {EXTRA}")


def draw_curves(history: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the history of a run: the loss on the left, dev scores in the middle and, for a filtered model, the size of
    its graphs on the right."""
    check_can_draw()
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogFormatter, MaxNLocator

    has_graph = any(entry["graph"] for entry in history)
    figure = Figure(figsize=(12 if has_graph else 8, 3.4), layout="constrained")
    panels = figure.subplots(1, 3 if has_graph else 2)
    epochs = [entry["epoch"] for entry in history]
    panels[0].plot(epochs, [entry["loss"] for entry in history], marker="o", markersize=3)
    is_log = all(entry["loss"] > 0 for entry in history)
    panels[0].set(ylabel="training loss per sentence", yscale="log" if is_log else "linear")
    if is_log:  # 12 and not 1.2 × 10¹
        panels[0].yaxis.set_major_formatter(LogFormatter())
        panels[0].yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1, 0.5)))
    for name in ("precision", "recall", "f1"):
        label = "F1" if name == "f1" else name
        panels[1].plot(epochs, [100 * entry["dev"][name] for entry in history], marker="o", markersize=3, label=label)
    if has_graph:
        recall = [100 * entry["graph"].get("filter_recall", 0.0) for entry in history]
        panels[1].plot(epochs, recall, linestyle="--", label="filter recall")
        for name, label in (("nodes", "|V|"), ("edges", "|E|")):
            values = [entry["graph"].get(name, 0.0) for entry in history]
            panels[2].plot(epochs, values, marker="o", markersize=3, label=label)
        panels[2].set(ylabel="per dev sentence")
        panels[2].legend(frameon=False)
    panels[1].set(ylabel="dev score, %")
    panels[1].legend(frameon=False)
    for panel in panels:
        panel.set(xlabel="epoch")
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        _plain(panel)
    figure.savefig(path, dpi=150)


def draw_reliability(calibration: Calibration, path: Path, title: str = "") -> None:
    """Draw a reliability diagram: above, the share of predictions that are right against their probability, calibrated
    ones on the diagonal; below, how many predictions there are."""
    check_can_draw()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3.2, 1))
    bins = [bin for bin in calibration.bins if bin.count]
    width = 0.9 / max(1, len(calibration.bins))
    middle = [(bin.low + bin.high) / 2 for bin in bins]
    upper.plot([0, 1], [0, 1], color=PROMISED, linestyle="--", label="calibrated")
    probability, accuracy = [bin.probability for bin in bins], [bin.accuracy for bin in bins]
    upper.bar(middle, accuracy, width, color=RIGHT, alpha=0.35)
    upper.plot(probability, accuracy, "o-", color=RIGHT, markersize=5, label="right")
    summary = f"calibration error {100 * calibration.expected_error:.2f} %\nBrier score {calibration.brier:.4f}"
    upper.text(0.97, 0.05, summary, transform=upper.transAxes, ha="right", va="bottom")
    upper.set(ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
    upper.legend(frameon=False, loc="upper left")
    lower.bar(middle, [bin.count for bin in bins], width, color=RIGHT, alpha=0.6)
    is_wide = bool(bins) and max(bin.count for bin in bins) > 20 * min(bin.count for bin in bins)
    lower.set(xlabel="probability", ylabel="entities", yscale="log" if is_wide else "linear")
    for panel in (upper, lower):
        _plain(panel)
    if title:
        figure.suptitle(title, fontsize=11)
    figure.savefig(path, dpi=150, format="png")


def _plain(panel: Axes) -> None:
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.3)
    panel.set_axisbelow(True)
