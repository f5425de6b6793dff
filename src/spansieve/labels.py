"""Names of labels and their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class LabelSet:
    """Label names by id; id 0 is null and has no name.

    >>> labels = LabelSet(["PER", "ORG"])
    >>> labels.id("ORG"), labels.name(1), len(labels)
    (2, 'PER', 3)
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        self._ids = {name: i for i, name in enumerate(self.names, start=1)}
        if len(self._ids) != len(self.names) or "" in self._ids:
            raise ValueError(f"label names must be distinct and not empty, got {list(self.names)}")

    def id(self, name: str) -> int:
        if name not in self._ids:
            raise KeyError(f"unknown label {name!r}; known are {', '.join(sorted(self.names))}")
        return self._ids[name]

    def name(self, label: int) -> str:
        if not 1 <= label < len(self):
            raise KeyError(f"label id must lie between 1 and {len(self.names)}, got {label}")
        return self.names[label - 1]

    def __len__(self) -> int:
        """How many labels there are, null included: Y."""
        return len(self.names) + 1

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)
