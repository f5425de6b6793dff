"""Subwords are the tokenizer's own, from the cache too; windows keep each once; their mean is one mean everywhere."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

from spansieve.config import EncoderConfig
from spansieve.nn import pretrained_encoder, subwords
from spansieve.nn.pretrained_encoder import PretrainedEncoder
from spansieve.nn.subwords import SubwordCache, SubwordLayout, SubwordReader, Window, pooled, windows_over
from tests.nn.tiny import bert_folder, change_settings, roberta_folder

WORDS = [
    *("in", "Paris", "New York", " before", "after ", "", " ", "\u200b", "▁in", "Ġin", "'s", "don't", "12", "-30-"),
    *("<mask>", "a<mask>b", "[SEP]", "東京", "e\u0301", "\u0301", "ﬁ", "İstanbul", "ΣΑΣ", "🏳️‍🌈", "\n", "x" * 200),
]
CORPUS = ["in Paris and in Paris , New York 's don't 1996-08-30 Straße 東京"] * 5
SPECIAL = ["<unk>", "<mask>", "[SEP]"]


def word_piece() -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return trained(tokenizer, trainers.WordPieceTrainer)


def byte_level(add_prefix_space: bool) -> Tokenizer:
    """As RoBERTa's and GPT-2's."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space)
    return trained(tokenizer, trainers.BpeTrainer, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


def metaspace(prepend_scheme: str) -> Tokenizer:
    """As XLM-RoBERTa's and DeBERTa's."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend_scheme)
    return trained(tokenizer, trainers.UnigramTrainer, unk_token="<unk>")


def prepending() -> Tokenizer:
    """As Llama's: the blank before a word is put there by a normalizer."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return trained(tokenizer, trainers.BpeTrainer)


def trained(tokenizer: Tokenizer, trainer: type, **settings: object) -> Tokenizer:
    kind = trainer(vocab_size=300, special_tokens=SPECIAL, show_progress=False, **settings)
    tokenizer.train_from_iterator(CORPUS, kind)
    return tokenizer


KINDS = {
    "word-piece": word_piece,
    "byte-level": lambda: byte_level(False),
    "byte-level-prefix": lambda: byte_level(True),
    "metaspace-first": lambda: metaspace("first"),
    "metaspace-always": lambda: metaspace("always"),
    "metaspace-never": lambda: metaspace("never"),
    "prepend": prepending,
}


# ---- The cache -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("splits_special", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_token_is_cut_as_in_any_sentence(kind, splits_special):
    tokenizer, random = KINDS[kind](), Random(0)
    tokenizer.encode_special_tokens = splits_special
    cache = SubwordCache(tokenizer)
    copy = pickle.loads(pickle.dumps(cache))
    for _ in range(100):
        sentence = random.choices(WORDS, k=random.randint(1, 8))
        whole = tokenizer.encode(sentence, is_pretokenized=True, add_special_tokens=False)
        for cuts in (cache(sentence), copy(sentence)):
            assert [i for cut in cuts for i in cut] == whole.ids
            assert [position for position, cut in enumerate(cuts) for _ in cut] == whole.word_ids


@pytest.mark.parametrize("folder_of", [bert_folder, roberta_folder])
def test_an_encoder_reads_what_its_tokenizer_cuts(folder_of, tmp_path):
    made = PretrainedEncoder(EncoderConfig(name=folder_of(tmp_path)))
    sentences = [["in", "Paris", "abc"], ["don't", "[SEP]", "Paris"] * 4, ["in"]]
    for _ in range(2):
        features = made.features(sentences)
        expected = made.tokenizer(sentences, is_split_into_words=True, padding=True, return_tensors="pt")
        torch.testing.assert_close(features["input_ids"], expected["input_ids"])
        torch.testing.assert_close(features["attention_mask"], expected["attention_mask"])
        made.subwords._known.clear()  # what the call above has left in the tokenizer must not be cached


@pytest.mark.parametrize("casing", [False, True])
@pytest.mark.parametrize("folder_of", [bert_folder, roberta_folder])
def test_a_single_sentence_is_read_as_in_a_batch(folder_of, casing, tmp_path):
    made = PretrainedEncoder(EncoderConfig(name=folder_of(tmp_path), casing=casing, max_subwords=20))
    for sentence in (["in"], ["Paris", "\u200b", "abc"], ["", "IN", "don't"], ["[SEP]"], ["Paris"] * 18):
        found = made.layout.features_of_one(sentence, made.subwords)
        expected = made.layout.features([sentence], made.subwords)
        if found is None:
            assert len(expected["input_ids"]) > 1  # windows
            continue
        assert found.keys() == expected.keys()
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, err_msg=name, strict=True)
    assert made.layout.features_of_one(["Paris"] * 99, made.subwords) is None
    assert made.layout.features_of_one([], made.subwords) is None


def test_special_subwords_in_a_text_are_cut_where_the_tokenizer_says_so(tmp_path):
    folder = bert_folder(tmp_path)
    change_settings(folder, "tokenizer_config.json", split_special_tokens=True)
    made = PretrainedEncoder(EncoderConfig(name=folder))
    special = made.tokenizer.convert_tokens_to_ids("[SEP]")
    for cache in (made.subwords, pickle.loads(pickle.dumps(made.subwords))):
        (cut,) = cache(["[SEP]"])
        assert special not in cut


