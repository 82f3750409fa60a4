"""IP addresses as octets, the DNS label that stands for an address, and its reverse name.

Path: pack.py reads the addresses of objects with it; value.py makes the labels of endpoints without a hostname.
Rule: an IPv4 address is parsed without module ipaddress, which takes three times as long: a start parses one for each
      endpoint.  So no step of the parsing is a line of Python.
"""

from __future__ import annotations

from ipaddress import IPv6Address
from typing import Final

from hsdns.wire.name import Name

# The only accepted spelling of each octet.
_OCTET: Final = {str(value): value for value in range(256)}.__getitem__
_DECIMAL: Final = tuple(b"%d" % value for value in range(256)).__getitem__
REVERSE_ZONES: Final = (Name.from_text("in-addr.arpa."), Name.from_text("ip6.arpa."))
_IPV4: Final = (b"in-addr", b"arpa")
_IPV6: Final = (b"ip6", b"arpa")
_NIBBLES: Final = {b"%x" % value for value in range(16)}


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


def is_reverse(name: Name) -> bool:
    """Whether a name is below in-addr.arpa or ip6.arpa (CoreDNS IsReverse)."""
    labels = name.labels
    return len(labels) > 2 and labels[-2:] in (_IPV4, _IPV6)


def address_of(name: Name) -> bytes | None:
    """The address of a complete reverse name (4 octets or 32 nibbles), None for other names.

    Source: RFC 1035 section 3.5, RFC 3596 section 2.5, CoreDNS 1.14.7 plugin/pkg/dnsutil/reverse.go.
    """
    labels = name.labels
    if len(labels) == 6 and labels[-2:] == _IPV4:
        octets = labels[3::-1]
        if all(octet.isdigit() and len(octet) <= 3 for octet in octets):
            return pack_address(b".".join(octets).decode())
    elif len(labels) == 34 and labels[-2:] == _IPV6:
        nibbles = labels[31::-1]
        if all(nibble in _NIBBLES for nibble in nibbles):
            digits = b"".join(nibbles).decode()
            return pack_address(":".join(digits[at : at + 4] for at in range(0, 32, 4)))
    return None


def reverse_name(address: bytes) -> Name:
    """The reverse name of an address of 4 or 16 octets; the inverse of address_of()."""
    if len(address) == 4:
        return Name.from_labels([b"%d" % octet for octet in reversed(address)] + [*_IPV4])
    nibbles = reversed(address.hex().encode())
    return Name.from_labels([*(b"%c" % nibble for nibble in nibbles), *_IPV6])
