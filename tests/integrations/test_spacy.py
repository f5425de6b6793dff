"""The spaCy component, in real pipelines."""

from __future__ import annotations

import copy
import shutil

import numpy as np
import pytest
import spacy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span

from spansieve.integrations.spacy import Component
from spansieve.models.storage import ModelError
from spansieve.prediction.predictor import Predictor
from spansieve.prediction.promises import Promise, write_promises
from tests.prediction.trained import FAMILIAR

TEXT = "we went to Paris yesterday. Then Ada  Lovelace lives in New\nYork ."
FOUND = [("Paris", "LOC"), ("Ada  Lovelace", "PER"), ("New\nYork", "LOC")]


def pipeline(folder, **config) -> spacy.Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("spansieve", config={"model": str(folder), **config})
    return nlp


@pytest.fixture(scope="module")
def nlp(folder):
    return pipeline(folder)


def ents(doc: Doc) -> list[tuple[str, str]]:
    return [(span.text, span.label_) for span in doc.ents]


def group(doc: Doc, key: str = "spansieve") -> list[tuple[str, str]]:
    return [(span.text, span.label_) for span in doc.spans[key]]


def test_entities_and_scores(nlp, predictor):
    doc = nlp(TEXT)
    assert ents(doc) == group(doc) == FOUND
    scores = doc.spans["spansieve"].attrs["scores"]
    assert isinstance(scores, np.ndarray)
    expected = {entity.text: entity.probability for entity in predictor.predict(TEXT)}
    assert scores == pytest.approx([expected[text] for text, _ in FOUND], abs=1e-5)
    assert nlp.pipe_labels["spansieve"] == ["LOC", "PER"]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(st.text(max_size=30), st.lists(st.sampled_from([*FAMILIAR, " ", "\n", "\u200b"])).map(" ".join)))
def test_any_text(nlp, text):
    doc = nlp(text)
    assert doc.text == text
    assert len(doc.spans["spansieve"].attrs["scores"]) == len(doc.spans["spansieve"])
    for span in doc.ents:
        assert span.text == text[span.start_char : span.end_char] == span.text.strip()


def test_a_threshold(folder):
    scores = pipeline(folder, probability="with-filter")(TEXT).spans["spansieve"].attrs["scores"]
    middle = float(np.sort(scores)[-1])
    doc = pipeline(folder, probability="with-filter", threshold=middle)(TEXT)
    expected = [pair for pair, score in zip(FOUND, scores) if score >= middle]
    assert len(expected) < len(FOUND)
    assert ents(doc) == group(doc) == expected
    assert len(doc.spans["spansieve"].attrs["scores"]) == len(expected)
    with pytest.raises(ValueError, match="threshold must be a probability from 0 to 1, got 2"):
        pipeline(folder, threshold=2)


def test_one_by_one_or_in_batches(nlp):
    texts = [TEXT, "", " ", "word", "in القاهرة today", *FAMILIAR] * 3
    alone = [nlp(text) for text in texts]
    for size in (1, 4, 100):
        for one, other in zip(alone, nlp.pipe(texts, batch_size=size)):
            assert ents(one) == ents(other)
            scores, again = (doc.spans["spansieve"].attrs["scores"] for doc in (one, other))
            assert scores == pytest.approx(again, abs=1e-6)


def test_documents_of_a_batch_are_read_together(folder, monkeypatch):
    nlp, calls = pipeline(folder), []
    predict = Predictor.predict_tokens
    monkeypatch.setattr(
        Predictor,
        "predict_tokens",
        lambda self, words, **more: calls.append(len(words)) or predict(self, words, **more),
    )
    list(nlp.pipe([TEXT] * 5, batch_size=3))
    assert calls == [6, 4]


def test_a_stream_is_read_as_it_is_used(nlp):
    def endless():
        while True:
            yield TEXT

    assert ents(next(nlp.pipe(endless(), batch_size=2))) == FOUND


def test_tokens_that_were_made_elsewhere(nlp):
    words = ["we", "went", "\n", "to", " ", "Paris", "yesterday", "\t"]
    doc = nlp.get_pipe("spansieve")(Doc(nlp.vocab, words=words))
    assert [(span.start, span.end, span.label_) for span in doc.ents] == [(5, 6, "LOC")]
    assert ents(nlp.get_pipe("spansieve")(Doc(nlp.vocab))) == []
    assert ents(nlp.get_pipe("spansieve")(Doc(nlp.vocab, words=["\n", " "]))) == []


def test_sentences_of_the_pipeline_are_kept(folder):
    """The model reads each by itself, whatever our own rules would say."""
    nlp, seen = spacy.blank("en"), []
    component = nlp.add_pipe("spansieve", config={"model": str(folder)})
    predict = component.predictor.predict_tokens
    component.predictor.predict_tokens = lambda words, **more: seen.extend(words) or predict(words, **more)
    nlp("Ada went. Paris is")
    assert seen == [["Ada", "went", "."], ["Paris", "is"]]
    seen.clear()
    doc = Doc(nlp.vocab, words=["Ada", "went", ".", "Paris", "is"], sent_starts=[True, False, False, False, True])
    component(doc)
    assert seen == [["Ada", "went", ".", "Paris"], ["is"]]