def test_bpe_dropout_is_drawn_anew_each_time():
    tokenizer = byte_level(True)
    tokenizer.model.dropout = 0.5
    cache = SubwordCache(tokenizer)
    assert len({tuple(cache(["Paris"])[0]) for _ in range(50)}) > 1


def test_a_reader_draws_anew_with_bpe_dropout():
    tokenizer = byte_level(True)
    tokenizer.model.dropout = 0.5
    reader = SubwordReader(SubwordLayout((0,), (1,), 2, 3, 50, 0.2, False), SubwordCache(tokenizer))
    reader.learn(["Paris"])
    word, lengths = np.zeros(50, np.int64), np.ones(50, np.int64)
    assert len(set(map(tuple, reader.features(word, lengths)["input_ids"].tolist()))) > 1
    assert len(set(reader.sizes(word, lengths).tolist())) > 1


def test_the_cache_has_a_limit(monkeypatch):
    monkeypatch.setattr(subwords, "MAX_CACHED", 4)
    tokenizer = word_piece()
    cache = SubwordCache(tokenizer)
    for sentence in (["Paris", "in"], ["Rome", "in", "Chen"], ["Paris", "in", "New", "York", ".", "\u200b"]):
        expected = SubwordCache(tokenizer)(sentence)
        assert cache(sentence) == expected
        assert cache.counts([sentence, []]) == [sum(len(cut) or 1 for cut in expected), 0]
        assert len(cache._known) <= len(sentence)


def test_threads_share_a_cache(monkeypatch):
    monkeypatch.setattr(subwords, "MAX_CACHED", 20)
    tokenizer = word_piece()
    cache, random = SubwordCache(tokenizer), Random(0)
    sentences = [random.choices(WORDS, k=6) for _ in range(300)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(cache, sentences))
    assert found == [SubwordCache(tokenizer)(sentence) for sentence in sentences]


# ---- Their vectors ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("pooling", ["first", "mean", "last"])
def test_torch_and_numpy_pool_alike(pooling, dtype):
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(40, 3, dtype=dtype, generator=generator)
    first = torch.tensor([[0, 4, 5], [10, 12, 0]])
    last = torch.tensor([[3, 4, 9], [11, 39, 0]])
    tensors = pooled(vectors, first, last, pooling, pretrained_encoder._prefix_sums).to(dtype)
    arrays = pooled(vectors.numpy(), first.numpy(), last.numpy(), pooling).astype(vectors.numpy().dtype)
    np.testing.assert_array_equal(tensors.numpy(), arrays)
    expected = {"first": vectors[12], "last": vectors[39], "mean": vectors[12:40].mean(0)}[pooling]
    torch.testing.assert_close(tensors[1, 1], expected)


# ---- Windows ---------------------------------------------------------------------------------------------------------

LENGTHS, CAPACITIES, OVERLAPS = st.integers(0, 200), st.integers(1, 40), st.floats(0, 0.99)


@given(LENGTHS, CAPACITIES, OVERLAPS)
def test_each_position_is_kept_once_and_in_order(length, capacity, overlap):
    kept = [p for w in windows_over(length, capacity, overlap) for p in range(w.keep_start, w.keep_end)]
    assert kept == list(range(length))


@given(LENGTHS, CAPACITIES, OVERLAPS)
def test_windows_lie_within_bounds_and_hold_what_they_keep(length, capacity, overlap):
    windows = windows_over(length, capacity, overlap)
    for window in windows:
        assert 0 <= window.start <= window.keep_start < window.keep_end <= window.end <= length
        assert window.end - window.start == min(capacity, length)
    if windows:
        assert windows[0].start == windows[0].keep_start == 0
        assert windows[-1].end == windows[-1].keep_end == length


@given(LENGTHS, CAPACITIES, OVERLAPS)
def test_neighbours_share_what_they_should(length, capacity, overlap):
    windows = windows_over(length, capacity, overlap)
    for one, following in zip(windows, windows[1:]):
        assert one.start < following.start
        assert one.end - following.start >= min(int(capacity * overlap), capacity - 1)


@given(LENGTHS, CAPACITIES, OVERLAPS)
def test_a_position_is_kept_where_it_stands_furthest_from_an_edge(length, capacity, overlap):
    windows = windows_over(length, capacity, overlap)

    def distance(window: Window, position: int) -> int:
        return min(position - window.start, window.end - 1 - position)

    for window in windows:
        for position in range(window.keep_start, window.keep_end):
            holding = [w for w in windows if w.start <= position < w.end]
            # The two ends of the text are edges of it, not of a window that could be moved.
            if holding[0].start > 0 and holding[-1].end < length:
                assert distance(window, position) == max(distance(w, position) for w in holding)


def test_what_fits_is_one_window():
    assert windows_over(6, 6, 0.5) == [Window(0, 6, 0, 6)]
    assert windows_over(0, 6, 0.5) == []
