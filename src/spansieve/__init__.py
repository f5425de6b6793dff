"""spansieve: exact, fast taggers for named entities and other text segments."""

from __future__ import annotations

from spansieve.segments import Segment

__version__ = "0.1.0.dev0"
__all__ = ["Segment", "__version__"]
