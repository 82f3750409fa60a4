"""Reads C-DNS: captures in CBOR, as the DNS-STATS compactor, Knot Resolver and dnsdist write them.

Path: ../replay.py -> here.
Rule 1: a block is read at a time; what a query needs and the file has not makes it None.
Rule 2: nesting is bounded, and damage raises Damaged with the number of the block.
Source: RFC 8618, RFC 8949.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any, Final

from hsdns.load.captures.file import Damaged, Read, read_whole
from hsdns.wire.iana import Opcode, RRClass
from hsdns.wire.message import AD, CD, RD

NAME: Final = b"\x65C-DNS"  # the text at the begin
MAJOR: Final = 1
DEEPEST: Final = 16
_SECOND: Final = 1_000_000_000  # nanoseconds
_MICROSECONDS: Final = 1_000_000  # ticks in a second, unless the file has others
_ENDLESS: Final = 31  # the length that a break ends
_BREAK: Final = object()
# Bits of qr-dns-flags, and of qr-sig-flags.
_FLAGS: Final = {0: CD, 1: AD, 4: RD}
_DO: Final = 1 << 7
_HAS_QUERY, _HAS_OPT = 1, 4


# A name on the wire, a type, flags of the header, the payload size of EDNS (0 without it), and DO.
Stored = tuple[bytes, int, int, int, bool]


def read_cdns(file: IO[bytes]) -> Iterator[Read[Stored] | None]:
    """The queries in order, and None for each that the file does not have whole; raise Damaged, or OSError."""
    cbor, number = _Cbor(file, "the file preamble"), 0
    try:
        cbor.head()
        cbor.item()
        preamble = cbor.item()
        if preamble[0] != MAJOR:
            raise Damaged(f"is C-DNS of version {preamble[0]}, and only {MAJOR} is read")
        _, length = cbor.head()
        while length is None or number < length:
            number += 1
            cbor.where = f"block {number}"
            block = cbor.item()
            if block is _BREAK:
                return
            yield from _queries(block, preamble[3])
    except (LookupError, TypeError, AttributeError, ValueError):
        raise Damaged(f"is broken in {cbor.where}") from None


def _queries(
    block: Mapping[int, Any], parameters: Sequence[Mapping[int, Any]]
) -> Iterator[Read[Stored] | None]:
    head, tables = block[0], block.get(2, {})
    ticks = parameters[head.get(1, 0)].get(0, {}).get(0, _MICROSECONDS)
    seconds, first = head.get(0, (0, 0))
    for each in block.get(3, ()):
        signature = tables.get(3, ())[each[4]] if 4 in each else {}
        kind = tables.get(1, ())[signature[8]] if 8 in signature else {}
        whole = 7 in each and 0 in each and signature.get(4, 0) & _HAS_QUERY
        if not whole or signature.get(5) != Opcode.QUERY or kind.get(1) != RRClass.IN:
            yield None
            continue
        bits = signature.get(6, 0)
        flags = sum(flag for bit, flag in _FLAGS.items() if bits >> bit & 1)
        size = signature.get(14, 0) if signature[4] & _HAS_OPT else 0
        client = tables[0][each[1]] if 1 in each else b""
        time = seconds * _SECOND + (first + each[0]) * _SECOND // ticks
        yield time, client, (tables[2][each[7]], kind[0], flags, size, bool(size and bits & _DO))


class _Cbor:
    """Items of CBOR in a file; `where` is the part that is being read."""

    def __init__(self, file: IO[bytes], where: str) -> None:
        self._file = file
        self.where = where

    def head(self) -> tuple[int, int | None]:
        """The major type of the next item and its argument, None for one that a break ends."""
        (first,) = read_whole(self._file, 1, self.where)
        kind, argument = first >> 5, first & 31
        if argument < 24:
            return kind, argument
        if argument == _ENDLESS:
            return kind, None
        octets = read_whole(self._file, 1 << argument - 24, self.where)
        return kind, int.from_bytes(octets, "big")

    def item(self, depth: int = 0) -> Any:
        """The next item, or _BREAK; floating-point numbers are octets; raise Damaged or ValueError."""
        kind, argument = self.head()
        if depth > DEEPEST or kind == 6:  # no part has a tag
            raise ValueError
        if kind == 7:
            return _BREAK if argument is None else argument
        if kind < 2 and argument is not None:
            return -1 - argument if kind else argument
        if kind > 3:
            count = None if argument is None else argument * (kind - 3)
            found = list(self._items(count, depth + 1))
            return dict(zip(found[::2], found[1::2], strict=True)) if kind == 5 else found
        if argument is not None:
            return read_whole(self._file, argument, self.where)
        return b"".join(self._items(None, depth + 1))

    def _items(self, count: int | None, depth: int) -> Iterator[Any]:
        while count is None or count > 0:
            if (item := self.item(depth)) is _BREAK:
                return
            yield item
            count = None if count is None else count - 1
