"""How fast a trained model tags, beside spaCy: words per second on one CPU thread, in turns in one process.

Both get the same sentences as tokens, and both as running text, so that each is also measured with its own tokenizer.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.result_page import ResultPage, Table
from benchmarks.timings import one_thread, seconds_of, timed_in_rounds
from spansieve.data.example import Example
from spansieve.integrations.hub import load
from spansieve.prediction.predictor import Predictor

OURS, RIVAL = "spansieve", "spaCy"


def run_tagging_speed(
    model: Path, examples: Sequence[Example], spacy_model: Path | None, rounds: int = 5
) -> list[dict[str, object]]:
    """One row per tagger and kind of input, with the ratio to spaCy where there is one."""
    with one_thread():
        contenders = spansieve_contenders(OURS, load(model), examples)
        if spacy_model is not None:
            contenders |= spacy_contenders(RIVAL, spacy_model, examples)
        times = timed_in_rounds(contenders, rounds, seconds_of)
    num_words = sum(map(len, examples))
    rates = {key: [num_words / seconds for seconds in some] for key, some in times.items()}
    return [_row(key, rates) for key in contenders]


def tagging_page(rows: Sequence[dict[str, object]], data: str) -> ResultPage:
    return ResultPage("tagging_cpu", f"Tagging {data} on one CPU thread", [Table(rows)], csv=rows)


def _row(key: tuple[str, str], rates: dict[tuple[str, str], list[float]]) -> dict[str, object]:
    tagger, given = key
    rival = rates.get((RIVAL, given))
    ratio = "" if rival is None else f"{statistics.median(a / b for a, b in zip(rates[key], rival)):.2f}"
    return {
        "tagger": tagger,
        "input": given,
        "words/s": f"{statistics.median(rates[key]):,.0f}",
        "ratio to spaCy": ratio,
    }


Contenders = dict[tuple[str, str], Callable[[], Any]]  # by tagger and kind of input


def spansieve_contenders(name: str, predictor: Predictor, examples: Sequence[Example]) -> Contenders:
    tokens = [example.tokens for example in examples]
    texts = [" ".join(sentence) for sentence in tokens]
    return {
        (name, "tokens"): lambda: predictor.predict_tokens(tokens),
        (name, "text"): lambda: predictor.predict(texts, probabilities=False),
        (f"{name}, with probabilities", "tokens"): lambda: predictor.predict_tokens(tokens, probabilities=True),
    }


def spacy_contenders(name: str, folder: Path, examples: Sequence[Example]) -> Contenders:
    import spacy
    from spacy.tokens import Doc

    nlp = spacy.load(folder)
    tokens = [list(example.tokens) for example in examples]
    texts = [" ".join(sentence) for sentence in tokens]

    def of_tokens() -> None:
        for doc in nlp.pipe((Doc(nlp.vocab, words=sentence) for sentence in tokens), batch_size=256):
            _ = [(e.start, e.end, e.label_) for e in doc.ents]

    def of_texts() -> None:
        for doc in nlp.pipe(texts, batch_size=256):
            _ = [(e.start_char, e.end_char, e.label_) for e in doc.ents]

    return {(name, "tokens"): of_tokens, (name, "text"): of_texts}
