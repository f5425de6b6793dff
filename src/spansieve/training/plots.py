"""Training curves, drawn from the history of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def draw_curves(history: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the loss on the left, dev scores in the middle and, for a filtered model, the size of its graphs on the
    right."""
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
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.3)
    figure.savefig(path, dpi=150)
