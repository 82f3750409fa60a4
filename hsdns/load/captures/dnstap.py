"""Reads dnstap: messages as servers such as CoreDNS, BIND, Knot DNS and Unbound log them, in a file of frame streams.

Path: ../replay.py -> here.
Rule: what clients asked the server is used, CLIENT_QUERY and AUTH_QUERY; everything else is passed over.
Source: https://dnstap.info, dnstap.proto and fstrm's frame streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, Final

from hsdns.load.captures.file import Damaged, Read, read_whole

BEGIN: Final = bytes(4)  # the length of a control frame
_STOP: Final = (3).to_bytes(4, "big")
_SECOND: Final = 1_000_000_000  # nanoseconds
_MESSAGE: Final = 14  # of the outermost message
_TYPE, _CLIENT, _SECONDS, _NANOSECONDS, _QUERY = 1, 4, 8, 9, 10
_QUERIES: Final = (1, 5)  # AUTH_QUERY, CLIENT_QUERY
_OCTETS: Final = 2  # a wire type
_LONGEST: Final = 63  # bits of a varint
_FIXED: Final = {1: 8, 5: 4}  # octets by wire type


def read_dnstap(file: IO[bytes]) -> Iterator[Read[bytes] | None]:
    """The queries in order, with messages that may be empty, None for what is no query; raise Damaged, or OSError."""
    number = 1
    while head := file.read(4):
        where = f"frame {number}"
        length = int.from_bytes(head.ljust(4, b"\0"), "big")
        octets = read_whole(
            file, length or int.from_bytes(read_whole(file, 4, where), "big"), where
        )
        if not length:  # a control frame
            if octets[:4] == _STOP:
                return
            continue
        number += 1
        try:
            found = dict(_fields(dict(_fields(octets)).get(_MESSAGE, b"")))
            time = found.get(_SECONDS, 0) * _SECOND + found.get(_NANOSECONDS, 0)
            query = time, b"" + found.get(_CLIENT, b""), b"" + found.get(_QUERY, b"")
        except (IndexError, TypeError):
            raise Damaged(f"is broken at {where}") from None
        yield query if found.get(_TYPE) in _QUERIES else None


def _fields(octets: bytes) -> Iterator[tuple[int, Any]]:
    """The numbers and values of the fields of a protobuf message; raise IndexError or TypeError if it is broken."""
    at = 0
    value: Any
    while at < len(octets):
        key, at = _varint(octets, at)
        kind = key & 7
        value, at = (_FIXED[kind], at) if kind in _FIXED else _varint(octets, at)
        if kind:
            value, at = octets[at : at + value], at + value
            if at > len(octets):
                raise IndexError
        yield key >> 3, value if kind in (0, _OCTETS) else int.from_bytes(value, "little")


def _varint(octets: bytes, at: int) -> tuple[int, int]:
    found = shift = 0
    while octets[at] > 127:
        if shift > _LONGEST:
            raise IndexError
        found |= (octets[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return found | octets[at] << shift, at + 1
