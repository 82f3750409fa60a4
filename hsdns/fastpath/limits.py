"""Limits of the numbers that the answer table takes, as those of the compiled twin's types.

Path: table.py asks when a reply is stored and when a negative zone is added.
"""

from __future__ import annotations

from typing import Final

from hsdns.wire.edns import MAX_PAYLOAD_SIZE
from hsdns.wire.encode import MAX_UDP_LEN, MIN_UDP_LEN

_MAX_SIZE: Final = (1 << 32) - 1


def refuse_numbers(group: int, size: int) -> None:
    """Raise OverflowError unless both fit in 32 bits."""
    if not 0 <= group <= _MAX_SIZE or not 0 <= size <= _MAX_SIZE:
        raise OverflowError(f"group and size have 32 bits, {group} and {size} do not fit")


def refuse_payload(max_payload: int) -> None:
    """Raise OverflowError unless it fits in 16 bits, ValueError for one that no server may set."""
    if not 0 <= max_payload <= MAX_PAYLOAD_SIZE:
        raise OverflowError(f"a payload size has 16 bits, {max_payload} does not fit")
    if not MIN_UDP_LEN <= max_payload <= MAX_UDP_LEN and max_payload != MAX_PAYLOAD_SIZE:
        raise ValueError(
            f"max_payload is {MIN_UDP_LEN} to {MAX_UDP_LEN}, or {MAX_PAYLOAD_SIZE} where none is lowered,"
            f" not {max_payload}"
        )
