"""RDATA of the types hsdns makes itself, from values to wire form and back to text.

Path: cluster/schema.py makes it, encode.py compresses it, text.py shows it.
Rule 1: wire form here is uncompressed and in the case given; only encode() writes pointers.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

_SRV: Final = struct.Struct("!HHH")
_SOA: Final = struct.Struct("!IIIII")

# Where the names stand in RDATA that RFC 1035 allows to be compressed: octets before, how many names, octets after.
COMPRESSIBLE: Final[dict[int, tuple[int, int, int]]] = {
    RRType.NS: (0, 1, 0),
    RRType.CNAME: (0, 1, 0),
    RRType.PTR: (0, 1, 0),
    RRType.SOA: (0, 2, 20),
    RRType.MX: (2, 1, 0),
}


def address(text: str) -> bytes:
    """RDATA of an A or AAAA record (RFC 1035 section 3.4.1, RFC 3596); raise ValueError."""
    return ip_address(text).packed


def address_to_text(rdata: bytes) -> str:
    """The address that 4 or 16 octets mean."""
    return str(IPv4Address(rdata) if len(rdata) == 4 else IPv6Address(rdata))


def srv(priority: int, weight: int, port: int, target: Name) -> bytes:
    """RDATA of an SRV record (RFC 2782)."""
    return _SRV.pack(priority, weight, port) + target.wire


def soa(
    mname: Name, rname: Name, serial: int, refresh: int, retry: int, expire: int, minimum: int
) -> bytes:
    """RDATA of an SOA record (RFC 1035 section 3.3.13); times in seconds."""
    return mname.wire + rname.wire + _SOA.pack(serial & 0xFFFFFFFF, refresh, retry, expire, minimum)


def txt(*strings: bytes) -> bytes:
    """RDATA of a TXT record (RFC 1035 section 3.3.14); raise ValueError for a string over 255 octets."""
    if any(len(part) > 255 for part in strings):
        raise ValueError("a TXT string holds at most 255 octets")
    return b"".join(bytes((len(part),)) + part for part in strings)


def read_name(rdata: bytes, at: int) -> tuple[Name, int]:
    """Read an uncompressed name and the offset after it."""
    end = at
    while length := rdata[end]:
        end += 1 + length
    return Name(rdata[at : end + 1]), end + 1
