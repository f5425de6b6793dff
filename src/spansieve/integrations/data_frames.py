"""Entities as a pandas data frame."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, cast

from spansieve.data.formats.files import package
from spansieve.data.formats.tables import ENTITY_COLUMNS, entity_rows
from spansieve.segments import Entity

if TYPE_CHECKING:
    import pandas


def to_dataframe(
    texts: str | Collection[str], predictions: Iterable[Entity] | Iterable[Iterable[Entity]]
) -> pandas.DataFrame:
    """Make a data frame of what `predict` returned for one text or for several: one row per entity.

    The columns are `doc` (the number of the text, from 0, or its index where the texts are a column of a data frame),
    `text`, `start`, `end`, `label`, `entity` and `probability`. A text without entities has one row with missing
    values, which `dropna(subset="label")` leaves out. As CSV it is what `spansieve predict --as csv` writes, and can be
    trained on.
    """
    pd = package("pandas", "pandas")
    if isinstance(texts, str):
        texts, predictions = [texts], [cast("Iterable[Entity]", predictions)]
    of_texts = list(cast("Iterable[Iterable[Entity]]", predictions))
    if len(of_texts) != len(texts):
        raise ValueError(f"predictions must be one list per text, {len(texts)}, got {len(of_texts)}")
    names: Iterable[Any] = texts.index if isinstance(texts, pd.Series) else range(len(texts))
    rows = [(name, text, *cells) for name, text, found in zip(names, texts, of_texts) for cells in entity_rows(found)]
    frame = pd.DataFrame(rows, columns=["doc", "text", *ENTITY_COLUMNS])
    return frame.astype({"start": "Int64", "end": "Int64", "probability": "float64"})
