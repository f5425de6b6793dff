"""Scores that were told of the lexicon and of the document, against the definition: loops over spans, one by one."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from spansieve.crf import Candidates
from spansieve.data.example import Example
from spansieve.data.frames import kind_of
from spansieve.data.lexicon import Lexicon
from spansieve.evaluation.fates import predict_with_fates
from spansieve.models import planning
from spansieve.models.crf import CRF
from spansieve.models.filtered import FilteredHead
from spansieve.models.hearing import ArrayCells, HeardBatch, hear
from spansieve.models.listening import Listening
from spansieve.models.planning import Most, planned
from spansieve.models.predicting import predict_segments
from spansieve.models.scoring import TensorCells
from spansieve.models.tagger import HEADS, Tagger
from spansieve.prediction.predictor import Predictor
from spansieve.segments import NamedSegment
from spansieve.training.scoring import documents_of_process
from tests.prediction.trained import trained

WORDS = np.array(["ada", "Ada", "lovelace", "paris", "met", "."])
LEXICON = Lexicon.of(
    [(["ADA"], 1), (["Ada", "Lovelace"], 1), (["paris"], 2), (["paris"], 1), (["paris", ".", "ada", "met"], 2)], 3
)


def drawn(seed, max_width=3, num_labels=3):
    """Sentences of three documents and of none, in two batches, with scores and candidates."""
    random = np.random.default_rng(seed)
    sentences = [WORDS[random.integers(0, len(WORDS), random.integers(1, 6))].tolist() for _ in range(9)]
    documents = [("d", 0), "e", None, ("d", 0), 3, "e", ("d", 0), None, 3]
    order = random.permutation(len(sentences))
    batches = [order[:4].tolist(), order[4:].tolist()]
    scores = [
        random.normal(size=(len(batch), max(len(sentences[i]) for i in batch), max_width, num_labels)).astype(
            np.float32
        )
        for batch in batches
    ]
    kept = []
    for batch in batches:
        lengths = torch.tensor([len(sentences[i]) for i in batch])
        local = torch.from_numpy(random.normal(size=(len(batch), int(lengths.max()), max_width, num_labels)))
        kept.append(Candidates.from_local_scores(local, lengths, labels_per_span=2).on_host())
    return sentences, documents, batches, scores, kept


def spans_of(sentence, max_width):
    return [(start, width) for start in range(len(sentence)) for width in range(1, max_width + 1)
            if start + width <= len(sentence)]  # fmt: skip


def words_of(sentence, start, width):
    return [word.casefold() for word in sentence[start : start + width]]


def evidence_of(lexicon, words):
    """For each label but null, from the counts."""
    counts = lexicon.counts.get(tuple(words))
    if counts is None:
        return np.zeros(lexicon.num_labels)
    totals = np.sum(list(lexicon.counts.values()), axis=0)[1:] + 1
    share = totals / totals.sum()
    return np.array([0, *np.log((counts[1:] + share) / (counts[1:].sum() + 1) / share)])


def frame_of(sentence, start, width):
    kinds = ["<", *map(kind_of, sentence), ">"]
    return kinds[start], kinds[start + width + 1]


def by_definition(sentences, documents, scores, candidates, listening):
    """`scores[i][start, width - 1, label]`, and candidates as (i, start, width, label), or None."""
    weight, max_width = listening.mention_weight, listening.max_width
    everywhere = [(i, *span) for i, one in enumerate(sentences) for span in spans_of(one, max_width)]
    told = [one.copy() for one in scores]
    if listening.lexicon is not None:
        for i, start, width in everywhere:
            evidence = evidence_of(listening.lexicon, words_of(sentences[i], start, width))
            told[i][start, width - 1] += listening.lexicon_weight * evidence
    heard = [one.copy() for one in told]

    def are_one_document(i, j):
        return documents[i] is not None and documents[i] == documents[j]

    for i, start, width in everywhere:
        own = words_of(sentences[i], start, width)
        others = [
            told[j][s, w - 1]
            for j, s, w in everywhere
            if (j, s, w) != (i, start, width) and are_one_document(i, j) and words_of(sentences[j], s, w) == own
        ]
        heard[i][start, width - 1] += weight * sum(others)
        heard[i][start, width - 1] /= 1 + weight * len(others)
    if candidates is None:
        return heard
    first = [one.copy() for one in heard]
    for i, start, width, label in candidates:
        own = words_of(sentences[i], start, width)
        longer = []
        for j, s, w, y in candidates:
            if y != label or w <= width or not are_one_document(i, j):
                continue
            places = [s + k for k in range(w - width + 1) if words_of(sentences[j], s + k, width) == own]
            longer += [first[j][s, w - 1, y] for place in places if (j, place) != (i, start)]
        if longer:
            heard[i][start, width - 1, label] += weight * np.mean(longer)
            heard[i][start, width - 1, label] /= 1 + weight
    second = [one.copy() for one in heard]
    spans = {(i, start, width) for i, start, width, _ in candidates}
    for i, start, width in spans:
        own = frame_of(sentences[i], start, width)
        others = [
            second[j][s, w - 1]
            for j, s, w in spans
            if (j, s, w) != (i, start, width) and are_one_document(i, j) and frame_of(sentences[j], s, w) == own
        ]
        heard[i][start, width - 1] += listening.frame_weight * sum(others)
        heard[i][start, width - 1] /= 1 + listening.frame_weight * len(others)
    return heard


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("kind", ["filtered", "all", "tensors"])
@pytest.mark.parametrize("weights", [(0.4, 0.0, 0.0), (0.0, 0.3, 0.0), (0.0, 0.0, 0.8), (0.4, 0.1, 1.0)])
def test_against_the_definition(seed, kind, weights):
    sentences, documents, batches, scores, kept = drawn(seed)
    is_filtered = kind != "all"
    by_sentence = {i: one[row, : len(sentences[i])] for batch, one in zip(batches, scores)
                   for row, i in enumerate(batch)}  # fmt: skip
    candidates = [
        (batch[b], start, end - start, label)
        for batch, found in zip(batches, kept)
        for b, start, end, label in zip(found.sentence, found.start, found.end, found.label)
    ]
    dense = [by_sentence[i].astype(np.float64) for i in range(len(sentences))]
    listening = Listening(*weights, max_width=3, lexicon=LEXICON)
    expected = by_definition(sentences, documents, dense, candidates if is_filtered else None, listening)
    cells = [TensorCells(torch.from_numpy(one)) if kind == "tensors" else ArrayCells(one) for one in scores]
    ready = [HeardBatch(batch, one, found if is_filtered else None) for batch, one, found in zip(batches, cells, kept)]
    hear(ready, listening.news(sentences, documents), listening)
    asked = candidates if is_filtered else [
        (i, *span, y) for i, one in enumerate(sentences) for span in spans_of(one, 3) for y in range(3)
    ]  # fmt: skip
    is_heard = any(expected[i][s, w - 1, y] != dense[i][s, w - 1, y] for i, s, w, y in asked)
    assert is_heard or not (weights[0] or weights[2])  # few sentences have a frame in common
    for i, start, width, label in asked:
        place = start, width - 1, label
        assert by_sentence[i][place] == pytest.approx(expected[i][place], abs=1e-5)


def test_nobody_to_hear():
    scores = np.ones((1, 3, 2, 3), np.float32)
    listening = Listening(1.0, 1.0, 1.0, max_width=2, lexicon=LEXICON)
    kept = Candidates.from_local_scores(torch.tensor([0.0, 1.0, 0.0]).expand(1, 3, 2, 3), torch.tensor([3])).on_host()
    for documents, candidates in ([None], None), (["d"], None), ([None], kept), (None, kept), (["d"], kept):
        batch = HeardBatch([0], ArrayCells(scores), candidates)
        hear([batch], listening.news([["a", "b", "c"]], documents), listening)
    hear([], listening.news([], []), listening)
    assert (scores == 1).all()


def test_rows_of_a_table_hear_of_each_other():
    """Frames are heard at all: of two rows with one shape, each gets half of the other's score at weight 1."""
    rows = [["1.", "Ada", "12"], ["2.", "Grace", "Hopper", "7"]]
    listening = Listening(0.0, 1.0, 0.0, max_width=2, lexicon=None)
    scores = np.zeros((2, 4, 2, 2), np.float32)
    scores[0, 1, 0, 1], scores[1, 1, 1, 1] = 4.0, 2.0
    local = torch.full((2, 4, 2, 2), -1.0)
    local[..., 0] = 0.0
    local[0, 1, 0, 1] = local[1, 1, 1, 1] = 1.0
    kept = Candidates.from_local_scores(local, torch.tensor([3, 4])).on_host()
    hear([HeardBatch([0, 1], ArrayCells(scores), kept)], listening.news(rows, ["d", "d"]), listening)
    assert scores[0, 1, 0, 1] == scores[1, 1, 1, 1] == 3.0
    assert scores.sum() == 6.0


