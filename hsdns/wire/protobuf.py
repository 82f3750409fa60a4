"""Protobuf: fields of messages to octets and back; sans I/O.

Path: dnstap.py, plugins/pprof.py, and API servers of tests -> here.
Source: https://protobuf.dev/programming-guides/encoding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

_OCTETS: Final = 2  # a wire type
_LONGEST: Final = 63  # bits of a varint
_FIXED: Final = {1: 8, 5: 4}  # octets by wire type
_ONE_OCTET: Final = tuple(bytes((value,)) for value in range(128))


def varint(value: int) -> bytes:
    """Write a number that is not negative."""
    if value < 128:
        return _ONE_OCTET[value]
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def field(number: int, value: int | bytes) -> bytes:
    """Write a field: a number, of two's complement if it is negative, or octets, such as a text or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value % (1 << 64))
    return varint(number << 3 | _OCTETS) + varint(len(value)) + value


def fixed32(number: int, value: int) -> bytes:
    """Write a field of four octets."""
    return varint(number << 3 | 5) + value.to_bytes(4, "little")


def fields(octets: bytes) -> Iterator[tuple[int, Any]]:
    """The numbers and values of the fields of a message; raise IndexError or TypeError if it is broken."""
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
