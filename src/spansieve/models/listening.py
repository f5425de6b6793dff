"""What a model's scores are told beside the sentence: its training data's names, and the rest of its document. No torch
here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from spansieve.config import ModelConfig
from spansieve.data.frames import Frames, frames_of
from spansieve.data.lexicon import Lexicon, Remembered
from spansieve.data.mentions import Mentions, mentions_of
from spansieve.models.found import Documents


class News(NamedTuple):
    """Of some sentences; None where nobody listens."""

    remembered: Remembered | None
    mentions: Mentions | None
    frames: Frames | None

    @property
    def is_of_documents(self) -> bool:
        return self.mentions is not None or self.frames is not None


@dataclass(frozen=True)
class Listening:
    mention_weight: float
    frame_weight: float
    lexicon_weight: float
    max_width: int  # of the widest span that has a score
    lexicon: Lexicon | None

    @classmethod
    def of(cls, config: ModelConfig, max_width: int, lexicon: Lexicon | None) -> Listening:
        width = 1 if config.head == "crf" else max_width
        return cls(config.mention_weight, config.frame_weight, config.lexicon_weight, width, lexicon)

    @property
    def to_documents(self) -> bool:
        return bool(self.mention_weight or self.frame_weight)

    @property
    def to_lexicon(self) -> bool:
        return bool(self.lexicon_weight) and self.lexicon is not None

    @property
    def is_any(self) -> bool:
        return self.to_documents or self.to_lexicon

    def news(
        self, sentences: Sequence[Sequence[str]], documents: Documents | None, among: Iterable[int] | None = None
    ) -> News:
        among = list(range(len(sentences)) if among is None else among)
        remembered = None
        if self.lexicon is not None and self.lexicon_weight:
            remembered = self.lexicon.find(sentences, among)
        if documents is None:
            return News(remembered, None, None)
        mentions = mentions_of(sentences, documents, self.max_width, among) if self.mention_weight else None
        frames = frames_of(sentences, documents, among) if self.frame_weight else None
        return News(remembered, mentions, frames)
