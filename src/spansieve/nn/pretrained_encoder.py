"""Hugging Face encoders: the only file that imports transformers.

Axes: B sentences, L tokens, W windows, S subwords in a window, P subwords in all, D features.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

import torch
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.pre_tokenizers import Sequence as PreTokenizers
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoConfig, AutoModel, AutoTokenizer, __version__
from transformers.utils import logging

from spansieve.config import EncoderConfig
from spansieve.nn.encoder import Encoder, filled, rounded
from spansieve.nn.subwords import NUM_CASINGS, SubwordCache, SubwordLayout, SubwordReader, pooled

FALLBACK_LIMIT = 512  # where neither the tokenizer nor the model names one
MAX_SUBWORDS, MAX_SUBWORDS_ON_GPU = 16_384, 32_768  # read at once in prediction, padding included
READY_MASKS = ("bert", "roberta", "xlm-roberta", "camembert", "electra")  # the encoders that take them
SHORT_WINDOW = 64  # subwords; cuDNN's attention is made for longer ones, and takes twice as long as others up to here
FOR_SHORT_WINDOWS = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
_CHOICE_OF_ATTENTION = threading.Lock()
WIDTH_STEP = 16  # windows are padded to multiples of this, so that few shapes occur
NO_LIMIT = 100_000  # tokenizers without a limit have a number far above
VERSION = tuple(map(int, __version__.split(".")[:2]))  # of transformers
SINGLE_PRECISION = {"dtype" if VERSION >= (4, 56) else "torch_dtype": torch.float32}  # its argument was renamed


class PretrainedEncoder(Encoder):
    """A Hugging Face encoder. A sentence longer than its limit is read in overlapping windows; each subword keeps the
    vector that it has in the window where it stands furthest from the edge."""

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
                        source, trust_remote_code=False, **SINGLE_PRECISION, **_without_pooler(source)
                    )
            else:
                model_config = AutoConfig.from_pretrained(source, trust_remote_code=False, **offline)
                self.model = AutoModel.from_config(model_config, trust_remote_code=False, **_without_pooler(source))
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
        self.layout = self._layout()
        if folder is not None:
            self._check_vocabulary()
        self.subwords = SubwordCache(self.tokenizer.backend_tokenizer)
        kind, attention = self.model.config.model_type, self.model.config._attn_implementation
        self.takes_ready_masks = VERSION >= (5, 0) and kind in READY_MASKS and attention == "sdpa"

    def _layout(self) -> SubwordLayout:
        before, after = _special_tokens(self.tokenizer)
        limit = self.config.max_subwords or self._limit()
        if (positions := self._num_positions()) is not None and limit > positions:
            raise ValueError(f"max_subwords must be at most {positions}, the positions of the encoder, got {limit}")
        capacity = limit - len(before) - len(after)
        if capacity < 1:
            raise ValueError(f"max_subwords must leave room beside the special ones, got {limit}")
        padding, unknown = self.tokenizer.pad_token_id or 0, self.tokenizer.unk_token_id
        unknown = padding if unknown is None else unknown
        return SubwordLayout(before, after, padding, unknown, capacity, self.config.overlap, self.config.casing)

    def _check_vocabulary(self) -> None:
        """Check that there is an embedding for whatever the tokenizer makes."""
        highest, size = max(self.tokenizer.get_vocab().values()), self.model.get_input_embeddings().num_embeddings
        if highest >= size:
            raise ValueError(f"the tokenizer must have ids below {size}, the size of the vocabulary, got {highest}")

    def _limit(self) -> int:
        limits = (self._num_positions(), self.tokenizer.model_max_length)
        return min((limit for limit in limits if limit and 0 < limit < NO_LIMIT), default=FALLBACK_LIMIT)

    def _num_positions(self) -> int | None:
        positions = getattr(self.model.config, "max_position_embeddings", None)
        return None if positions is None else positions - _reserved_positions(self.model)

    def save(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)
        self.model.config.name_or_path = ""  # a place on this machine, which transformers 4 would write down
        self.model.config.save_pretrained(folder)

    def train(self, mode: bool = True) -> PretrainedEncoder:
        super().train(mode)
        if self.config.frozen:
            self.model.eval()
        return self

    # ---- On the host -------------------------------------------------------------------------------------------------

    def features(self, sentences: Sequence[Sequence[str]]) -> dict[str, Tensor]:
        arrays = self.layout.features_of_one(sentences[0], self.subwords) if len(sentences) == 1 else None
        if arrays is None:
            arrays = self.layout.features(sentences, self.subwords)
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def sizes(self, sentences: Sequence[Sequence[str]]) -> list[int]:
        return self.subwords.counts(sentences)

    def reader(self) -> SubwordReader:
        return SubwordReader(self.layout, self.subwords)

    def padded(self, features: Mapping[str, Tensor], num_sentences: int, num_tokens: int) -> dict[str, Tensor] | None:
        """See `Encoder`. Sentences that are read in several windows have no such shape."""
        num_windows, width = features["input_ids"].shape
        capacity = len(self.layout.before) + self.layout.capacity + len(self.layout.after)
        size = min(rounded(width, WIDTH_STEP), capacity)
        if num_windows > num_sentences or width > size:
            return None
        kept, windows, tokens = features["kept"], (num_sentences, size), (num_sentences, num_tokens)
        made = {name: filled(features[name], windows) for name in ("attention_mask", "casing") if name in features}
        made["input_ids"] = filled(features["input_ids"], windows, self.layout.padding)
        made |= {name: filled(features[name], tokens) for name in ("first", "last")}
        made["num_tokens"] = filled(features["num_tokens"], (num_sentences,))
        # The same rows and columns of wider windows.
        made["kept"] = filled(kept + kept // max(width, 1) * (size - width), (num_sentences * size,))
        made["attention_mask"][num_windows:, 0] = 1  # attention to nothing at all is no number
        return made

    # ---- On the device -----------------------------------------------------------------------------------------------

    def forward(self, features: Mapping[str, Tensor]) -> Tensor:
        first, num_tokens = features["first"], features["num_tokens"]
        if not features["kept"].numel():
            return self.model.get_input_embeddings().weight.new_zeros(*first.shape, self.size)
        read, kept = self._read(features).flatten(0, 1), features["kept"]  # (W·S, D), (P,)
        is_token = torch.arange(first.shape[1], device=first.device) < num_tokens[:, None]  # (B, L)
        if self.config.pooling == "mean":
            subwords = read.index_select(0, kept)  # (P, D)
            vectors = pooled(subwords, first, features["last"], "mean", _prefix_sums).to(read.dtype)
        else:
            end = first if self.config.pooling == "first" else features["last"]
            vectors = read.index_select(0, kept[end].flatten()).view(*first.shape, -1)
        return vectors.masked_fill(~is_token[..., None], 0.0)

    def _read(self, features: Mapping[str, Tensor]) -> Tensor:
        """(W, S, D)."""
        names = ("input_ids", "attention_mask") if self.casing is None else ("input_ids", "attention_mask", "casing")
        inputs = [features[name] for name in names]
        if torch.is_grad_enabled():
            return self.read_at_once(*inputs)
        # So that a text of any length takes no more memory than a batch does.
        max_subwords = MAX_SUBWORDS_ON_GPU if inputs[0].is_cuda else MAX_SUBWORDS
        max_windows = max(1, max_subwords // inputs[0].shape[1])
        return torch.cat([self.read_at_once(*part) for part in zip(*(x.split(max_windows) for x in inputs))])

    def read_at_once(self, ids: Tensor, mask: Tensor, casing: Tensor | None = None) -> Tensor:
        """The vectors of the subwords in windows, (W, S) to (W, S, D)."""
        if mask.is_cuda and mask.ndim == 2 and self.takes_ready_masks:
            # transformers checks a mask (W, S) for whether it masks anything at all, which synchronises the host; one
            # of (W, 1, 1, S) it takes as it is.
            mask = mask.bool()[:, None, None, :]
        inputs = {"input_ids": ids}
        if self.casing is not None:
            inputs = {"inputs_embeds": self.model.get_input_embeddings()(ids) + self.casing(casing)}
        # What checkpointing computes again is not in this context, and must be what was computed before.
        is_short = mask.is_cuda and ids.shape[1] <= SHORT_WINDOW and not self.config.gradient_checkpointing
        with _attention_for_short_windows() if is_short else nullcontext():
            return self.model(**inputs, attention_mask=mask).last_hidden_state


def _prefix_sums(vectors: Tensor) -> Tensor:
    return nn.functional.pad(vectors.to(torch.float64).cumsum(0), (0, 0, 1, 0))


@contextmanager
def _attention_for_short_windows() -> Iterator[None]:
    """Have torch leave cuDNN's attention out. That is a setting of the process: one thread at a time, or the last to
    leave would put back what it found of another's."""
    with _CHOICE_OF_ATTENTION, sdpa_kernel(FOR_SHORT_WINDOWS):
        yield