# ---- Models ----------------------------------------------------------------------------------------------------------

SENTENCES = [
    ["Ada", "Lovelace", "lives", "in", "Paris", "."],
    ["LOVELACE", "went", "to", "New", "York"],
    ["in", "York", ",", "Ada", "met", "Lovelace", "."],
    [],
    ["we", "went", "to", "Paris", "and", "new", "york"],
    ["Ada", "Lovelace", "."],
]
DOCUMENTS = ["a", "a", "b", "b", "a", None]


EXAMPLES = [
    Example(("Paris", "met", "Ada", "Lovelace"), (NamedSegment(0, 1, "PER"), NamedSegment(2, 4, "PER"))),
    Example(("in", "new", "York", "and", "Paris"), (NamedSegment(1, 3, "LOC"), NamedSegment(4, 5, "LOC"))),
]


def hearing(head: str, mention: float = 0.5, frame: float = 0.0, lexicon: float = 0.0) -> Tagger:
    tagger = copy.deepcopy(trained(head, steps=25).tagger)
    tagger.config = replace(tagger.config, mention_weight=mention, frame_weight=frame, lexicon_weight=lexicon)
    tagger.lexicon = tagger.lexicon_of(EXAMPLES)
    return tagger


def dense_of(tagger, sentence):
    with torch.no_grad():
        scores = tagger.head.scores(tagger.vectors(tagger.batch([sentence])))[-1][0]
    return (scores if scores.ndim == 3 else scores[:, None]).double().numpy()


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("weights", [(0.5, 0.0, 0.0), (0.5, 0.2, 1.0)])
def test_every_model_hears(head, weights):
    """Its distributions have the scores of the definition."""
    tagger = hearing(head, *weights)
    width = 1 if isinstance(tagger.head, CRF) else tagger.head.max_width
    seen = {}

    def look(indices, distribution):
        seen.update((i, (distribution, row)) for row, i in enumerate(indices))

    predict_segments(tagger, SENTENCES, look=look, documents=DOCUMENTS)
    candidates = None
    if isinstance(tagger.head, FilteredHead) and not tagger.head.takes_nested:
        candidates = [
            (i, segment.start, segment.end - segment.start, segment.label)
            for i, (distribution, row) in seen.items()
            for segment in distribution.candidates.segments()[row]
        ]
    dense = [dense_of(tagger, sentence) if sentence else np.zeros((0, width, 1)) for sentence in SENTENCES]
    expected = by_definition(SENTENCES, DOCUMENTS, dense, candidates, tagger.listening)
    assert any((one != other).any() for one, other in zip(dense, expected))
    for i, (distribution, row) in seen.items():
        if isinstance(tagger.head, FilteredHead):
            asked = distribution.candidates.segments()[row]
            low = int(distribution.candidates.offsets[row])
            scores = distribution.scores
            flat = scores if scores.ndim == 1 else distribution.dense_scores.flatten()[distribution._index]
            found = flat[low : low + len(asked)].tolist()
        else:
            asked = [(s, s + w, y) for s, w in spans_of(SENTENCES[i], width) for y in range(dense[i].shape[-1])]
            table = distribution.scores[row] if width > 1 else distribution.scores[row][:, None]
            found = [float(table[s, e - s - 1, y]) for s, e, y in asked]
            asked, found = zip(*((a, f) for a, f in zip(asked, found) if f > -1e30)) if asked else ((), ())
        assert found == pytest.approx([expected[i][s, e - s - 1, y] for s, e, y in asked], abs=1e-4)


