"""Reads dnstap: messages as servers such as CoreDNS, BIND, Knot DNS and Unbound log them, in a file of frame streams.

Path: ../replay.py -> here.
Rule: what clients asked the server is used, CLIENT_QUERY and AUTH_QUERY; everything else is passed over.
Source: https://dnstap.info, dnstap.proto and fstrm's frame streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Final, NamedTuple

from hsdns.load.captures.file import Damaged, read_whole

BEGIN: Final = bytes(4)  # the length of a control frame
_STOP: Final = 3
_SECOND: Final = 1_000_000_000  # nanoseconds
_MESSAGE: Final = 14  # of the outermost message
_TYPE, _CLIENT, _SECONDS, _NANOSECONDS, _QUERY = 1, 4, 8, 9, 10
_QUERIES: Final = (1, 5)  # AUTH_QUERY, CLIENT_QUERY
_FIXED: Final = {1: 8, 5: 4}  # octets by wire type


class Tapped(NamedTuple):
    """A query: nanoseconds of the wall clock, the address of the client, and the message, which may be empty."""

    time: int
    client: bytes
    message: bytes


def read_dnstap(file: IO[bytes]) -> Iterator[Tapped | None]:
    """The queries in order, and None for each message that is none; raise Damaged, or OSError."""
    number = 0
    while head := file.read(4):
        where = f"frame {number + 1}"
        if len(head) < 4:
            raise Damaged(f"ends in {where}")
        length = int.from_bytes(head, "big")
        if not length:  # a control frame
            length = int.from_bytes(read_whole(file, 4, where), "big")
            if read_whole(file, length, where)[:4] == _STOP.to_bytes(4, "big"):
                return
            continue
        number += 1
        octets = read_whole(file, length, where)
        try:
            found = dict(_fields(bytes(dict(_fields(octets)).get(_MESSAGE, b""))))
        except (IndexError, TypeError):
            raise Damaged(f"is broken at {where}") from None
        if found.get(_TYPE) not in _QUERIES:
            yield None
            continue
        time = _number(found.get(_SECONDS)) * _SECOND + _number(found.get(_NANOSECONDS))
        yield Tapped(time, _octets(found.get(_CLIENT)), _octets(found.get(_QUERY)))


def _number(found: int | bytes | None) -> int:
    return found if isinstance(found, int) else int.from_bytes(found or b"", "little")


def _octets(found: int | bytes | None) -> bytes:
    return found if isinstance(found, bytes) else b""


def _fields(octets: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of the fields of a protobuf message; raise IndexError if it is broken."""
    at = 0
    while at < len(octets):
        key, at = _varint(octets, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(octets, at)
            yield key >> 3, value
            continue
        length = _FIXED.get(kind)
        if kind == 2:
            length, at = _varint(octets, at)
        if length is None or at + length > len(octets):
            raise IndexError
        yield key >> 3, octets[at : at + length]
        at += length


def _varint(octets: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        octet = octets[at]
        found |= (octet & 127) << shift
        at += 1
        if octet < 128:
            return found, at
        shift += 7
