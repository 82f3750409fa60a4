"""RDATA of the types that hsdns makes itself: to and from wire form.

Path: cluster/schema.py makes it, encode.py compresses it, text.py formats it.
Rule 1: wire form here is uncompressed and keeps its case; only encode() writes pointers.
"""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

# Of a record, after its owner: type, class, TTL, length of RDATA (RFC 1035 section 3.2.1).
RECORD_HEAD: Final = struct.Struct("!HHIH")
_SRV: Final = struct.Struct("!HHH")
_SOA: Final = struct.Struct("!IIIII")

# The names in RDATA that RFC 1035 allows to compress: octets before them, number of names, octets after them.
COMPRESSIBLE: Final[dict[int, tuple[int, int, int]]] = {
    RRType.NS: (0, 1, 0),
    RRType.CNAME: (0, 1, 0),
    RRType.PTR: (0, 1, 0),
    RRType.SOA: (0, 2, 20),
    RRType.MX: (2, 1, 0),
}


def address(text: str) -> bytes:
    """Make RDATA of an A or AAAA record (RFC 1035 section 3.4.1, RFC 3596); raise ValueError."""
    return ip_address(text).packed


def address_to_text(rdata: bytes) -> str:
    """Return the address in 4 or 16 octets."""
    return str(IPv4Address(rdata) if len(rdata) == 4 else IPv6Address(rdata))


def srv(priority: int, weight: int, port: int, target: Name) -> bytes:
    """Make RDATA of an SRV record (RFC 2782)."""
    return _SRV.pack(priority, weight, port) + target.wire


def soa(
    mname: Name, rname: Name, serial: int, refresh: int, retry: int, expire: int, minimum: int
) -> bytes:
    """Make RDATA of an SOA record (RFC 1035 section 3.3.13); times in seconds."""
    return mname.wire + rname.wire + _SOA.pack(serial & 0xFFFFFFFF, refresh, retry, expire, minimum)


def txt(*strings: bytes) -> bytes:
    """Make RDATA of a TXT record (RFC 1035 section 3.3.14); raise ValueError for a string over 255 octets."""
    if any(len(part) > 255 for part in strings):
        raise ValueError("a TXT string may have at most 255 octets")
    return b"".join(bytes((len(part),)) + part for part in strings)


def read_name(rdata: bytes, at: int) -> tuple[Name, int]:
    """Return an uncompressed name and the offset after it."""
    end = at
    while length := rdata[end]:
        end += 1 + length
    return Name(rdata[at : end + 1]), end + 1
