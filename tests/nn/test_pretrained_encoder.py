"""Hugging Face encoders: one vector per token, whatever the tokenizer makes of it and however long the sentence."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from transformers import T5Config

from spansieve.config import EncoderConfig, ModelConfig
from spansieve.nn import pretrained_encoder
from spansieve.nn.encoder import build_encoder
from spansieve.nn.pretrained_encoder import PretrainedEncoder
from spansieve.nn.subwords import windows_over
from tests.nn.tiny import bert_folder, change_settings, roberta_folder

POOLINGS = ["first", "mean", "last"]
SENTENCES = [
    ["Paris", "\u200b", "abc", "", "[SEP]"],
    [],
    ["the"],
    ["x" * 300, "London", "."],
    ["abc", "def"] * 12,
    ["\u200b"],
    ["a b", "New York"],  # a token may have a blank inside
]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return bert_folder(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    return roberta_folder(tmp_path_factory.mktemp("roberta"))


def encoder(folder: str, **settings) -> PretrainedEncoder:
    return PretrainedEncoder(EncoderConfig(name=folder, **settings)).eval()


def vectors(made: PretrainedEncoder, sentences) -> torch.Tensor:
    with torch.no_grad():
        return made(made.features(sentences))


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("casing", [False, True])
@pytest.mark.parametrize("max_subwords", [None, 12])
def test_a_padded_batch_equals_each_sentence_alone(bert, pooling, casing, max_subwords):
    made = encoder(bert, pooling=pooling, casing=casing, max_subwords=max_subwords)
    if made.casing is not None:
        torch.nn.init.normal_(made.casing.weight)
    together = vectors(made, SENTENCES)
    assert together.shape == (len(SENTENCES), 24, 16)
    for b, sentence in enumerate(SENTENCES):
        alone = vectors(made, [sentence])
        torch.testing.assert_close(together[b, : len(sentence)], alone[0], rtol=1e-4, atol=1e-5)
        assert not together[b, len(sentence) :].any()
        assert alone.any(-1).all()  # each token has a vector


@pytest.mark.parametrize("sentences", [[], [[]], [[], []]])
def test_nothing_to_read(bert, sentences):
    for casing in (False, True):
        assert vectors(encoder(bert, casing=casing), sentences).shape == (len(sentences), 0, 16)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_is_over_the_subwords_of_the_token(bert, pooling):
    made = encoder(bert, pooling=pooling)
    ids = made.tokenizer(["paris", "abc", "the"], is_split_into_words=True, return_tensors="pt")
    with torch.no_grad():
        hidden = made.model(**ids).last_hidden_state[0]
    abc = hidden[2:5]  # after [CLS] paris
    expected = {"first": abc[0], "mean": abc.mean(0), "last": abc[-1]}[pooling]
    found = vectors(made, [["Paris", "abc", "the"]])[0]
    torch.testing.assert_close(found, torch.stack((hidden[1], expected, hidden[5])))


def test_a_token_without_subwords_is_the_unknown_one(bert):
    made = encoder(bert)
    ids = made.features([["the", "\u200b", "the"]])["input_ids"][0].tolist()
    assert made.tokenizer.convert_ids_to_tokens(ids) == ["[CLS]", "the", "[UNK]", "the", "[SEP]"]


def test_a_long_sentence_is_read_in_windows_and_nothing_is_cut(bert):
    made = encoder(bert, max_subwords=12, overlap=0.5)
    letters = [chr(ord("a") + i % 26) for i in range(100)]
    features = made.features([letters])
    windows = windows_over(100, 10, 0.5)
    assert features["input_ids"].shape == (len(windows), 12)
    found = vectors(made, [letters])[0]
    for window in windows:
        read = vectors(made, [letters[window.start : window.end]])[0]
        kept = slice(window.keep_start - window.start, window.keep_end - window.start)
        torch.testing.assert_close(found[window.keep_start : window.keep_end], read[kept], rtol=1e-4, atol=1e-5)


def test_a_word_may_be_longer_than_a_window(bert):
    made = encoder(bert, max_subwords=12, pooling="mean")
    found = vectors(made, [["the", "q" * 90, "the"]])[0]
    assert found.shape == (3, 16)
    assert found.isfinite().all()


def test_in_prediction_windows_are_read_a_few_at_a_time(bert, monkeypatch):
    made = encoder(bert, max_subwords=12)
    sentences = [["abc", "def"] * 40, ["the"]]
    at_once = made(made.features(sentences)).detach()
    seen = []
    made.model.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    monkeypatch.setattr(pretrained_encoder, "MAX_SUBWORDS", 60)
    torch.testing.assert_close(vectors(made, sentences), at_once, rtol=1e-4, atol=1e-5)
    assert len(seen) > 2
    assert max(seen) == 5


def test_the_limit_is_what_the_model_and_the_tokenizer_can_take(bert, roberta, tmp_path):
    assert encoder(bert).layout.capacity == 64 - 2
    assert encoder(roberta).layout.capacity == 66 - 2 - 2  # two positions are never a subword's
    folder = roberta_folder(tmp_path)
    change_settings(folder, "tokenizer_config.json", model_max_length=64)
    assert encoder(folder).layout.capacity == 64 - 2
    for made in (encoder(bert), encoder(roberta)):
        assert vectors(made, [["the"] * 500]).shape == (1, 500, 16)


def test_tokens_begin_words_for_byte_level_tokenizers(roberta, tmp_path):
    made = encoder(roberta)
    made.save(tmp_path)
    again = PretrainedEncoder(EncoderConfig(name="gone"), tmp_path)
    for one in (made, again):
        ids = one.features([["in", "Paris", "\u200b"]])["input_ids"][0].tolist()
        assert one.tokenizer.convert_ids_to_tokens(ids)[:3] == ["<s>", "Ġin", "ĠParis"]


def test_casing_reaches_what_an_uncased_encoder_reads(bert):
    plain, cased = encoder(bert), encoder(bert, casing=True)
    pair = [["paris"], ["Paris"]]
    torch.testing.assert_close(vectors(cased, pair), vectors(plain, pair))  # it starts as it was pretrained
    torch.nn.init.normal_(cased.casing.weight)
    lower, title = vectors(cased, pair)
    assert not torch.equal(lower, title)
    torch.testing.assert_close(*vectors(plain, pair))


def test_frozen_weights_stay_as_they_are_and_casing_learns(bert):
    made = encoder(bert, frozen=True, casing=True).train()
    assert not made.model.training
    made(made.features([["Paris"]]))[..., 0].sum().backward()
    assert made.casing.weight.grad.any()
    assert all(parameter.grad is None for parameter in made.model.parameters())
    assert not encoder(bert, frozen=True)(made.features([["Paris"]])).requires_grad


def test_gradient_checkpointing_gives_the_same_gradients(bert):
    found = []
    for checkpointing in (False, True):
        made = encoder(bert, gradient_checkpointing=checkpointing).train()
        torch.manual_seed(3)
        made(made.features(SENTENCES)).square().sum().backward()
        found.append({name: parameter.grad for name, parameter in made.named_parameters()})
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient)


def test_it_is_built_again_from_its_folder_without_weights(bert, tmp_path):
    made = build_encoder(ModelConfig(encoder=EncoderConfig(name=bert)))
    made.save(tmp_path)
    assert not list(tmp_path.glob("*.safetensors"))
    again = build_encoder(ModelConfig(encoder=EncoderConfig(name="gone")), tmp_path).eval()
    again.load_state_dict(made.state_dict())
    torch.testing.assert_close(vectors(again, SENTENCES), vectors(made.eval(), SENTENCES))


def test_errors_say_what_an_encoder_must_be(bert, tmp_path):
    with pytest.raises(ValueError, match="must be 'builtin', a Hugging Face name or a folder"):
        encoder(str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="max_subwords must leave room"):
        encoder(bert, max_subwords=2)
    folder = bert_folder(tmp_path / "t5")
    T5Config(vocab_size=90, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2).save_pretrained(folder)
    with pytest.raises(ValueError, match="must read only"):
        encoder(folder)


def test_the_attention_for_short_windows_is_put_back_whatever_threads_do():
    def choose(_) -> bool:
        with pretrained_encoder._attention_for_short_windows():
            time.sleep(0.001)
            return torch.backends.cuda.cudnn_sdp_enabled()

    before = torch.backends.cuda.cudnn_sdp_enabled()
    with ThreadPoolExecutor(4) as pool:
        assert not any(pool.map(choose, range(40)))
    assert torch.backends.cuda.cudnn_sdp_enabled() == before
