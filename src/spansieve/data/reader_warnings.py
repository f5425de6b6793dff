"""What a reader or writer could not represent as it stood: counted, with the first locations, and never silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

MAX_LOCATIONS = 3


class ReaderWarnings:
    """Warnings of a reader or writer: how often each thing happened, and where first.

    >>> warnings = ReaderWarnings()
    >>> warnings.add("discontinuous entities read from their first part to their last", "a.ann line 3")
    >>> print(warnings)
    1 × discontinuous entities read from their first part to their last (a.ann line 3)
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.locations: dict[str, list[str]] = {}

    def add(self, what: str, where: str = "", count: int = 1) -> None:
        if not count:
            return
        self.counts[what] += count
        locations = self.locations.setdefault(what, [])
        if where and len(locations) < MAX_LOCATIONS:
            locations.append(where)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        """What happened and how often, the most frequent first."""
        return iter(self.counts.most_common())

    def __bool__(self) -> bool:
        return bool(self.counts)

    def __str__(self) -> str:
        lines = []
        for what, count in self:
            locations = ", ".join(self.locations[what])
            more = ", …" if count > len(self.locations[what]) > 0 else ""
            lines.append(f"{count:,} × {what}" + (f" ({locations}{more})" if locations else ""))
        return "\n".join(lines)


class _Ignored(ReaderWarnings):
    def add(self, what: str, where: str = "", count: int = 1) -> None:
        pass


IGNORED = _Ignored()  # for callers who do not ask for them
