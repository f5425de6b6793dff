"""What commands write: JSON lines, suggestions for annotation tools, highlighted text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rich.console
from rich.console import ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from spansieve.cli.options import Tool
from spansieve.data.formats.files import json_line as json_line
from spansieve.data.formats.files import opened as opened
from spansieve.persistence.manifest import name_of

if TYPE_CHECKING:
    from spansieve.models.tagger import Tagger
    from spansieve.prediction.preannotation import Suggestion
    from spansieve.segments import Entity

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and ends of lines
COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")


def write_json(report: Any, file: Path | None) -> None:
    """Write the figures of a report, or of several, to a file, where one was asked for."""
    if file is not None:
        figures = [one.to_dict() for one in report] if isinstance(report, list) else report.to_dict()
        written = json.dumps(figures, indent=2, ensure_ascii=False) + "\n"
        file.write_text(written, encoding="utf-8", newline="\n")


# ---- Suggestions -----------------------------------------------------------------------------------------------------


def model_version(model: str, tagger: Tagger) -> str:
    """The model's name, and a version that changes with its weights."""
    from spansieve.models.storage import version_of

    return f"{name_of(model)}-{version_of(tagger)}"


def write_suggestions(suggestions: Iterable[Suggestion], tool: Tool, output: Path | None) -> None:
    """Write suggestions as they come, to a file that the tool imports or to standard output."""
    from spansieve.prediction.preannotation import FORMS

    lines = (json_line(FORMS[tool](suggestion)) for suggestion in suggestions)
    with opened(output) as target:
        target.writelines(_json_list(lines) if tool == "label-studio" else lines)


def _json_list(lines: Iterable[str]) -> Iterator[str]:
    """Join JSON lines to one JSON list, which is what Label Studio reads."""
    yield "["
    for i, line in enumerate(lines):
        yield (",\n " if i else "") + line.rstrip("\n")
    yield "]\n"


# ---- On the terminal -------------------------------------------------------------------------------------------------
# Texts, labels and file names may come from anywhere, and must not steer it.


def printable(text: str) -> str:
    """Write control characters as their numbers; all else stays as it is.

    >>> printable("Zoë \\x1b[2J")
    'Zoë \\\\x1b[2J'
    """
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


class Console(rich.console.Console):
    """A console of rich that writes control characters of what it is given as their numbers; colours are its own. Lines
    are not cut, unless they are to be read as prose."""

    def __init__(self, soft_wrap: bool = True, **options: Any) -> None:
        super().__init__(highlight=False, soft_wrap=soft_wrap, **options)

    def warn(self, message: str) -> None:
        """Print a warning, which may hold any text."""
        self.print(message, style="yellow", markup=False, soft_wrap=True)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            is_text = not segment.control and _CONTROL.search(segment.text)
            yield Segment(printable(segment.text), segment.style) if is_text else segment


def highlighted(text: str, entities: Iterable[Entity], labels: tuple[str, ...]) -> Text:
    """The text with each entity in its label's colour, and the label and probability behind it. An entity that contains
    others comes before them."""
    colour = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    outer_first, whole, shown = list(entities), Text(text), Text()
    for entity in outer_first:
        whole.stylize(f"bold {colour[entity.label]}", entity.start, entity.end)
    by_end = outer_first[::-1]
    by_end.sort(key=lambda entity: entity.end)  # which leaves inner ones first
    *pieces, rest = whole.divide([entity.end for entity in by_end])
    for piece, entity in zip(pieces, by_end):
        probability = "" if entity.probability is None else f" {entity.probability:.2f}"
        shown.append(piece).append(f" [{entity.label}{probability}]", style=f"dim {colour[entity.label]}")
    return shown.append(rest)
