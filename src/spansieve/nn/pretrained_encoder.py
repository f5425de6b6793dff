"""Hugging Face encoders: the only file that imports transformers.

Axes: B sentences, L tokens, W windows, S subwords in a window, P subwords in all, D features.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer

from spansieve.config import EncoderConfig
from spansieve.nn.casing import NUM_CASINGS, casing_of
from spansieve.nn.encoder import Encoder
from spansieve.nn.windows import windows_over

FALLBACK_LIMIT = 512  # where neither the tokenizer nor the model names one
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
        if config.frozen:
            self.model.requires_grad_(False)
        elif config.gradient_checkpointing:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.size = self.model.config.hidden_size
        self.casing = nn.Embedding(NUM_CASINGS, self.size) if config.casing else None
        if self.casing is not None:
            nn.init.zeros_(self.casing.weight)  # the encoder starts as it was pretrained
        self._before, self._after = _special_tokens(self.tokenizer)
        limit = config.max_subwords or self._limit()
        self._room = limit - len(self._before) - len(self._after)
        if self._room < 1:
            raise ValueError(f"max_subwords must leave room beside the special ones, got {limit}")

    def _limit(self) -> int:
        limits = [getattr(self.model.config, "max_position_embeddings", None), self.tokenizer.model_max_length]
        known = [limit for limit in limits if limit is not None and 0 < limit < NO_LIMIT]
        reserved = 2 if self.model.config.model_type in ("roberta", "xlm-roberta", "camembert", "mpnet") else 0
        return min(known, default=FALLBACK_LIMIT + reserved) - reserved

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
        longest = max(map(len, sentences), default=0)
        windows: list[list[int]] = []
        casings: list[list[int]] = []
        # For every token the positions of its first and last subword among those kept, in order.
        first = torch.zeros(len(sentences), longest, dtype=torch.int64)
        last = torch.zeros_like(first)
        kept: list[tuple[int, int]] = []  # (window, place in it) of each subword
        for b, (subwords, words) in enumerate(zip(self._subwords(sentences), map(list, sentences))):
            flat = [piece for pieces in subwords for piece in pieces]
            owner = [i for i, pieces in enumerate(subwords) for _ in pieces]
            ends = torch.tensor([len(pieces) for pieces in subwords], dtype=torch.int64).cumsum(0) + len(kept)
            if words:
                first[b, : len(words)] = torch.cat((torch.tensor([len(kept)]), ends[:-1]))
                last[b, : len(words)] = ends - 1
            case = [casing_of(word) for word in words] if self.casing is not None else []
            for window in windows_over(len(flat), self._room, self.config.overlap):
                row = flat[window.start : window.end]
                if self.casing is not None:
                    inner = [case[owner[p]] for p in range(window.start, window.end)]
                    casings.append([0] * len(self._before) + inner)
                kept += [
                    (len(windows), len(self._before) + p - window.start)
                    for p in range(window.keep_start, window.keep_end)
                ]
                windows.append([*self._before, *row, *self._after])
        features = self._padded(windows, casings)
        width = features["input_ids"].shape[1]
        features["kept"] = torch.tensor([w * width + s for w, s in kept], dtype=torch.int64)  # (P,)
        features["first"], features["last"] = first, last
        features["num_tokens"] = torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64)
        return features

    def _subwords(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """The subword ids of each token; one without any, such as a lone zero-width character, is the unknown one."""
        if not any(sentences):
            return [[] for _ in sentences]
        unknown = self.tokenizer.unk_token_id
        unknown = self.tokenizer.pad_token_id or 0 if unknown is None else unknown
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about sentences above the limit: they are read in windows
            found = self.tokenizer(
                [list(sentence) or [""] for sentence in sentences],
                is_split_into_words=True,
                add_special_tokens=False,
                verbose=False,
            )
        answer: list[list[list[int]]] = []
        for b, sentence in enumerate(sentences):
            pieces: list[list[int]] = [[] for _ in sentence]
            for piece, word in zip(found["input_ids"][b], found.word_ids(b)):
                if word is not None and sentence:
                    pieces[word].append(piece)
            answer.append([piece or [unknown] for piece in pieces])
        return answer

    def _padded(self, windows: list[list[int]], casings: list[list[int]]) -> dict[str, Tensor]:
        width = max(map(len, windows), default=0)
        ids = torch.full((len(windows), width), self.tokenizer.pad_token_id or 0, dtype=torch.int64)
        mask = torch.zeros_like(ids)
        for w, row in enumerate(windows):
            ids[w, : len(row)] = torch.tensor(row)
            mask[w, : len(row)] = 1
        features = {"input_ids": ids, "attention_mask": mask}
        if self.casing is not None:
            features["casing"] = torch.zeros_like(ids)
            for w, row in enumerate(casings):
                features["casing"][w, : len(row)] = torch.tensor(row)
        return features

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
        mask = features["attention_mask"]
        if self.casing is None:
            return self.model(input_ids=features["input_ids"], attention_mask=mask).last_hidden_state
        embedded = self.model.get_input_embeddings()(features["input_ids"]) + self.casing(features["casing"])
        return self.model(inputs_embeds=embedded, attention_mask=mask).last_hidden_state

    def _pooled(self, subwords: Tensor, first: Tensor, last: Tensor) -> Tensor:
        """One vector per token, (B, L, D)."""
        if self.config.pooling == "first":
            return subwords[first]
        if self.config.pooling == "last":
            return subwords[last]
        # Sums in single precision at least, since they run over the whole batch.
        sums = nn.functional.pad(subwords.to(torch.float64).cumsum(0), (0, 0, 1, 0))
        return ((sums[last + 1] - sums[first]) / (last + 1 - first)[..., None]).to(subwords.dtype)


def _without_pooler(source: str) -> dict[str, bool]:
    """Where a model has a pooler of whole sentences, it is left out: nothing here asks for it."""
    kind = AutoConfig.from_pretrained(source, trust_remote_code=False).model_type
    return {"add_pooling_layer": False} if kind in ("bert", "roberta", "xlm-roberta", "camembert", "mpnet") else {}


def _special_tokens(tokenizer) -> tuple[list[int], list[int]]:
    """What the tokenizer puts before and after a sentence."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    marked = tokenizer("a")["input_ids"]
    at = next(i for i in range(len(marked)) if marked[i : i + len(bare)] == bare)
    return marked[:at], marked[at + len(bare) :]
