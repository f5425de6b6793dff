"""Where given phrases stand in a text, token by token: a list of names as constraints. No torch here."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spansieve.crf.flat_segments import best_disjoint
from spansieve.data.tokenizer import Token, Tokenizer, sequences_of_text, tokens_of_text
from spansieve.decoding.constraints import Constraints
from spansieve.segments import NamedSegment

Hit = tuple[int, int, str | None]  # start and end in characters, and the label, if the phrase has one


class Phrases:
    """Phrases with their labels, None for any. They are cut into tokens like the text, and blanks do not count."""

    def __init__(self, labels: Mapping[str, str | None], tokenizer: Tokenizer = tokens_of_text) -> None:
        self._by_first: dict[str, list[tuple[list[str], str | None]]] = defaultdict(list)
        for phrase, label in labels.items():
            words = [token.text for tokens in sequences_of_text(phrase, tokenizer, False) for token in tokens]
            if not words:
                raise ValueError(f"a phrase must hold a token, got {phrase!r}")
            self._by_first[words[0]].append((words, label))

    def hits(self, sentences: Sequence[Sequence[Token]]) -> list[Hit]:
        """Find the phrases in a text, in order; they may overlap, but lie within a sentence each."""
        found: list[Hit] = []
        for tokens in sentences:
            words = [token.text for token in tokens]
            for i, word in enumerate(words):
                for phrase, label in self._by_first.get(word, ()):
                    end = i + len(phrase)
                    if words[i:end] == phrase:
                        found.append((tokens[i].start, tokens[end - 1].end, label))
        return found


@dataclass(frozen=True)
class PhraseConstraints:
    """Constraints on every text: phrases that are entities wherever they stand, and phrases that are none.

    Of required phrases that overlap those that cover the most characters count, and none that overlaps an entity which
    the text's own constraints require.
    """

    required: Phrases
    forbidden: Phrases
    banned: Collection[tuple[str, str]] = ()
    thresholds: Mapping[str, float] | None = None

    def of(self, sentences: Sequence[Sequence[Token]], own: Constraints | None = None) -> Constraints:
        """The constraints of one text, joined with its own."""
        own = own or Constraints()
        hits = self.required.hits(sentences)
        free = [hit for hit in hits if not any(hit[0] < one.end and one.start < hit[1] for one in own.required)]
        required = (*own.required, *(NamedSegment(start, end, label or "") for start, end, label in _disjoint(free)))
        spans = {(one.start, one.end) for one in required}
        others = [hit for hit in self.forbidden.hits(sentences) if hit[:2] not in spans]
        return Constraints(
            required=required,
            forbidden=(*own.forbidden, *others),
            complete=own.complete,
            banned={*own.banned, *self.banned},
            thresholds={**(self.thresholds or {}), **own.thresholds},
        )


def _disjoint(hits: Sequence[Hit]) -> list[Hit]:
    if not hits:
        return []
    starts, ends = [hit[0] for hit in hits], [hit[1] for hit in hits]
    is_kept = best_disjoint(starts, ends, [float(end - start) for start, end in zip(starts, ends)])
    return [hit for hit, kept in zip(hits, is_kept) if kept]
