"""Another module of the same project, which the spider's does not import: what a pipeline makes."""

from __future__ import annotations

import dataclasses
import uuid


@dataclasses.dataclass
class Enriched:
    name: str
    country: str = "NA"


IMPORTED = uuid
"""Of another package, and bound here."""
