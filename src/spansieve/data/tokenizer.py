"""Text to tokens and sentences, every token with its characters: `text[token.start:token.end] == token.text`.

Tokens are cut the way the CoNLL corpora have them: punctuation stands apart; numbers, dates, times, web addresses,
abbreviations and hyphenated words stay whole; `'s`, `n't` and their like are tokens. A combining mark stays with its
letter and an emoji with its modifiers. Scripts without blanks (Han, kana, Thai and others) are cut by the character.
Blanks and invisible signs of direction and width belong to no token. Any other `Tokenizer` may stand in its place.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol


class Token(NamedTuple):
    text: str
    start: int
    end: int  # exclusive


class Tokenizer(Protocol):
    """A tokenizer, text in and its tokens out: in order, none of them empty, no two sharing a character.
    `tokens_of_text` is one."""

    def __call__(self, text: str, /) -> Iterable[Token]: ...


# Characters that belong to the letter before them, and joiners within a word.
_MARKS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u08d3-\u08e1\u08e3-\u0903\u093a-\u093c"
    "\u093e-\u094f\u0951-\u0957\u0962\u0963\u0981-\u0983\u09bc-\u09cd\u09d7\u09e2\u09e3\u0a01-\u0a03\u0a3c-\u0a51"
    "\u0a70\u0a71\u0a75\u0a81-\u0a83\u0abc-\u0acd\u0ae2\u0ae3\u0b01-\u0b03\u0b3c-\u0b57\u0b82\u0bbe-\u0bcd\u0bd7"
    "\u0c00-\u0c04\u0c3e-\u0c56\u0c81-\u0c83\u0cbc-\u0cd6\u0d00-\u0d03\u0d3b-\u0d4d\u0d57\u0dca-\u0ddf\u0e31"
    "\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd\u102b-\u103e\u1056-\u1059\u17b4-\u17d3\u1ab0-\u1aff"
    "\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f\u00ad\u200c\u200d"
)
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_UNSPACED += "\uff66-\uff9f\U00020000-\U0003ffff"
_INVISIBLE = "\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff"
_PICTURE = "[\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff]"
_MODIFIER = "[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]"

_LETTER = r"[^\W\d_]"
NAME_LETTER = r"[^\W\d_a-z]"  # begins what may follow the initial of a name
_WORD = rf"[^\W{_UNSPACED}]+(?:[{_MARKS}]+[^\W{_UNSPACED}]*)*"
_CLITIC = r"(?i:s|re|ve|ll|d|m)\b"
_TITLES = "Mr|Mrs|Ms|Messrs|Dr|Prof|Gen|Sen|Rep|Gov|Lt|Col|Sgt|Capt|Cmdr|Adm|Maj|Rev|Hon|St|Mt|Ft|Sr|Sra|Srta|Mme|Mlle"
_SHORT = (
    "Inc|Ltd|Corp|Co|Cos|Bros|Jr|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept|Sep|Oct|Nov|Dec|vs|etc|al|approx|dept|est|Ave|Blvd|No"
    "|Nos|Fig|Figs|Vol|pp|cf|Ph\\.D|M\\.Sc|resp|bzw|usw|Nr|Str|Calif|Mass|Conn|Fla|Ariz|Mich|Minn|Wis|Tenn|Ore|Colo"
)

TOKEN = re.compile(
    "|".join(
        (
            # Web addresses, without the punctuation behind them; mail addresses; @names and #topics.
            r"(?:https?://|www\.)[^\s<>\"]*[^\s<>\"'.,;:!?)\]}»”’]",
            r"[\w.+-]{1,64}@\w[\w-]*(?:\.\w[\w-]*)+",
            rf"(?<!\w)[@#]\w[\w{_MARKS}]*",
            # Dr. and Inc.; U.S., p.m. and U.S.-based; the initial in J. Smith.
            rf"(?<!\w)(?:{_TITLES}|{_SHORT})\.(?![\w.])",
            rf"(?<!\w)(?:{_LETTER}\.){{2,}}(?:{_LETTER}(?!\w))?(?:-{_WORD})*",
            rf"(?<![\w.])[A-Z]\.(?=\s+{NAME_LETTER})",
            # Brackets as treebanks spell them; US$.
            r"-[LR][RSC]B-|(?<!\w)(?:US|HK|NZ|AU|[ACMS])\$",
            # What stands before n't; n't; 's and its like.
            rf"[^\W\d_{_UNSPACED}]+?(?=(?i:n['’]t)\b)",
            r"(?<![^\w\s])(?i:n['’]t)\b",
            rf"(?<![^\w\s])['’]{_CLITIC}",
            # Words and numbers: a sign or point before digits, then parts with . , : / between digits, or with - & '
            # between letters, or with the point of a domain.
            rf"(?:(?<![^\s(\[])[+\-−](?=\.?\d))?(?:\.(?=\d))?{_WORD}"
            rf"(?:(?:(?<=\d)(?:[.,:/]|\\/)(?=\d)|[-‐‑&](?=\w)|['’](?!{_CLITIC})(?={_LETTER})"
            rf"|\.(?=(?:com|org|net|edu|gov|info|co|io|ai|de|uk|fr|es|it|nl|ru)\b)){_WORD})*",
            # Flags; emoji with modifiers and joiners.
            rf"[\U0001f1e6-\U0001f1ff]{{2}}|{_PICTURE}{_MODIFIER}*(?:\u200d{_PICTURE}{_MODIFIER}*)*",
            # Repeated punctuation; anything else by itself.
            r"\.{2,}|-{2,}|!{2,}|\?{2,}|={2,}|\*{2,}|~{2,}|``|''",
            rf"[^\s{_INVISIBLE}][{_MARKS}]*",
        )
    )
)

_ALWAYS_END = frozenset("。！？｡؟۔।॥։።")
_END_MARKS = _ALWAYS_END | frozenset(".!?…")  # one of which ends the last token of a sentence
_CLOSING = frozenset(("'", '"', "”", "’", "»", ")", "]", "}", "」", "』", "''", "›", "）", "】"))
_BLANK_LINE = re.compile(r"\n[^\S\n]*(?:\r?\n|\r)|\r\r")
_NEVER_END = frozenset(f"{word}." for word in f"{_TITLES}|No|Nos|vs|cf|pp|Fig|Figs|Vol|Nr".split("|"))
# Words that begin a sentence far more often than they follow an abbreviation within one.
_STARTERS = (
    "The|A|An|He|She|It|They|We|You|I|In|On|At|But|And|However|This|That|These|Those|There|His|Her|Its|"
    "Their|If|When|While|After|Before|Since|Although|For|As|By|With|From|According|Meanwhile|Also|Some|"
    "Many|What|Who|How|Why"
)

# What the end of a sentence depends on, as bits of a word.
END_MARK, ALWAYS_ENDS, CLOSING, CONTINUES, ABBREVIATION, ENDING_ABBREVIATION = 1, 2, 4, 8, 16, 32
STARTER, POINT, FIRST_DIGIT, LAST_DIGIT = 64, 128, 256, 512
_TRAITS_OF_WORDS = dict.fromkeys(_CLOSING, CLOSING) | dict.fromkeys(_STARTERS.split("|"), STARTER) | {".": POINT}


def tokens_of_text(text: str) -> list[Token]:
    """The tokens of a text.

    >>> [token.text for token in tokens_of_text("It isn't the U.S., is it?")]
    ['It', 'is', "n't", 'the', 'U.S.', ',', 'is', 'it', '?']
    """
    return [Token(match.group(), match.start(), match.end()) for match in TOKEN.finditer(text)]


def sequences_of_text(text: str, tokenizer: Tokenizer = tokens_of_text, sentences: bool = True) -> list[list[Token]]:
    """The sequences of tokens that a model reads of a text: its sentences or, without, the text as one.

    >>> [[token.text for token in sequence] for sequence in sequences_of_text("He left. She, too.", sentences=False)]
    [['He', 'left', '.', 'She', ',', 'too', '.']]
    """
    tokens = tokens_of_text(text) if tokenizer is tokens_of_text else checked_tokens(text, tokenizer(text))
    if not sentences:
        return [tokens] if tokens else []
    return [tokens[start:end] for start, end in sentence_spans(text, tokens)]


def checked_tokens(text: str, tokens: Iterable[Token]) -> list[Token]:
    """Check the tokens of another tokenizer: their offsets become those of the entities."""
    checked, reached = [], 0
    for token in (Token(*token) for token in tokens):
        if not reached <= token.start < token.end <= len(text):
            raise ValueError(
                f"a tokenizer's tokens must be in order, within the text and not empty, got {token} after {reached} "
                f"of {len(text)} characters"
            )
        expected = text[token.start : token.end]
        if expected != token.text:
            raise ValueError(f"a token must be what the text has there, {expected!r}, got {token}")
        checked.append(token)
        reached = token.end
    return checked


def split_at(tokens: Sequence[Token], borders: Iterable[int]) -> list[Token]:
    """The tokens, cut wherever a border falls inside one, so that an annotation which begins or ends there loses
    nothing."""
    cuts = sorted(set(borders))
    if not cuts:
        return list(tokens)
    result: list[Token] = []
    for token in tokens:
        inner = cuts[bisect_right(cuts, token.start) : bisect_left(cuts, token.end)]
        edges = [token.start, *inner, token.end]
        result += [
            Token(token.text[start - token.start : end - token.start], start, end)
            for start, end in zip(edges, edges[1:])
        ]
    return result


def sentence_spans(
    text: str,
    tokens: Sequence[Token],
    keep: Iterable[tuple[int, int]] = (),
    breaks: Iterable[int] = (),
    only_breaks: bool = False,
) -> list[tuple[int, int]]:
    """The `[start, end)` of each sentence, in tokens. One ends before each of the characters in `breaks` and, without
    `only_breaks`, at blank lines and end marks; but never within one of the character spans in `keep`."""
    is_joined = _joined(tokens, keep)
    starts = [token.start for token in tokens]
    forced = {bisect_left(starts, character) - 1 for character in breaks}  # the last tokens before them
    spans, start, position = [], 0, 0
    while position < len(tokens):
        last = position
        if not only_breaks and tokens[position].text[-1] in _END_MARKS:
            last = _through_closing(tokens, position, forced)
        is_end = last in forced or (not only_breaks and last + 1 < len(tokens) and _ends(text, tokens, position, last))
        if is_end and not is_joined[last]:
            spans.append((start, last + 1))
            start = last + 1
        position = last + 1
    if start < len(tokens):
        spans.append((start, len(tokens)))
    return spans


def _through_closing(tokens: Sequence[Token], mark: int, forced: set[int]) -> int:
    """The last of the quotes and brackets that close right after an end mark."""
    last = mark
    while last + 1 < len(tokens) and last not in forced:
        following = tokens[last + 1]
        if following.text not in _CLOSING or following.start != tokens[last].end:
            break
        last += 1
    return last


def _ends(text: str, tokens: Sequence[Token], mark: int, last: int) -> bool:
    """True when a sentence ends after token `last`; `mark` is its end mark, or `last` itself."""
    following = tokens[last + 1]
    gap = text[tokens[last].end : following.start]
    if len(gap) > 1 and _BLANK_LINE.search(gap):
        return True
    word = tokens[mark].text
    if word[-1] not in _END_MARKS:
        return False
    before = traits_of(tokens[mark - 1].text) if mark else 0
    return ends_sentence(before, traits_of(word), traits_of(following.text), gap != "")


def traits_of(word: str) -> int:
    """What `ends_sentence` takes of a word."""
    first, last = word[0], word[-1]
    traits = CONTINUES * (first.islower() or first in ",;:") | FIRST_DIGIT * first.isdigit()
    traits |= END_MARK * (last in _END_MARKS) | ALWAYS_ENDS * (last in _ALWAYS_END)
    traits |= LAST_DIGIT * last.isdigit() | _TRAITS_OF_WORDS.get(word, 0)
    if last == "." and len(word) > 1 and first != ".":
        traits |= ABBREVIATION
        if len(word) > 2 and word not in _NEVER_END:
            traits |= ENDING_ABBREVIATION
    return traits


def ends_sentence(before: int, own: int, following: int, has_gap: bool) -> bool:
    """True when a sentence ends with a word, by its traits and those of the words before and behind it, and by whether
    there is a gap behind it. Compiled for blocks of texts."""
    if not own & END_MARK:
        return False
    if own & ALWAYS_ENDS:
        return True
    if not has_gap or following & CONTINUES:
        return False
    if own & ABBREVIATION:
        return own & ENDING_ABBREVIATION != 0 and following & STARTER != 0
    # "7. 5" is a number with a blank in it.
    return not (own & POINT and before & LAST_DIGIT and following & FIRST_DIGIT)


def _joined(tokens: Sequence[Token], keep: Iterable[tuple[int, int]]) -> list[bool]:
    """`_joined(...)[i]`: one of the spans holds something of both token i and token i + 1."""
    starts = [token.start for token in tokens]
    ends = [token.end for token in tokens]
    changes = [0] * len(tokens)  # in how many of the spans hold something of both, so that any number of them is cheap
    for start, end in keep:
        first, after = bisect_right(ends, start), bisect_left(starts, end)
        if first < after - 1:
            changes[first] += 1
            changes[after - 1] -= 1
    return [depth > 0 for depth in accumulate(changes)]