@contextmanager
def _quietly() -> Iterator[None]:
    """Silence the report that a pooler was left out, which is as it should be, and the library's own bars."""
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
    """Arguments that leave out the pooler of whole sentences, where a model has one: nothing here uses it."""
    kind = AutoConfig.from_pretrained(source, trust_remote_code=False).model_type
    return {"add_pooling_layer": False} if kind in ("bert", "roberta", "xlm-roberta", "camembert", "mpnet") else {}


def _reserved_positions(model: nn.Module) -> int:
    """How many positions are never a subword's: RoBERTa and its kin count from behind the one for padding."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding) and module.padding_idx is not None:
            return module.padding_idx + 1
    return 0


def _begin_words(pre_tokenizer) -> None:
    """Make every token begin a word. Byte-level tokenizers take one without a blank before for the rest of another."""
    if isinstance(pre_tokenizer, ByteLevel):
        pre_tokenizer.add_prefix_space = True
    elif isinstance(pre_tokenizer, PreTokenizers):
        for part in pre_tokenizer:  # type: ignore[attr-defined]
            _begin_words(part)


def _special_tokens(tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The special tokens that the tokenizer puts before and after a sentence."""
    bare = tokenizer("a", add_special_tokens=False)["input_ids"]
    marked = tokenizer("a")["input_ids"]
    at = next(i for i in range(len(marked)) if marked[i : i + len(bare)] == bare)
    return tuple(marked[:at]), tuple(marked[at + len(bare) :])
