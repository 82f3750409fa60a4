"""The UDP datagram in a captured packet.

Path: capture_file.py -> here -> replay.py.
Rule: it reads Ethernet with VLANs, Linux cooked (SLL, SLL2), loopback and raw IP, with IPv4 and IPv6.  For all else it
      returns why there is no datagram.
Source: https://www.tcpdump.org/linktypes.html, RFC 791, RFC 8200, RFC 768.
"""

from __future__ import annotations

from typing import Final, NamedTuple

NULL, ETHERNET, LOOP, SLL, SLL2 = 0, 1, 108, 113, 276
RAW: Final = (
    12,
    14,
    101,
    228,
    229,
)  # the old numbers of raw IP, the newer one, and those of IPv4 only and IPv6 only
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
    if link in RAW:
        return _ip(octets)
    if link in (NULL, LOOP):
        return _ip(octets[4:])
    if link == ETHERNET:
        at = 12
    elif link == SLL:
        at = 14
    elif link == SLL2:
        return _ip(octets[20:]) if _word(octets, 0) in (_IPV4, _IPV6) else OTHER
    else:
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