@pytest.mark.parametrize("head", HEADS)
def test_the_size_of_batches_makes_no_difference(head):
    tagger = hearing(head, 0.5, 0.2, 1.0)
    expected = predict_segments(tagger, SENTENCES, True, documents=DOCUMENTS)
    for tokens in (1, 8):
        found = predict_segments(tagger, SENTENCES, True, batch_tokens=tokens, documents=DOCUMENTS)
        assert [one.segments for one in found] == [one.segments for one in expected]
        for one, other in zip(found, expected):
            assert one.probabilities == pytest.approx(other.probabilities, abs=1e-5)


def test_without_documents_nothing_is_heard():
    tagger = hearing("semicrf")
    alone = predict_segments(hearing("semicrf", 0.0), SENTENCES, True, documents=DOCUMENTS)
    assert predict_segments(tagger, SENTENCES, True) == alone
    assert predict_segments(tagger, SENTENCES, True, documents=[None] * len(SENTENCES)) == alone
    assert predict_segments(tagger, SENTENCES, True, documents=DOCUMENTS) != alone
    with pytest.raises(ValueError, match="documents must be one per sentence, 6, got 1"):
        predict_segments(tagger, SENTENCES, documents=["a"])


@pytest.mark.parametrize("head", ["crf", "semicrf", "semicrf-unit-null"])
def test_the_lexicon_needs_no_documents(head):
    tagger = hearing(head, 0.0, 0.0, 3.0)
    found = predict_segments(tagger, SENTENCES, True)
    assert found == predict_segments(tagger, SENTENCES, True, documents=DOCUMENTS)
    assert found != predict_segments(hearing(head, 0.0), SENTENCES, True)


