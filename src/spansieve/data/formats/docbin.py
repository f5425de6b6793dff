"""spaCy's binary documents (`.spacy`). Needs spaCy, which loads when the first file is read or written.

`doc.ents` are the entities, or a group of `doc.spans`, which may overlap. Sentences are those of the file where it has
them. Tokens of nothing but blanks are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spansieve.data.alignment import Document, examples_of_documents, sentence_text
from spansieve.data.example import IGNORED, DataError, Example, ReaderWarnings
from spansieve.data.formats.files import package, package_errors
from spansieve.data.overlap_resolution import flat
from spansieve.data.tokenizer import Token

SPANS_KEY = "sc"  # spaCy's own name for the group of its span categorizer


def read_docbin(
    path: str | Path, *, spans_key: str | None = None, split_sentences: bool = True, warnings: ReaderWarnings = IGNORED
) -> list[Example]:
    """The sentences of the documents in a file. `spans_key`: a group of `doc.spans` to read instead of `doc.ents`."""
    spacy = package("spacy", "'spansieve[spacy]'")
    with package_errors(f"{path} must be a whole file that spaCy's DocBin wrote"):
        docs = spacy.tokens.DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab)
        documents = (_document(str(path), doc, spans_key) for doc in docs)
        return examples_of_documents(documents, split_sentences, warnings)


def write_docbin(examples: Iterable[Example], path: str | Path, *, warnings: ReaderWarnings = IGNORED) -> None:
    """Write one spaCy document per example, its flat entities as `doc.ents`; where some overlap, all of them are in
    `doc.spans["sc"]` too."""
    spacy = package("spacy", "'spansieve[spacy]'")
    vocabulary = spacy.blank("xx").vocab
    documents = spacy.tokens.DocBin(attrs=["ORTH", "SPACY", "ENT_IOB", "ENT_TYPE", "SENT_START"], store_user_data=True)
    for number, example in enumerate(examples, start=1):
        doc = _doc(spacy, vocabulary, example)
        kept, dropped = flat(example)
        doc.ents = [spacy.tokens.Span(doc, *segment) for segment in kept.segments]
        if dropped:
            doc.spans[SPANS_KEY] = [spacy.tokens.Span(doc, *segment) for segment in example.segments]
            warnings.add(f"overlapping entities only in spans[{SPANS_KEY!r}]", f"sentence {number}", len(dropped))
        documents.add(doc)
    documents.to_disk(path)


def _document(path: str, doc: Any, spans_key: str | None) -> Document:
    if spans_key is not None and spans_key not in doc.spans:
        known = ", ".join(doc.spans) or "none"
        raise DataError(f"{path} must have a group of spans named {spans_key!r} in each document, got one with {known}")
    spans = doc.ents if spans_key is None else doc.spans[spans_key]
    has_sentences = len(doc) > 1 and doc.has_annotation("SENT_START")
    tokens = [Token(token.text, token.idx, token.idx + len(token)) for token in doc if token.text.strip()]
    starts = [sentence.start_char for sentence in doc.sents][1:] if has_sentences else []
    annotations = [(span.start_char, span.end_char, span.label_) for span in spans]
    return Document(doc.user_data.get("document"), doc.text, annotations, path, tokens, starts, has_sentences)


def _doc(spacy: Any, vocabulary: Any, example: Example) -> Any:
    text, offsets = sentence_text(example)
    following = [*(start for start, _ in offsets[1:]), len(text)]
    # spaCy knows one blank after a token or none; wider gaps become one.
    spaces = [start > end for (_, end), start in zip(offsets, following)]
    is_start = [position == 0 for position in range(len(example))]
    doc = spacy.tokens.Doc(vocabulary, words=list(example.tokens), spaces=spaces, sent_starts=is_start)
    if example.document is not None:
        doc.user_data["document"] = example.document
    return doc
