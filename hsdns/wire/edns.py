"""EDNS(0): the OPT record of a query and the one that answers it (RFC 6891).

Path: steps 3 and 6.
Rule 1: a reply has an OPT only if its query had one, or a handler asks for one (Reply.edns).
Rule 2: of the options only those of ECHOED go back, as they came; client subnet and all others are dropped, but for
        codes that `rewrite edns0` sets.
        (CoreDNS 1.14.7 request/edns0.go; no server cookie is ever made.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from hsdns.wire.iana import OptCode, RRType

DO: Final = 0x8000
ECHOED: Final = frozenset(
    {OptCode.NSID, OptCode.EXPIRE, OptCode.COOKIE, OptCode.KEEPALIVE, OptCode.PADDING}
)
MAX_PAYLOAD_SIZE: Final = 65535  # what the field holds
OPT_FIXED_LEN: Final = 11  # root owner 1, type 2, class 2, ttl 4, rdlength 2


@dataclass(frozen=True, slots=True)
class Edns:
    """What an OPT record says; `options` keeps order, repetition and empty values, `echoed` are those that go back."""

    payload_size: int
    version: int = 0
    do: bool = False
    options: tuple[tuple[int, bytes], ...] = ()
    echoed: frozenset[int] = ECHOED

    def lowered(self, most: int) -> Edns:
        """The same with a payload size of at most so many octets."""
        return self if self.payload_size <= most else replace(self, payload_size=most)

    def echoed_options(self) -> bytes:
        """The options that a reply sends back, in wire form."""
        if not self.options:
            return b""
        return b"".join(
            code.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data
            for code, data in self.options
            if code in self.echoed
        )

    def to_wire(self, extended_rcode: int = 0, payload_size: int | None = None) -> bytes:
        """The OPT record of the reply to a query that carried this one; `extended_rcode` is rcode >> 4."""
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


def read_options(wire: bytes, start: int, end: int) -> tuple[tuple[int, bytes], ...] | None:
    """Read the options between two offsets; None where a length does not fit (the query is a FORMERR)."""
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
