"""The pages of docs/ and the code on them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*)(?: +title=\"(?P<title>[^\"]+)\")?\s*$")


@dataclass(frozen=True)
class Block:
    """Code between fences, or indented by four blanks, where it has no language."""

    page: str
    line: int
    language: str
    code: str
    title: str | None = None  # it is then the file of that name

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def commands(self) -> list[str]:
        """Lines to type, continued ones as one, those that only comment left out."""
        lines = re.sub(r" *\\\n *", " ", self.code).splitlines() if self.language == "bash" else []
        return [line for line in lines if shlex.split(line, comments=True)]


def name_of(path: Path) -> str:
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()


def blocks_of(path: Path) -> list[Block]:
    """In order."""
    blocks: list[Block] = []
    lines = path.read_text(encoding="utf-8").splitlines()
    at = 0
    while at < len(lines):
        start, line = at, lines[at]
        at += 1
        if fence := _FENCE.match(line):
            while lines[at].strip() != "```":
                at += 1
            inside = [one.removeprefix(fence["indent"]) for one in lines[start + 1 : at]]
            code = "\n".join(inside) + "\n"
            blocks.append(Block(name_of(path), start + 1, fence["language"], code, fence["title"]))
            at += 1
        elif line.startswith("    ") and not lines[start - 1].strip():
            while at < len(lines) and lines[at].startswith("    "):
                at += 1
            code = "\n".join(one[4:] for one in lines[start:at]) + "\n"
            blocks.append(Block(name_of(path), start + 1, "", code))
    return blocks


BLOCKS = [block for path in PAGES for block in blocks_of(path)]