def test_a_text_is_a_document():
    """What it says first is told by what it says later; another text makes no difference."""
    predictor = Predictor(hearing("semicrf", 2.0))
    texts = ["York is far. We went to New York.", "we went to Paris yesterday"]
    both = predictor.predict(texts)
    assert both == [predictor.predict(text) for text in texts]
    sentences = [["York", "is", "far", "."], ["We", "went", "to", "New", "York", "."]]
    together = predictor.predict_tokens(sentences, True, documents=[0, 0])
    assert [entity.probability for entity in both[0]] == pytest.approx(
        [share for one in together for share in one.probabilities], abs=1e-6
    )
    assert together != predictor.predict_tokens(sentences, True)
    assert predictor.analyse(texts[0])[1].entities == [e for e in both[0] if e.start > 12]


def test_scores_are_told_by_documents():
    """What is evaluated, and what decides on the best epoch, hears as prediction does."""
    tagger = hearing("semicrf", 2.0)
    examples = [Example(tuple(s), document=d) for s, d in zip(SENTENCES, DOCUMENTS) if s]
    sentences = [example.tokens for example in examples]
    expected = predict_segments(tagger, sentences, True, documents=[example.document for example in examples])
    assert predict_with_fates(tagger, examples, True)[0] == expected
    assert expected != predict_segments(tagger, sentences, True)
    for processes in (1, 2, 5):
        shares = [documents_of_process(examples, process, processes) for process in range(processes)]
        assert sorted(example.tokens for share in shares for example in share) == sorted(sentences)
        for document in ("a", "b"):
            assert sum(any(example.document == document for example in share) for share in shares) == 1


def test_many_sentences_are_planned_in_parts_of_whole_documents(monkeypatch):
    monkeypatch.setattr(planning, "TOKENS_TOGETHER", 6)
    documents = ["a", "b", "a", None, "c", "b"]
    groups = [[0, 2, 3, 5], [1, 4]]  # 1 and 5 are of one document and of two groups
    parts = list(planned([2] * 6, groups, documents, Most(4, 10)))
    assert sorted(i for part in parts for batch in part for i in batch) == list(range(6))
    assert all(len({i in groups[0] for i in batch}) == 1 for part in parts for batch in part)
    for document in "abc":
        assert sum(any(documents[i] == document for batch in part for i in batch) for part in parts) == 1
    assert len(parts) > 1
