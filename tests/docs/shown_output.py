"""Whether what a page shows is what its code printed, as far as that does not depend on the machine.

A model that is trained on another processor has other last digits. Its probabilities differ a little, and where two
labels are nearly as good it may decide otherwise. So a probability is compared with a tolerance, and a decision only
where the model is sure of it. The texts around them are compared letter by letter.
"""

from __future__ import annotations

import re
from typing import Any

SURE = 0.99  # what the model gives at least this probability, it finds on every processor
TOLERANCE = 0.1
_MARK = re.compile(r" \[(?P<label>[A-Z]+) (?P<probability>\d\.\d\d)\]")  # behind an entity: `Ada [PER 0.99]`
_DECIMAL = re.compile(r"\d+\.\d+")


def is_printed(shown: str, printed: str) -> bool:
    """Whether the lines shown are among those printed, in their order."""
    lines = iter(printed.splitlines())
    return all(any(_agree(line, other) for other in lines) for line in shown.splitlines())


def has_form(shown: str, printed: str) -> bool:
    """The same of a model of another training, which finds other entities: what is printed looks as what is shown.

    Sentences with marked entities are there but for the marks; any other line has the form of one that is shown.
    """
    sentences = [_MARK.sub("", line) for line in shown.splitlines() if _MARK.search(line)]
    if sentences:
        return is_printed("\n".join(sentences), _MARK.sub("", printed))
    forms = set(map(_form, shown.splitlines()))
    return bool(printed) and all(_form(line) in forms for line in printed.splitlines())


def is_answer(shown: Any, answer: Any) -> bool:
    """Whether two JSON values are the same but for what differs between processors."""
    if isinstance(shown, dict):
        return isinstance(answer, dict) and _are_answers(shown.items(), answer.items())
    if isinstance(shown, list | tuple):
        return isinstance(answer, list | tuple) and _are_answers(shown, answer)
    return _is_near(shown, answer) if isinstance(shown, float) else shown == answer


def _are_answers(shown: Any, answers: Any) -> bool:
    return len(shown) == len(answers) and all(map(is_answer, shown, answers))


def _agree(shown: str, printed: str) -> bool:
    if _MARK.search(shown):
        return _MARK.sub("", shown) == _MARK.sub("", printed) and _marks_agree(_marks(shown), _marks(printed))
    probabilities = list(map(float, _DECIMAL.findall(shown)))
    if any(probability < 0.5 for probability in probabilities):  # an alternative that is not likely
        return _form(shown) == _form(printed)
    same_words = _DECIMAL.split(shown) == _DECIMAL.split(printed)
    return same_words and all(map(_is_near, probabilities, map(float, _DECIMAL.findall(printed))))


def _marks(line: str) -> dict[tuple[int, str], float]:
    """The probability of each entity, by where it ends in the sentence without marks, and its label."""
    found, removed = {}, 0
    for mark in _MARK.finditer(line):
        found[mark.start() - removed, mark["label"]] = float(mark["probability"])
        removed += len(mark[0])
    return found


def _marks_agree(shown: dict[tuple[int, str], float], printed: dict[tuple[int, str], float]) -> bool:
    pairs = [(shown.get(entity, 0.0), printed.get(entity, 0.0)) for entity in {**shown, **printed}]
    return all(_is_near(*pair) for pair in pairs if max(pair) >= SURE)


def _is_near(shown: float, printed: Any) -> bool:
    return isinstance(printed, float) and abs(shown - printed) <= TOLERANCE


def _form(line: str) -> str:
    """The line with a list as [], a number as 0 and words as w.

    >>> _form("17 32 PER Charles Babbage 1.00"), _form("0.01 [('Ada', 'LOC')]")
    ('0 0 w 0', '0 []')
    """
    without_lists = re.sub(r"\[.*\]", "[]", line)
    return re.sub(r"[^\W\d]+(\s+[^\W\d]+)*", "w", re.sub(r"\d+(\.\d+)?", "0", without_lists))
