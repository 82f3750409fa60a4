"""Reads captures of packets: pcap and pcapng, as tcpdump and Wireshark write them.

Path: replay.py -> here -> datagram.py parses a packet.
Rule 1: nothing is guessed.  After the intact packets, damage raises Damaged with the number of the packet.
Rule 2: a file of any length is read as it is needed; lengths in it may be up to MOST octets.
Source: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import IO, Final, Literal, NamedTuple

MOST: Final = 1 << 24  # octets of a packet or block
_SECOND: Final = 1_000_000_000  # nanoseconds
_MICRO: Final = 0xA1B2C3D4
_NANO: Final = 0xA1B23C4D
_SECTION: Final = b"\x0a\x0d\x0d\x0a"
_SECTION_ORDER: Final = 0x1A2B3C4D
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_END_OPTION, _RESOLUTION, _OFFSET = 0, 9, 14


class Captured(NamedTuple):
    """A packet: its number from 1, nanoseconds of the wall clock, the link type, and its octets.

    `is_whole` is False if the capture truncated it.
    """

    number: int
    time: int
    link: int
    octets: bytes
    is_whole: bool


class Damaged(Exception):
    """Where and why no more packets can be read, as the predicate of a sentence."""


class _Interface(NamedTuple):
    link: int
    units: int  # per second
    offset: int  # seconds


def is_capture(begin: bytes) -> bool:
    """Whether a file that begins with these octets, at least four, is a capture."""
    if begin[:4] == _SECTION:
        return True
    magics = (int.from_bytes(begin[:4], "little"), int.from_bytes(begin[:4], "big"))
    return any(each in (_MICRO, _NANO) for each in magics)


def read_capture(file: IO[bytes]) -> Iterator[Captured]:
    """The packets of a capture; raise Damaged, or OSError."""
    begin = file.read(4)
    if begin == _SECTION:
        yield from _Blocks(file).packets()
        return
    order = "<" if int.from_bytes(begin, "little") in (_MICRO, _NANO) else ">"
    magic = int.from_bytes(begin, "little" if order == "<" else "big")
    header = file.read(20)
    if len(header) < 20:
        raise Damaged("ends in the header of the file")
    # The high bits are the length of a frame check sequence.
    link = Struct(f"{order}HHIIII").unpack(header)[5] & 0x0FFFFFFF
    units = _SECOND if magic == _NANO else 1_000_000
    head = Struct(f"{order}IIII")
    number = 0
    while octets := file.read(head.size):
        number += 1
        if len(octets) < head.size:
            raise Damaged(f"ends in packet {number}")
        seconds, parts, length, original = head.unpack(octets)
        if length > MOST:
            raise Damaged(f"is broken at packet {number}: that would have {length} octets")
        if parts >= units:
            raise Damaged(f"is broken at packet {number}: its time is no time")
        data = file.read(length)
        if len(data) < length:
            raise Damaged(f"ends in packet {number}")
        time = seconds * _SECOND + parts * (_SECOND // units)
        yield Captured(number, time, link, data, length >= original)


class _Blocks:
    """The blocks of a pcapng file, after its first four octets."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._order = "<"
        self._interfaces: list[_Interface] = []
        self._number = 0  # of the last packet

    def packets(self) -> Iterator[Captured]:
        kind: bytes = _SECTION
        while kind:
            if len(kind) < 4:
                raise self._damaged("ends in a block")
            if kind == _SECTION:
                self._begin_section()
            else:
                number, body = self._kind(kind), self._body()
                if number == _INTERFACE:
                    self._add_interface(body)
                elif number in (_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
                    self._number += 1
                    yield self._packet(number, body)
            kind = self._file.read(4)

    def _damaged(self, why: str) -> Damaged:
        return Damaged(f"{why} after packet {self._number}")

    def _kind(self, octets: bytes) -> int:
        return int.from_bytes(octets, "little" if self._order == "<" else "big")

    def _begin_section(self) -> None:
        length, order = self._file.read(4), self._file.read(4)
        names: tuple[tuple[str, Literal["little", "big"]], ...] = (("<", "little"), (">", "big"))
        for sign, name in names:
            if len(order) == 4 and int.from_bytes(order, name) == _SECTION_ORDER:
                self._order = sign
                break
        else:
            raise self._damaged("has a broken section header")
        self._interfaces.clear()
        self._rest(self._kind(length), 12)

    def _body(self) -> bytes:
        length = self._file.read(4)
        if len(length) < 4:
            raise self._damaged("ends in a block")
        return self._rest(self._kind(length), 8)

    def _rest(self, length: int, read: int) -> bytes:
        """The rest of a block of `length` octets, without the length at its end."""
        if length % 4 or not read + 4 <= length <= MOST:
            raise self._damaged(f"has a block of {length} octets")
        found = self._file.read(length - read)
        if len(found) < length - read:
            raise self._damaged("ends in a block")
        if self._kind(found[-4:]) != length:
            raise self._damaged("has a block with two lengths")
        return found[:-4]

    def _add_interface(self, body: bytes) -> None:
        if len(body) < 8:
            raise self._damaged("has a broken description of an interface")
        link = Struct(f"{self._order}H").unpack_from(body)[0]
        units, offset, at = 1_000_000, 0, 8
        head = Struct(f"{self._order}HH")
        while at + 4 <= len(body):
            code, length = head.unpack_from(body, at)
            value = body[at + 4 : at + 4 + length]
            at += 4 + (length + 3 & ~3)
            if code == _END_OPTION:
                break
            if code == _RESOLUTION and len(value) == 1:
                exponent = value[0] & 0x7F
                units = 1 << exponent if value[0] & 0x80 else 10**exponent
            elif code == _OFFSET and len(value) == 8:
                offset = Struct(f"{self._order}q").unpack(value)[0]
        self._interfaces.append(_Interface(link, units, offset))

    def _packet(self, kind: int, body: bytes) -> Captured:
        at = f"is broken at packet {self._number}"
        if kind == _SIMPLE_PACKET:
            raise Damaged(f"{at}: it has no time")
        if len(body) < 20:
            raise Damaged(f"{at}: its block has {len(body)} octets")
        if kind == _PACKET:
            which, high, low, length, original = Struct(f"{self._order}IIIII").unpack_from(body)
        else:
            which, _, high, low, length, original = Struct(f"{self._order}HHIIII").unpack_from(body)
        if which >= len(self._interfaces):
            raise Damaged(f"{at}: its interface {which} is not described")
        if length > len(body) - 20:
            raise Damaged(f"{at}: it would have {length} octets")
        link, units, offset = self._interfaces[which]
        time = ((high << 32 | low) * _SECOND) // units + offset * _SECOND
        return Captured(self._number, time, link, body[20 : 20 + length], length >= original)
