"""EDNS(0): the OPT records of queries and replies (RFC 6891).

Path: steps 3 and 6.
Rule 1: a reply has an OPT record only if its query had one, or if a handler sets Reply.edns.
Rule 2: of the query's options only those in ECHOED are sent back, unchanged; client subnet and all others are not,
        except for codes that `rewrite edns0` sets (CoreDNS 1.14.7 request/edns0.go; no server cookie is ever made).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from hsdns.wire.iana import OptCode, RRType

DO: Final = 0x8000
ECHOED: Final = frozenset(
    {OptCode.NSID, OptCode.EXPIRE, OptCode.COOKIE, OptCode.KEEPALIVE, OptCode.PADDING}
)
MAX_PAYLOAD_SIZE: Final = 65535  # 16 bits
OPT_FIXED_LEN: Final = 11  # root owner 1, type 2, class 2, ttl 4, rdlength 2
_LENGTH_AT: Final = 9


@dataclass(frozen=True, slots=True)
class Edns:
    """The contents of an OPT record; `options` in order, `echoed` are the codes to send back."""

    payload_size: int
    version: int = 0
    do: bool = False
    options: tuple[tuple[int, bytes], ...] = ()
    echoed: frozenset[int] = ECHOED

    def lowered(self, most: int) -> Edns:
        """Return a copy with a payload size of at most `most` octets."""
        return self if self.payload_size <= most else replace(self, payload_size=most)

    def echoed_options(self) -> bytes:
        """Return the options to send back, in wire form."""
        if not self.options:
            return b""
        return b"".join(
            code.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data
            for code, data in self.options
            if code in self.echoed
        )

    def to_wire(self, extended_rcode: int = 0, payload_size: int | None = None) -> bytes:
        """Return the OPT record for the reply to a query with this one; `extended_rcode` is rcode >> 4."""
        size = self.payload_size if payload_size is None else payload_size
        options = self.echoed_options()
        return (
            b"\0"
            + RRType.OPT.to_bytes(2, "big")
            + size.to_bytes(2, "big")
            + bytes((extended_rcode, 0))
            + (DO if self.do else 0).to_bytes(2, "big")
            + len(options).to_bytes(2, "big")
            + options
        )


def with_options(opt: bytes, options: bytes) -> bytes:
    """Return an OPT record with more options, in wire form, after its own."""
    length = len(opt) - OPT_FIXED_LEN + len(options)
    return b"".join((opt[:_LENGTH_AT], length.to_bytes(2, "big"), opt[OPT_FIXED_LEN:], options))


def read_options(wire: bytes, start: int, end: int) -> tuple[tuple[int, bytes], ...] | None:
    """Decode the options between two offsets; None if a length is wrong (FORMERR)."""
    found = []
    while start < end:
        if end - start < 4:
            return None
        code = wire[start] << 8 | wire[start + 1]
        stop = start + 4 + (wire[start + 2] << 8 | wire[start + 3])
        if stop > end:
            return None
        found.append((code, wire[start + 4 : stop]))
        start = stop
    return tuple(found)
