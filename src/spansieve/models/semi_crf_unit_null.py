"""Semi-CRF with unit-width null: one segmentation for each set of entities."""

from __future__ import annotations

from spansieve.models.semi_crf import SemiCRF


class SemiCRFUnitNull(SemiCRF):
    unit_null = True
