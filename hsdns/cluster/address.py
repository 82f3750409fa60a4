"""IP addresses as octets, and the DNS label that stands for an address.

Path: pack.py reads the addresses of objects with it; value.py makes the labels of endpoints without a hostname.
Rule: an IPv4 address is parsed without module ipaddress, which takes three times as long: a start parses one for each
      endpoint.  So no step of the parsing is a line of Python.
"""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Final

# The only accepted spelling of each octet.
_OCTET: Final = {str(value): value for value in range(256)}.__getitem__
_DECIMAL: Final = tuple(b"%d" % value for value in range(256)).__getitem__


def pack_address(text: str) -> bytes | None:
    """An address as 4 or 16 octets, an IPv4-mapped one as 4 (Go's net.IP.To4); None if it is not an address."""
    found = read_address(text)
    return None if found is None else found[0]


def read_address(text: str) -> tuple[bytes, bool] | None:
    """The octets as of pack_address(), and whether the text is the canonical form (RFC 5952 for IPv6)."""
    if ":" not in text:
        packed = pack_ipv4(text)
        return None if packed is None else (packed, True)
    try:
        found = IPv6Address(text)
    except ValueError:
        return None
    if found.scope_id is not None:
        return None
    mapped = found.ipv4_mapped
    return (found.packed, str(found) == text) if mapped is None else (mapped.packed, False)


def pack_ipv4(text: str) -> bytes | None:
    """An IPv4 address as 4 octets; None if the text is not an IPv4 address."""
    try:
        packed = bytes(map(_OCTET, text.split(".")))
    except KeyError:
        return None
    return packed if len(packed) == 4 else None


def dashed(address: bytes) -> bytes:
    """The label of an endpoint without a hostname: its address with dashes for dots and colons."""
    if len(address) == 4:
        return b"-".join(map(_DECIMAL, address))
    return dashed_text(str(IPv6Address(address)))


def dashed_text(text: str) -> bytes:
    """The same label from the address as written, with "0" after a final dash (CoreDNS endpointHostname)."""
    if "." in text:
        return text.replace(".", "-").encode()
    label = text.replace(":", "-")
    return (label + "0" if label.endswith("-") else label).encode()
