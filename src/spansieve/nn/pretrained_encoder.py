"""Hugging Face encoders: the only file that imports transformers.

Axes: B sentences, L tokens, W windows, S subwords in a window, P subwords in all, D features.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.pre_tokenizers import Sequence as PreTokenizers
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer
from transformers.utils import logging

from spansieve.config import EncoderConfig
from spansieve.nn.casing import NUM_CASINGS, casing_of
from spansieve.nn.encoder import Encoder, padded
from spansieve.nn.windows import windows_over

FALLBACK_LIMIT = 512  # where neither the tokenizer nor the model names one
MOST_SUBWORDS = 16_384  # read at once in prediction, padding included
NO_LIMIT = 100_000  # what tokenizers say who know none is far above


class PretrainedEncoder(Encoder):
    """A sentence longer than the encoder's limit is read in overlapping windows; each subword keeps the vector that it
    has in the window where it stands furthest from the edge."""

    is_pretrained = True

    def __init__(self, config: EncoderConfig, folder: Path | None = None) -> None:
        super().__init__()
        self.config = config
        source = config.name if folder is None else str(folder)
        offline = {} if folder is None else {"local_files_only": True}
        try:
            self.tokenizer = AutoTokenizer.from_pretrained(source, use_fast=True, trust_remote_code=False, **offline)
            if folder is None:
                with _quietly():
                    self.model = AutoModel.from_pretrained(
                        source, trust_remote_code=False, dtype=torch.float32, **_without_pooler(source)
                    )
            else:
                found = AutoConfig.from_pretrained(source, trust_remote_code=False, **offline)
                self.model = AutoModel.from_config(found, trust_remote_code=False, **_without_pooler(source))
        except (OSError, ValueError) as error:
            raise ValueError(
                f"encoder {source!r} must be 'builtin', a Hugging Face name or a folder with one: {error}"
            ) from error
        if not self.tokenizer.is_fast:
            raise ValueError(f"encoder {source!r} must have a fast tokenizer: it knows where each token's subwords are")
        if self.model.config.is_encoder_decoder:
            raise ValueError(f"encoder {source!r} must read only, as BERT does, got one that writes, too")
        _begin_words(self.tokenizer.backend_tokenizer.pre_tokenizer)
        if config.frozen:
            self.model.requires_grad_(False)
        elif config.gradient_checkpointing:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.size = self.model.config.hidden_size
        self.casing = nn.Embedding(NUM_CASINGS, self.size) if config.casing else None
        if self.casing is not None:
            nn.init.zeros_(self.casing.weight)  # the encoder starts as it was pretrained
        self._before, self._after = _special_tokens(self.tokenizer)
        self._padding = self.tokenizer.pad_token_id or 0
        unknown = self.tokenizer.unk_token_id
        self._unknown = self._padding if unknown is None else unknown
        limit = config.max_subwords or self._limit()
        self._room = limit - len(self._before) - len(self._after)
        if self._room < 1:
            raise ValueError(f"max_subwords must leave room beside the special ones, got {limit}")

    def _limit(self) -> int:
        positions = getattr(self.model.config, "max_position_embeddings", None)
        if positions is not None:
            positions -= _reserved_positions(self.model)
        known = [limit for limit in (positions, self.tokenizer.model_max_length) if limit and 0 < limit < NO_LIMIT]
        return min(known, default=FALLBACK_LIMIT)

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)
        self.model.config.save_pretrained(folder)

    def train(self, mode: bool = True) -> PretrainedEncoder:
        super().train(mode)
        if self.config.frozen:
            self.model.eval()
        return self

    # ---- On the host -------------------------------------------------------------------------------------------------

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
        subwords, owner = self._subwords(sentences, lengths)  # (P,) each
        counts = np.bincount(owner, minlength=lengths.sum())  # the subwords of each token
        ends = counts.cumsum()
        by_sentence = np.concatenate(([0], ends))[np.concatenate(([0], lengths.cumsum()))]
        arrays = self._windows(subwords, self._casings(sentences, owner), by_sentence)
        # For every token its first and last subword among those kept, which are in order.
        arrays["first"], arrays["last"] = padded(ends - counts, lengths), padded(ends - 1, lengths)  # (B, L)
        arrays["num_tokens"] = lengths
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def _subwords(self, sentences: Sequence[Sequence[str]], lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The subwords of all sentences, and which of all tokens each belongs to. A token without any, such as a lone
        zero-width character, is the unknown one."""
        if not lengths.any():
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sentences above the limit: they are read in windows
            found = self.tokenizer(
                [list(sentence) for sentence in sentences if sentence],
                is_split_into_words=True,
                add_special_tokens=False,
                verbose=False,
            )
        is_read = lengths > 0
        counts = np.fromiter(map(len, found["input_ids"]), np.int64, is_read.sum())
        subwords = np.fromiter(chain.from_iterable(found["input_ids"]), np.int64, counts.sum())
        places = (found.word_ids(i) for i in range(len(counts)))
        owner = np.fromiter(chain.from_iterable(places), np.int64, counts.sum())
        owner += np.repeat((lengths.cumsum() - lengths)[is_read], counts)
        missing = np.flatnonzero(np.bincount(owner, minlength=lengths.sum()) == 0)
        if missing.size:
            subwords = np.concatenate((subwords, np.full(missing.size, self._unknown)))
            owner = np.concatenate((owner, missing))
            order = owner.argsort(kind="stable")
            subwords, owner = subwords[order], owner[order]
        return subwords, owner

    def _casings(self, sentences: Sequence[Sequence[str]], owner: np.ndarray) -> np.ndarray | None:
        """How the token of each subword is written, (P,)."""
        if self.casing is None:
            return None
        return np.array([casing_of(token) for sentence in sentences for token in sentence], np.int64)[owner]

    def _windows(self, subwords: np.ndarray, casings: np.ndarray | None, bounds: np.ndarray) -> dict[str, np.ndarray]:
        """What the model reads, and where each subword stands in it; `bounds` are the sentences' among the subwords."""
        windows = [
            (low + window.start, low + window.end, window.keep_end - window.keep_start)
            for low, high in zip(bounds.tolist(), bounds[1:].tolist())
            for window in windows_over(high - low, self._room, self.config.overlap)
        ]
        start, end, num_kept = np.array(windows, np.int64).reshape(-1, 3).T
        before, num_windows = len(self._before), len(windows)
        width = before + (end - start).max(initial=0) + len(self._after) if num_windows else 0
        place = np.arange(width) - before + start[:, None]  # (W, S): which subword is there
        is_subword = (place >= start[:, None]) & (place < end[:, None])
        ids = np.full((num_windows, width), self._padding)
        ids[:, :before] = self._before
        ids[is_subword] = subwords[place[is_subword]]
        lengths = before + end - start
        for offset, special in enumerate(self._after):
            ids[np.arange(num_windows), lengths + offset] = special
        mask = (np.arange(width) < lengths[:, None] + len(self._after)).astype(np.int64)
        # What the windows keep follows one another through the subwords, each of them once.
        window = np.repeat(np.arange(num_windows), num_kept)
        kept = window * width + before + np.arange(len(subwords)) - start[window]
        arrays = {"input_ids": ids, "attention_mask": mask, "kept": kept}  # (W, S), (W, S), (P,)
        if casings is not None:
            arrays["casing"] = np.zeros_like(ids)
            arrays["casing"][is_subword] = casings[place[is_subword]]
        return arrays

    # ---- On the device -----------------------------------------------------------------------------------------------

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:
        first, num_tokens = features["first"], features["num_tokens"]
        if not features["kept"].numel():
            return self.model.get_input_embeddings().weight.new_zeros(*first.shape, self.size)
        subwords = self._read(features).flatten(0, 1)[features["kept"]]  # (P, D)
        is_token = torch.arange(first.shape[1], device=first.device) < num_tokens[:, None]  # (B, L)
        return self._pooled(subwords, first, features["last"]).masked_fill(~is_token[..., None], 0.0)

    def _read(self, features: Mapping[str, Tensor]) -> Tensor:
        """(W, S, D)."""
        names = ("input_ids", "attention_mask") if self.casing is None else ("input_ids", "attention_mask", "casing")
        inputs = [features[name] for name in names]
        if torch.is_grad_enabled():
            return self._read_at_once(*inputs)
        # So that a text of any length takes no more memory than a batch does.
        most = max(1, MOST_SUBWORDS // inputs[0].shape[1])
        return torch.cat([self._read_at_once(*part) for part in zip(*(x.split(most) for x in inputs))])

    def _read_at_once(self, ids: Tensor, mask: Tensor, casing: Tensor | None = None) -> Tensor:
        if self.casing is None:
            return self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        embedded = self.model.get_input_embeddings()(ids) + self.casing(casing)
        return self.model(inputs_embeds=embedded, attention_mask=mask).last_hidden_state

    def _pooled(self, subwords: Tensor, first: Tensor, last: Tensor) -> Tensor:
        """One vector per token, (B, L, D)."""
        if self.config.pooling == "first":
            return subwords[first]
        if self.config.pooling == "last":
            return subwords[last]
        # In double precision, since the sums run over the whole batch.
        sums = nn.functional.pad(subwords.to(torch.float64).cumsum(0), (0, 0, 1, 0))
        return ((sums[last + 1] - sums[first]) / (last + 1 - first)[..., None]).to(subwords.dtype)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the report that a pooler was left out, which is as it should be, and without bars of its own."""
    level, has_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if has_bars:
            logging.enable_progress_bar()


def _without_pooler(source: str) -> dict[str, bool]:
    """Where a model has a pooler of whole sentences, it is left out: nothing here asks for it."""
    kind = AutoConfig.from_pretrained(source, trust_remote_code=False).model_type
    return {"add_pooling_layer": False} if kind in ("bert", "roberta", "xlm-roberta", "camembert", "mpnet") else {}


def _reserved_positions(model: nn.Module) -> int:
    """How many positions are never a subword's: RoBERTa and its kin count from behind the one for padding."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            return module.padding_idx + 1
    return 0


def _begin_words(pre_tokenizer) -> None:
    """Every token begins a word. Byte-level tokenizers take one without a blank before it for the rest of another."""
    if isinstance(pre_tokenizer, ByteLevel):
        pre_tokenizer.add_prefix_space = True
    elif isinstance(pre_tokenizer, PreTokenizers):
        for part in pre_tokenizer:  # type: ignore[attr-defined]
            _begin_words(part)


def _special_tokens(tokenizer) -> tuple[list[int], list[int]]:
    """What the tokenizer puts before and after a sentence."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    marked = tokenizer("a")["input_ids"]
    at = next(i for i in range(len(marked)) if marked[i : i + len(bare)] == bare)
    return marked[:at], marked[at + len(bare) :]
