"""The folder that a bulk job writes to, and what of it is done.

part-000000.jsonl …       the rows of each block, whole or not there
_spansieve/plan.json      what the job is: files, sizes, columns, model; another one may not go on here
_spansieve/done/000000.json …   written after the part: how many rows and bytes it has, what was left out and why
_spansieve/left_out.jsonl   written at the end: what was left out of all the parts, by file and line
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from spansieve.persistence.atomic import write_durably
from spansieve.prediction.bulk.blocks import Block

PLAN, DONE, LEFT_OUT = "_spansieve/plan.json", "_spansieve/done", "_spansieve/left_out.jsonl"


class BulkError(RuntimeError):
    """A bulk job cannot start, go on or end; what it has done is in its folder."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one block."""

    index: int
    rows: int = 0  # that are written
    left_out: int = 0  # rows whose text cannot be read
    reasons: Sequence[tuple[int, str]] = ()  # of the first of those: the number in the block, from 1, and why
    num_read: int = 0  # lines or rows of the block, of any kind
    entities: int = 0
    bytes: int = 0
    worker: str = ""  # host and process
    failure: str = ""  # why the block could not be read at all
    is_fatal: bool = False  # the failure is that nothing can be written


class Ledger:
    """The record of what a bulk job has done. `folder` may be any that fsspec supports."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._filesystem, root = url_to_fs(folder)
        self._root = root.rstrip("/")

    def open(self, plan: dict[str, Any]) -> None:
        """Begin a job, or go on with the same one."""
        path = f"{self._root}/{PLAN}"
        if self._filesystem.exists(path):
            found = json.loads(self._filesystem.cat_file(path))
            for name in [*plan, *(found.keys() - plan.keys())]:
                value = plan.get(name)
                if found.get(name) != value:
                    raise BulkError(
                        f"{self.folder} must be empty or hold the same job, got one with another {name}: "
                        f"{_short(found.get(name))} and not {_short(value)}; write to another folder"
                    )
            return
        if self._filesystem.exists(self._root) and self._filesystem.ls(self._root):
            raise BulkError(f"{self.folder} must be empty or hold the same job, got something else: use another folder")
        self._write(path, json.dumps(plan, indent=1).encode())

    def list_left_out(self, problems: Iterable[Mapping[str, Any]]) -> None:
        """Write the list of what was left out."""
        self._write(f"{self._root}/{LEFT_OUT}", "".join(json.dumps(one) + "\n" for one in problems).encode())

    def finished(self) -> dict[int, Outcome]:
        """The blocks that need not be done again."""
        markers = f"{self._root}/{DONE}"
        if not self._filesystem.exists(markers):
            return {}
        self._filesystem.invalidate_cache()
        sizes = {Path(entry["name"]).stem: entry["size"] for entry in self._filesystem.ls(self._root, True)}
        names = [name for name in self._filesystem.ls(markers, False) if name.endswith(".json")]
        outcomes = map(outcome_of_json, self._filesystem.cat(names).values() if names else ())
        return {one.index: one for one in outcomes if one and sizes.get(f"part-{one.index:06d}") == one.bytes}

    def outcome(self, block: Block) -> Outcome | None:
        """The outcome of one block, if it need not be done again."""
        try:
            found = outcome_of_json(self._filesystem.cat_file(f"{self._root}/{DONE}/{block.index:06d}.json"))
            size = self._filesystem.size(f"{self._root}/{block.part}")
        except FileNotFoundError:
            return None
        return found if found is not None and found.bytes == size else None

    def commit(self, block: Block, content: bytes, outcome: Outcome) -> None:
        """Write the part, then the marker that it is there: a job killed between the two writes the same part again."""
        self._write(f"{self._root}/{block.part}", content)
        self._write(f"{self._root}/{DONE}/{block.index:06d}.json", json.dumps(asdict(outcome)).encode())

    def _write(self, path: str, content: bytes) -> None:
        try:
            self._filesystem.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            if isinstance(self._filesystem, LocalFileSystem):
                write_durably(Path(path), content, writer=uuid.uuid4().hex)
            else:
                self._filesystem.pipe_file(path, content)  # an object store shows it whole or not at all
        except OSError as error:  # a full disk has no name of its own
            reason = os.strerror(error.errno) if error.errno else str(error)
            raise BulkError(f"{path} cannot be written: {reason}; the parts that are there will be kept") from error


def outcome_of_json(content: bytes | str) -> Outcome | None:
    try:
        return Outcome(**json.loads(content))
    except (ValueError, TypeError):
        return None


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]} …"