# ---- Entities that were there before ---------------------------------------------------------------------------------


def with_ruler(folder, **config) -> spacy.Language:
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "DAY", "pattern": "yesterday"}, {"label": "FILM", "pattern": "Paris yesterday"}])
    nlp.add_pipe("spansieve", config={"model": str(folder), **config})
    return nlp


def test_who_was_there_first_stays(folder):
    doc = with_ruler(folder)(TEXT)
    assert ents(doc) == [("Paris yesterday", "FILM"), *FOUND[1:]]
    assert group(doc) == FOUND


def test_who_was_there_first_gives_way(folder):
    assert ents(with_ruler(folder, overwrite_ents=True)(TEXT)) == FOUND
    doc = with_ruler(folder, overwrite_ents=True)("word word word yesterday")
    assert ents(doc) == [("yesterday", "DAY")]  # what nobody else claims stays


def test_only_spans(folder):
    doc = with_ruler(folder, set_ents=False, spans_key="mine")(TEXT)
    assert ents(doc) == [("Paris yesterday", "FILM")]
    assert group(doc, "mine") == FOUND


def test_what_overlaps_is_all_in_the_spans_and_outermost_in_the_entities(nlp):
    doc = Doc(nlp.vocab, words=["FC", "Ulm", "won"])
    spans = [Span(doc, 0, 2, label="ORG"), Span(doc, 1, 2, label="LOC")]
    Component()._annotate(doc, spans, [0.9, 0.8])
    assert group(doc) == [("FC Ulm", "ORG"), ("Ulm", "LOC")]
    assert ents(doc) == [("FC Ulm", "ORG")]


# ---- Stored ----------------------------------------------------------------------------------------------------------


def test_a_pipeline_on_disk_brings_its_model(folder, tmp_path):
    mine = shutil.copytree(folder, tmp_path / "mine")
    made = pipeline(mine, overwrite_ents=True)
    made.to_disk(tmp_path / "pipeline")
    shutil.rmtree(mine)
    loaded = spacy.load(tmp_path / "pipeline")
    assert ents(loaded(TEXT)) == FOUND
    assert loaded.get_pipe("spansieve").overwrite_ents
    scores, again = (nlp(TEXT).spans["spansieve"].attrs["scores"] for nlp in (made, loaded))
    assert scores.tolist() == again.tolist()


def test_a_pipeline_as_bytes(folder):
    data = pipeline(folder).to_bytes()
    nlp = spacy.blank("en")
    nlp.add_pipe("spansieve")
    nlp.from_bytes(data)
    assert ents(nlp(TEXT)) == FOUND


def test_documents_keep_scores(nlp):
    doc = nlp(TEXT)
    (again,) = DocBin().from_bytes(DocBin(docs=[doc], store_user_data=True).to_bytes()).get_docs(nlp.vocab)
    assert again.spans["spansieve"].attrs["scores"] == pytest.approx(doc.spans["spansieve"].attrs["scores"])
    assert group(again) == FOUND


def test_bytes_that_would_be_written_elsewhere(tmp_path):
    import srsly

    for data in ({"../../x": b""}, {"/tmp/x": b""}, ["x"]):
        with pytest.raises(ModelError, match=r"must name files within its folder|must hold the files of a model"):
            Component().from_bytes(srsly.msgpack_dumps(data))


def test_without_a_model(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("spansieve")
    with pytest.raises(ValueError, match="model must be a folder or a name on the Hub"):
        nlp("Paris")
    with pytest.raises(ModelError, match="a model must be a folder"):
        pipeline(tmp_path / "nowhere")("Paris")


def test_the_largest_expected_f1(folder, predictor):
    nlp, aiming = pipeline(folder, objective="f1=0.05"), copy.copy(predictor).with_objective("f1=0.05")
    assert group(nlp(TEXT)) == [(entity.text, entity.label) for entity in aiming.predict(TEXT)] != []
    with pytest.raises(ValueError, match="objective must be probability, f1"):
        pipeline(folder, objective="mbr")(TEXT)


def test_under_a_guarantee(folder, predictor, tmp_path):
    """It goes along with a pipeline on disk."""
    promise = Promise("miss", 0.01, 0.95, 0.2, made="2026-01-01")
    place = shutil.copytree(folder, tmp_path / "model")
    write_promises(place, [promise])
    nlp = pipeline(place, guarantee="miss")
    doc = nlp(TEXT)
    assert doc.spans["spansieve"].attrs["guarantee"] == promise.shown()
    nlp.to_disk(tmp_path / "pipeline")
    again = spacy.load(tmp_path / "pipeline")(TEXT)
    assert group(again) == group(doc)
    assert again.spans["spansieve"].attrs["guarantee"] == promise.shown()
    with pytest.raises(ValueError, match="threshold must be 0 under a guarantee"):
        pipeline(place, guarantee="miss", threshold=0.5)
