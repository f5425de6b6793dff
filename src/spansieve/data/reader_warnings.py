"""What a reader or writer could not represent as it stood: counted, with the first places, and never silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

MOST_PLACES = 3


class Notes:
    """Warnings of a reader or writer: how often each thing happened, and where first.

    >>> notes = Notes()
    >>> notes.add("discontinuous entities read from their first part to their last", "a.ann line 3")
    >>> print(notes)
    1 × discontinuous entities read from their first part to their last (a.ann line 3)
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.places: dict[str, list[str]] = {}

    def add(self, what: str, where: str = "", count: int = 1) -> None:
        if not count:
            return
        self.counts[what] += count
        places = self.places.setdefault(what, [])
        if where and len(places) < MOST_PLACES:
            places.append(where)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """What happened and how often, the most frequent first."""
        return iter(self.counts.most_common())

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        lines = []
        for what, count in self:
            places = ", ".join(self.places[what])
            more = ", …" if count > len(self.places[what]) > 0 else ""
            lines.append(f"{count:,} × {what}" + (f" ({places}{more})" if places else ""))
        return "\n".join(lines)
