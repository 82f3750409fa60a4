"""The lines of a hosts(5) file: addresses by name, names by address.

Path: step 5; plugins/hosts makes a table for each version of its file and answers from it.
Source: CoreDNS 1.14.7 plugin/hosts hostsfile.go and wildcard.go; hosts(5).
Rule: a table is immutable; reading a file again makes a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from hsdns.wire.iana import RRType
from hsdns.wire.name import Name

_REVERSE_V4: Final = (b"in-addr", b"arpa")
_REVERSE_V6: Final = (b"ip6", b"arpa")


class HostsTable:
    """Lines of hosts(5), looked up by name and by address."""

    __slots__ = ("_by_address", "_by_name")

    def __init__(
        self, lines: Iterable[str], zones: Sequence[Name], *, reverse: bool = True
    ) -> None:
        """Take all names at or below the zones; lines without an address and words that are not names are skipped."""
        self._by_name: dict[tuple[int, bytes], list[bytes]] = {}
        self._by_address: dict[bytes, list[Name]] = {}
        for line in lines:
            words = line.partition("#")[0].split()
            packed = parse_address(words[0]) if len(words) > 1 else None
            if packed is None:
                continue
            rrtype = RRType.A if len(packed) == 4 else RRType.AAAA
            for word in words[1:]:
                try:
                    owner = Name.from_text(word).lowered()
                except ValueError:
                    continue
                if not any(owner.is_at_or_below(zone) for zone in zones):
                    continue
                self._by_name.setdefault((rrtype, owner.lower), []).append(packed)
                if reverse and not owner.lower.startswith(b"\1*"):
                    self._by_address.setdefault(packed, []).append(owner)

    def __len__(self) -> int:
        """The number of entries in both directions, including repeated ones (the metric coredns_hosts_entries)."""
        addresses = sum(map(len, self._by_name.values()))
        return addresses + sum(map(len, self._by_address.values()))

    @property
    def owners(self) -> list[Name]:
        """The names that have an address."""
        return [Name(lower) for lower in {lower for _, lower in self._by_name}]

    def addresses(self, qname: Name, rrtype: int) -> list[bytes]:
        """The A or AAAA data of a name, or of a wildcard that replaces its first label."""
        lower = qname.lower
        found = self._by_name.get((rrtype, lower))
        if found is None and len(lower) > 1:
            found = self._by_name.get((rrtype, b"\1*" + lower[1 + lower[0] :]))
        return found or []

    def names(self, packed: bytes) -> list[Name]:
        """The names of an address."""
        return self._by_address.get(packed, [])


def parse_address(text: str) -> bytes | None:
    """The octets of an address, without a zone (`fe80::1%eth0`); an IPv4-mapped address is IPv4."""
    try:
        address: IPv4Address | IPv6Address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.packed
    return address.packed


def reverse_to_packed(qname: Name) -> bytes | None:
    """The address of a complete reverse name (RFC 1035 section 3.5, RFC 3596 section 2.5), or None."""
    labels = [label.decode("latin-1") for label in reversed(qname.labels[:-2])]
    if qname.labels[-2:] == _REVERSE_V4 and len(labels) == 4:
        return parse_address(".".join(labels))
    if (
        qname.labels[-2:] == _REVERSE_V6
        and len(labels) == 32
        and all(len(label) == 1 for label in labels)
    ):
        digits = "".join(labels)
        return parse_address(":".join(digits[at : at + 4] for at in range(0, 32, 4)))
    return None
