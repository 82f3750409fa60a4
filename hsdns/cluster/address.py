"""IP addresses as octets, and the DNS label that stands for an address.

Path: pack.py reads the addresses of objects with it; value.py makes the labels of endpoints without a hostname.
Rule 1: an IPv4 address is parsed by hand: module ipaddress takes three times as long, and every endpoint has one.
"""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Final

_OCTETS: Final = {str(value): value for value in range(256)}  # the only accepted spelling of each


def pack_address(text: str) -> bytes | None:
    """An address as 4 or 16 octets, an IPv4-mapped one as 4 (Go's net.IP.To4); None if it is not an address."""
    found = read_address(text)
    return None if found is None else found[0]


def read_address(text: str) -> tuple[bytes, bool] | None:
    """The octets as of pack_address(), and whether the text is the canonical form (RFC 5952 for IPv6)."""
    octets = text.split(".")
    if len(octets) == 4:
        try:
            # No comprehension: it costs a call of its own for each endpoint.
            a, b, c, d = octets
            return bytes((_OCTETS[a], _OCTETS[b], _OCTETS[c], _OCTETS[d])), True
        except KeyError:
            pass  # ::ffff:10.0.0.1 has three dots too
    try:
        found = IPv6Address(text)
    except ValueError:
        return None
    if found.scope_id is not None:
        return None
    mapped = found.ipv4_mapped
    return (found.packed, str(found) == text) if mapped is None else (mapped.packed, False)


def dashed(address: bytes) -> bytes:
    """The label of an endpoint without a hostname: its address with dashes for dots and colons."""
    if len(address) == 4:
        return b"%d-%d-%d-%d" % tuple(address)
    return dashed_text(str(IPv6Address(address)))


def dashed_text(text: str) -> bytes:
    """The same from the address as written, with "0" after a final dash (CoreDNS endpointHostname)."""
    if "." in text:
        return text.replace(".", "-").encode()
    label = text.replace(":", "-")
    return (label + "0" if label.endswith("-") else label).encode()
