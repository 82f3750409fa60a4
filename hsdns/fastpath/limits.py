"""The limits of the numbers in the answer table, as given by the types of the compiled twin.

Path: table.py checks them when a reply is stored and when a negative zone is added.
"""

from __future__ import annotations

from typing import Final

from hsdns.wire.edns import MAX_PAYLOAD_SIZE
from hsdns.wire.encode import MAX_UDP_LEN, MIN_UDP_LEN

MAX_ERRORS_LEN: Final = 1024  # octets of the Extended DNS Errors of an entry
_MAX: Final = (1 << 32) - 1


def refuse_numbers(*numbers: int) -> None:
    """Raise OverflowError for groups, sizes and TTLs that do not fit."""
    for number in numbers:
        if not 0 <= number <= _MAX:
            raise OverflowError(f"groups, sizes and TTLs have 32 bits, {number} does not fit")


def refuse_payload(max_payload: int) -> None:
    """Raise OverflowError or ValueError for an invalid limit of payload sizes."""
    if not 0 <= max_payload <= MAX_PAYLOAD_SIZE:
        raise OverflowError(f"a payload size has 16 bits, {max_payload} does not fit")
    if not MIN_UDP_LEN <= max_payload <= MAX_UDP_LEN and max_payload != MAX_PAYLOAD_SIZE:
        raise ValueError(
            f"max_payload is {MIN_UDP_LEN} to {MAX_UDP_LEN}, or {MAX_PAYLOAD_SIZE} where none is lowered,"
            f" not {max_payload}"
        )


def refuse_mark(mark_ttl: int) -> None:
    """Raise ValueError for a `mark_ttl` that only an entry can have."""
    if mark_ttl not in (0, -1):
        raise ValueError(f"mark_ttl of a negative zone is 0 or -1, not {mark_ttl}")
