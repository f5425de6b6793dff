"""The model card: what a model is and how well it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spansieve.models.storage import encoder_name

if TYPE_CHECKING:
    from spansieve.training.run import TrainingResult


def model_card(result: TrainingResult) -> str:
    model, counts = result.config.model, result.counts
    limit = "" if counts.max_width is None else f", in segments of at most {counts.max_width} tokens"
    lines = [
        "---",
        "library_name: spansieve",
        "pipeline_tag: token-classification",
        "---",
        f"# Entities by {model.head} on the {encoder_name(model)} encoder",
        "",
        f"Finds {', '.join(counts.labels)} in text{limit}.",
        f"Trained on {counts.sentences:,} sentences with {counts.entities:,} entities in "
        f"{_time(result.seconds)}; epoch {result.best_epoch} of {len(result.history)} was the best on dev.",
        "",
        "```python",
        "import spansieve",
        "",
        'tagger = spansieve.load("path/to/this/folder")',
        'print(tagger.predict("…"))',
        "```",
        "",
        "## Scores",
        "",
        "Exact match: a segment counts when its borders and its label are right.",
        "",
        *_table(result.dev, "dev"),
    ]
    if result.test is not None:
        lines += ["", *_table(result.test, "test")]
    return "\n".join(lines) + "\n"


def _time(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds > 100 else f"{seconds:.0f} seconds"


def _table(scores: dict[str, Any], split: str) -> list[str]:
    def row(name: str, values: dict[str, Any]) -> str:
        numbers = " | ".join(f"{100 * values[key]:.2f}" for key in ("precision", "recall", "f1"))
        name = name.replace("|", "\\|")
        return f"| {name} | {numbers} | {values['gold']} |"

    rows = [row(label, values) for label, values in scores["by_label"].items()]
    return [
        f"| {split} | precision | recall | F1 | gold |",
        "|---|---|---|---|---|",
        *rows,
        row("**all**", scores["micro"]),
    ]
