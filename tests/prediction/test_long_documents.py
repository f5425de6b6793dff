"""Texts of any length: read in windows, one segmentation for the whole, nothing cut off, and memory to match."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from spansieve.config import BuiltinConfig, EncoderConfig, ModelConfig
from spansieve.data.example import Example
from spansieve.models.storage import save_model
from spansieve.models.tagger import Tagger
from spansieve.nn.subwords import windows_over
from spansieve.prediction.predictor import Predictor
from tests.training import runs
from tests.training.encoders import tiny_encoder

ROOM = 30  # subwords in a window of the tiny encoder, beside the two special ones
FILLER = ["in", "was", "lives", "in", "works", "."]


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """On a Hugging Face encoder with windows of 32 subwords; it has seen its few names in every place of one."""
    torch.manual_seed(0)
    encoder = EncoderConfig(name=str(tiny_encoder(tmp_path_factory.mktemp("long") / "encoder")))
    examples = []
    for shift in range(ROOM):
        filler = [FILLER[(shift + i) % len(FILLER)] for i in range(ROOM)]
        examples.append(Example.of(filler, []))
        for name, label in ((runs.PEOPLE[shift % 3], "PER"), (runs.PLACES[shift % 3], "LOC")):
            words = name.split()
            start = min(shift, ROOM - len(words))
            tokens = [*filler[:start], *words, *filler[start + len(words) :]]
            examples.append(Example.of(tokens, [(start, start + len(words), label)]))
    config = ModelConfig(hidden_size=32, dropout=0.0, encoder=encoder)
    tagger = Tagger.for_data(config, examples).train()
    for module in tagger.modules():  # what is drawn to be dropped is another in each version
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    batch = tagger.batch([e.tokens for e in examples], [tagger.training_segments(e)[0] for e in examples])
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        sum(loss.mean() for loss in tagger(batch).values()).backward()
        optimizer.step()
    return Predictor(tagger.eval())


def document(length: int, names: dict[int, str]) -> tuple[list[str], list[tuple[int, int]]]:
    """Filler with names at the given tokens, and where they stand."""
    tokens = [FILLER[i % len(FILLER)] for i in range(length)]
    for start, name in names.items():
        words = name.split()
        tokens[start : start + len(words)] = words
    assert len(tokens) == length
    return tokens, [(start, start + len(name.split())) for start, name in names.items()]


def test_an_entity_is_found_wherever_the_windows_end(reader):
    """At every token of the second and third window, so that each border runs through it once, and beside it."""
    length = 4 * ROOM
    assert len(windows_over(length, ROOM, 0.25)) > 3
    documents = [document(length, {place: "Bob Stone"}) for place in range(ROOM // 2, 3 * ROOM)]
    found = reader.predict_tokens([tokens for tokens, _ in documents])
    for one, (_, expected) in zip(found, documents):
        assert [segment[:2] for segment in one.segments if segment.label == "PER"] == expected


def test_the_last_words_of_a_long_text(reader):
    tokens, expected = document(3_000, {0: "Chen", 1_500: "New York", 2_998: "Bob Stone"})
    (found,) = reader.predict_tokens([tokens], probabilities=True)
    assert [segment[:2] for segment in found.segments] == expected
    text = " ".join(tokens)
    assert [entity.text for entity in reader.predict(text, sentences=False)] == ["Chen", "New York", "Bob Stone"]
    assert text.endswith(reader.predict(text)[-1].text)


def test_no_token_is_left_out(reader):
    """Each of them has the vector of exactly one window, whatever the length."""
    for length in (1, ROOM - 1, ROOM, ROOM + 1, 2 * ROOM, 200):
        features = reader.tagger.encoder.features([["in"] * length])
        assert features["kept"].shape == (length,)
        assert features["kept"].unique().shape == (length,)
        assert features["input_ids"].flatten()[features["kept"]].unique().numel() == 1
        assert int(features["num_tokens"]) == length


# ---- Memory ----------------------------------------------------------------------------------------------------------

MEMORY = """
import sys
import torch
from spansieve.integrations.hub import load
from tests.memory import peak_kilobytes

torch.set_num_threads(1)
folder, length = sys.argv[1], int(sys.argv[2])
predictor = load(folder)
filler = "in was lives in works and "
warm = filler * 50
predictor.predict(warm, sentences=False)
before = peak_kilobytes()
text = filler * (length // 6) + "Ada"
entities = predictor.predict(text, sentences=False)
assert all(text[e.start:e.end] == e.text for e in entities)
print(peak_kilobytes() - before)
"""


def growth(folder, length: int) -> float:
    """By how many MB a process grows to read a text of so many tokens as one sequence."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, folder, str(length)], capture_output=True, text=True, check=True
    )
    return int(done.stdout) / 1024


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["builtin", "pretrained"])
def test_memory_of_200_000_tokens(kind, tmp_path):
    """Of the features of all spans at once, 200,000 × 12 × 128 numbers, there would be 1,200 MB."""
    encoder = EncoderConfig() if kind == "builtin" else EncoderConfig(name=str(tiny_encoder(tmp_path / "encoder")))
    builtin = BuiltinConfig(rows=64, feature_size=8, size=16)
    config = ModelConfig(hidden_size=128, max_width=12, encoder=encoder, builtin=builtin)
    tagger = Tagger.for_data(config, runs.TRAIN)
    tagger.head.scorer.output.bias.data[0] += 2.0  # of null, so that the filter keeps few spans, as trained ones do
    save_model(tagger, tmp_path / "model")
    assert growth(tmp_path / "model", 200_000) < 700
