"""A warm start: the weights of a trained model as the first weights of another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from spansieve.config import BUILTIN, ModelConfig
from spansieve.models.crf import CRF
from spansieve.models.head import Head
from spansieve.models.heads import head_class
from spansieve.models.storage import ENCODER, encoder_name, load_model, portable_config, version_of
from spansieve.models.tagger import Tagger
from spansieve.persistence.manifest import name_of
from spansieve.segments import LabelSet


class Start(NamedTuple):
    """A trained model that another starts from."""

    folder: Path
    tagger: Tagger
    name: str  # with a version that changes with the weights

    @classmethod
    def read(cls, folder: str | Path) -> Start:
        tagger = load_model(folder)
        return cls(Path(folder), tagger, f"{name_of(folder)}-{version_of(tagger)}")

    def encoder_folder(self, config: ModelConfig) -> Path | None:
        """The folder of its encoder, where a new model has the same: no other copy of it is needed then."""
        own, new = portable_config(self.tagger.config), portable_config(config)
        is_same = own.encoder.name == new.encoder.name and own.builtin.vectors == new.builtin.vectors
        has_files = new.encoder.name != BUILTIN or new.builtin.vectors is not None
        return self.folder / ENCODER if is_same and has_files else None


def take_weights(tagger: Tagger, start: Start) -> tuple[str, ...]:
    """Copy the encoder of the model to start from, and what its head has for labels and widths that both have. Returns
    a line for each part that was taken, and for each that was not."""
    source, name = start.tagger, start.name
    old, new = (encoder_name(model.config) for model in (source, tagger))
    try:
        tagger.encoder.load_state_dict(source.encoder.state_dict())
    except RuntimeError as error:
        raise ValueError(
            f"start_from must be a model with the encoder of the new one, {new}, got {name} with {old}; without "
            f"--encoder and --config the new model has the settings of the old one: {error!s:.200}"
        ) from error
    lines = [f"encoder {old} of {name}"]
    if source.config.head != tagger.config.head:
        return *lines, f"a new head: {name} has {source.config.head}, this model {tagger.config.head}"
    left = _take_head(tagger.head, source.head, _probes(tagger))
    both = [label for label in tagger.labels if label in source.labels.names]
    lines.append(f"head for {', '.join(both) or 'no label'}")
    for title, labels, others in (("new labels", tagger, source), ("labels left behind", source, tagger)):
        if only := [label for label in labels.labels if label not in others.labels.names]:
            lines.append(f"{title}: {', '.join(only)}")
    return *lines, *([f"new weights of other sizes: {', '.join(left)}"] if left else [])


def _probes(tagger: Tagger) -> list[Head]:
    """The same head with a label more, and with a width more, to see which axes of its weights depend on them."""
    config, labels, size, width = tagger.config, tagger.labels, tagger.encoder.size, tagger.head.max_width
    more = LabelSet([*labels, max(labels.names) + "+"])
    with torch.device("meta"):
        make = head_class(config.head)
        return [make(config, more, size, width), make(config, labels, size, width + 1)]


def _take_head(head: Head, source: Head, probes: Sequence[Head]) -> list[str]:
    """Copy the weights of a head, axis by axis. Returns the names of those that have nothing in common."""
    left, old, (by_label, by_width) = [], source.state_dict(), (probe.state_dict() for probe in probes)
    for name, weight in head.state_dict().items():
        if name not in old or old[name].ndim != weight.ndim:
            left.append(name)
            continue
        axes = []
        for axis, (size, old_size) in enumerate(zip(weight.shape, old[name].shape)):
            if by_label[name].shape[axis] != size:
                axes.append(_shared(_outputs(head), _outputs(source), size, old_size))
            else:
                is_alike = size == old_size or by_width[name].shape[axis] != size
                axes.append((torch.arange(min(size, old_size) if is_alike else 0),) * 2)
        if not all(len(new) for new, _ in axes):
            left.append(name)
        into, out_of = (torch.meshgrid(*indices, indexing="ij") for indices in zip(*axes))
        weight[into] = old[name].to(weight.device)[out_of]
    return left


def _outputs(head: Head) -> Sequence[str]:
    return head.tags.names if isinstance(head, CRF) else ("", *head.labels.names)


def _shared(new: Sequence[str], old: Sequence[str], new_size: int, old_size: int) -> tuple[Tensor, Tensor]:
    """Indices of what both have, along an axis of one or more sets of outputs, and then what is not by label."""
    sets, rest = divmod(new_size, len(new))
    pairs = [
        (s * len(new) + i, s * len(old) + old.index(x)) for s in range(sets) for i, x in enumerate(new) if x in old
    ]
    pairs += [(new_size - k, old_size - k) for k in range(rest, 0, -1)]
    into, out_of = torch.tensor(pairs).T
    return into, out_of
