"""How much the properties are tried: HSDNS_EFFORT=10 tries ten times as many examples as an ordinary run."""

from __future__ import annotations

import os
from typing import Final

EFFORT: Final = float(os.environ.get("HSDNS_EFFORT", "1"))


def tries(ordinary: int) -> int:
    """How many examples to try where an ordinary run tries so many."""
    return max(1, round(ordinary * EFFORT))
