"""The figures that the paper prints, to stand beside ours."""

from __future__ import annotations

import re

CONLL, ONTONOTES, ARABIC = "conll2003", "ontonotes5", "arabic-ace"
CORPORA = (CONLL, ONTONOTES, ARABIC)
NO_PAPER = "none"

# Precision, recall and F1, with bert-large-cased and, for Arabic, bert-base-arabertv2.
TABLE1: dict[str, dict[str, tuple[float, float, float]]] = {
    CONLL: {
        "crf": (93.29, 92.21, 92.75),
        "semicrf": (92.37, 90.49, 91.42),
        "semicrf-unit-null": (92.08, 91.41, 91.74),
        "fsemicrf": (94.72, 93.09, 93.89),
        "filter-only": (94.24, 92.70, 93.46),
    },
    ONTONOTES: {
        "crf": (89.00, 90.16, 89.57),
        "semicrf": (88.91, 89.78, 89.34),
        "semicrf-unit-null": (89.17, 89.76, 89.47),
        "fsemicrf": (90.69, 91.31, 91.00),
        "filter-only": (90.85, 89.57, 90.21),
    },
    ARABIC: {
        "crf": (82.79, 84.44, 83.61),
        "semicrf": (82.97, 84.24, 83.60),
        "semicrf-unit-null": (83.35, 83.62, 83.48),
        "fsemicrf": (83.43, 85.51, 84.46),
        "filter-only": (83.73, 83.56, 83.64),
    },
}

# Milliseconds per sample for scoring and for decoding, with encoders of base size, on a V100.
TABLE2: dict[str, dict[str, tuple[float, float]]] = {
    CONLL: {"crf": (3.9, 2.7), "semicrf": (3.9, 3.7), "fsemicrf": (3.9, 0.2)},
    ONTONOTES: {"crf": (4.8, 4.4), "semicrf": (4.9, 27.5), "fsemicrf": (4.9, 0.2)},
    ARABIC: {"crf": (8.1, 6.0), "semicrf": (8.3, 10.1), "fsemicrf": (8.3, 0.3)},
}


def paper_corpus(name: str, wanted: str | None = None) -> str | None:
    """The paper's corpus that ours is, by its name or as wanted; None where it is another.

    >>> paper_corpus("CoNLL-2003"), paper_corpus("newsfane")
    ('conll2003', None)
    """
    if wanted is not None:
        if wanted not in (*CORPORA, NO_PAPER):
            raise ValueError(f"paper must be one of {', '.join((*CORPORA, NO_PAPER))}, got {wanted!r}")
        return None if wanted == NO_PAPER else wanted
    plain = re.sub("[^a-z0-9]", "", name.lower())
    if re.search("conll(20)?03", plain):
        return CONLL
    if "ontonotes" in plain:
        return ONTONOTES
    return ARABIC if "arab" in plain and "ace" in plain else None
