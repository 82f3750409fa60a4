"""How much the properties are tried: HSDNS_EFFORT=10 tries ten times as many examples as an ordinary run, as nights do."""

from __future__ import annotations

import os
from typing import Final

_ORDINARY: Final = "10" if os.environ.get("HSDNS_TIER") == "night" else "1"
EFFORT: Final = float(os.environ.get("HSDNS_EFFORT", _ORDINARY))


def tries(ordinary: int) -> int:
    """How many examples to try where an ordinary run tries so many."""
    return max(1, round(ordinary * EFFORT))
