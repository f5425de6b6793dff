"""How our docstrings become reference: what begins with `>>>` is code, and a comment beside a field describes it."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^(>>> .*(?:\n.+)*)", re.MULTILINE)
_BESIDE = re.compile(r"\s{2}# (.+)$")
_ABOVE = re.compile(r"^ +# (.+)$")


class Docstrings(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _EXAMPLE.sub(r"```pycon\n\1\n```", obj.docstring.value)

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        if attr.docstring is None and attr.lineno and isinstance(attr.parent, griffe.Class) and attr.annotation:
            lines = attr.lines_collection[attr.filepath]
            comment = _BESIDE.search(lines[attr.lineno - 1]) or _ABOVE.match(lines[attr.lineno - 2])
            if comment:
                attr.docstring = griffe.Docstring(comment[1], parent=attr)
