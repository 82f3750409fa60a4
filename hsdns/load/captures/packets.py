"""Reads captures of packets: pcap and pcapng, as tcpdump and Wireshark write them.

Path: ../replay.py -> here.
Rule 1: nothing is guessed.  After the intact packets, damage raises Damaged with the number of the packet.
Rule 2: a file of any length is read as it is needed; lengths in it may be up to MOST_OCTETS.
Source: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

The UDP datagram in a captured packet:
Rule: it reads Ethernet with VLANs, Linux cooked (SLL, SLL2), loopback and raw IP, with IPv4 and IPv6.  For all else it
      returns why there is no datagram.
Source: https://www.tcpdump.org/linktypes.html, RFC 791, RFC 8200, RFC 768.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import IO, Final, NamedTuple

from hsdns.load.captures.file import MOST_OCTETS, Damaged

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


class _Interface(NamedTuple):
    link: int
    units: int  # per second
    offset: int  # seconds


def is_capture(begin: bytes) -> bool:
    """Whether a file that begins with these octets, at least four, is a capture."""
    if begin[:4] == _SECTION:
        return True
    magics = {int.from_bytes(begin[:4], "little"), int.from_bytes(begin[:4], "big")}
    return not magics.isdisjoint((_MICRO, _NANO))


def read_capture(file: IO[bytes]) -> Iterator[Captured]:
    """The packets of a capture; raise Damaged, or OSError."""
    begin = file.read(4)
    yield from _pcapng(file) if begin == _SECTION else _pcap(file, begin)


def _pcap(file: IO[bytes], begin: bytes) -> Iterator[Captured]:
    order = "<" if int.from_bytes(begin, "little") in (_MICRO, _NANO) else ">"
    header = file.read(20)
    if len(header) < 20:
        raise Damaged("ends in the header of the file")
    # The high bits are the length of a frame check sequence.
    link = Struct(f"{order}HHIIII").unpack(header)[5] & 0x0FFFFFFF
    units = _SECOND if Struct(f"{order}I").pack(_NANO) == begin else 1_000_000
    head = Struct(f"{order}IIII")
    number = 0
    while octets := file.read(head.size):
        number += 1
        if len(octets) < head.size:
            raise Damaged(f"ends in packet {number}")
        seconds, parts, length, original = head.unpack(octets)
        if length > MOST_OCTETS:
            raise Damaged(f"is broken at packet {number}: that would have {length} octets")
        if parts >= units:
            raise Damaged(f"is broken at packet {number}: its time is no time")
        data = file.read(length)
        if len(data) < length:
            raise Damaged(f"ends in packet {number}")
        time = seconds * _SECOND + parts * (_SECOND // units)
        yield Captured(number, time, link, data, length >= original)


def _pcapng(file: IO[bytes]) -> Iterator[Captured]:
    """The packets after the first four octets of a file."""
    order, interfaces, number = "<", list[_Interface](), 0  # that of the last packet
    kind: bytes = _SECTION
    while kind:
        after = f"after packet {number}"
        length, read = file.read(4), 8
        if kind == _SECTION:
            magic, read = file.read(4), 12
            orders = [each for each in "<>" if Struct(f"{each}I").pack(_SECTION_ORDER) == magic]
            if not orders:
                raise Damaged(f"has a broken section header {after}")
            (order,), interfaces = orders, []
        word = Struct(f"{order}I")
        if len(length) < 4 or len(kind) < 4:
            raise Damaged(f"ends in a block {after}")
        (which,), (size,) = word.unpack(kind), word.unpack(length)
        if size % 4 or not read + 4 <= size <= MOST_OCTETS:
            raise Damaged(f"has a block of {size} octets {after}")
        body = file.read(size - read)
        if len(body) < size - read:
            raise Damaged(f"ends in a block {after}")
        if body[-4:] != length:
            raise Damaged(f"has a block with two lengths {after}")
        if which == _INTERFACE:
            if len(body) < 12:
                raise Damaged(f"has a broken description of an interface {after}")
            interfaces.append(_interface(order, body[:-4]))
        elif which in (_PACKET, _OLD_PACKET, _SIMPLE_PACKET):
            number += 1
            yield _packet(order, which, body[:-4], interfaces, number)
        kind = file.read(4)


def _interface(order: str, body: bytes) -> _Interface:
    link = Struct(f"{order}H").unpack_from(body)[0]
    units, offset, at = 1_000_000, 0, 8
    head = Struct(f"{order}HH")
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
            offset = Struct(f"{order}q").unpack(value)[0]
    return _Interface(link, units, offset)


def _packet(
    order: str, kind: int, body: bytes, interfaces: Sequence[_Interface], number: int
) -> Captured:
    at = f"is broken at packet {number}"
    if kind == _SIMPLE_PACKET:
        raise Damaged(f"{at}: it has no time")
    if len(body) < 20:
        raise Damaged(f"{at}: its block has {len(body)} octets")
    form = "IIIII" if kind == _PACKET else "HxxIIII"
    which, high, low, length, original = Struct(order + form).unpack_from(body)
    if which >= len(interfaces):
        raise Damaged(f"{at}: its interface {which} is not described")
    if length > len(body) - 20:
        raise Damaged(f"{at}: it would have {length} octets")
    link, units, offset = interfaces[which]
    time = ((high << 32 | low) * _SECOND) // units + offset * _SECOND
    return Captured(number, time, link, body[20 : 20 + length], length >= original)


# The places of an EtherType in packets of Ethernet and SLL.
_ETHER_TYPE_AT: Final = {1: 12, 113: 14}
_SLL2: Final = 276
# The length of what is before IP: of the link types NULL and LOOP, and of raw IP, with its old numbers, the newer one,
# and those of IPv4 only and IPv6 only.
_BEFORE_IP: Final = {0: 4, 108: 4, **dict.fromkeys((12, 14, 101, 228, 229), 0)}
_IPV4, _IPV6 = 0x0800, 0x86DD
_VLANS: Final = (0x8100, 0x88A8, 0x9100)
_UDP, _TCP = 17, 6
_EXTENSIONS: Final = (0, 43, 60, 135)  # hop-by-hop, routing, destination options, mobility
_FRAGMENT: Final = 44

TCP: Final = "TCP"
FRAGMENTS: Final = "fragments"
CUT: Final = "cut by the capture"
OTHER: Final = "other packets"


class Datagram(NamedTuple):
    """A UDP datagram; addresses as octets."""

    source: bytes
    port: int  # of the destination
    octets: bytes


def find_datagram(link: int, octets: bytes) -> Datagram | str:
    """The datagram of a packet, or why there is none: TCP, FRAGMENTS, CUT or OTHER."""
    try:
        return _find(link, octets)
    except IndexError:
        return CUT


def _find(link: int, octets: bytes) -> Datagram | str:
    if link in _BEFORE_IP:
        return _ip(octets[_BEFORE_IP[link] :])
    if link == _SLL2:
        return _ip(octets[20:]) if _word(octets, 0) in (_IPV4, _IPV6) else OTHER
    at = _ETHER_TYPE_AT.get(link)
    if at is None:
        return OTHER
    while _word(octets, at) in _VLANS:
        at += 4
    return _ip(octets[at + 2 :]) if _word(octets, at) in (_IPV4, _IPV6) else OTHER


def _ip(octets: bytes) -> Datagram | str:
    version = octets[0] >> 4
    if version == 4:
        protocol, start = octets[9], (octets[0] & 15) * 4
        if _word(octets, 6) & 0x3FFF:  # more fragments, or an offset
            return FRAGMENTS
        return _transport(octets, protocol, start, octets[12:16])
    if version != 6:
        return OTHER
    protocol, start = octets[6], 40
    while protocol in _EXTENSIONS:
        protocol, start = octets[start], start + (octets[start + 1] + 1) * 8
    if protocol == _FRAGMENT:
        return FRAGMENTS
    return _transport(octets, protocol, start, octets[8:24])


def _transport(octets: bytes, protocol: int, start: int, source: bytes) -> Datagram | str:
    if protocol == _TCP:
        return TCP
    if protocol != _UDP:
        return OTHER
    length = _word(octets, start + 4)
    found = octets[start + 8 : start + length]
    if length < 8 or len(found) < length - 8:
        return CUT
    return Datagram(source, _word(octets, start + 2), found)


def _word(octets: bytes, at: int) -> int:
    return octets[at] << 8 | octets[at + 1]
