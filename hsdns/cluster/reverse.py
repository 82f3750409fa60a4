"""The index from addresses to Services and slices, and the reverse names of addresses.

Path: services.py keeps the indexes; lookup.py and nameserver.py look up addresses.
Rule: an address leads to the objects that have it, not to records; those are computed from the Service's value.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from hsdns.cluster.address import pack_address
from hsdns.wire.name import Name

Owner = TypeVar("Owner", bound=tuple[object, ...])

_IPV4: Final = (b"in-addr", b"arpa")
_IPV6: Final = (b"ip6", b"arpa")
_NIBBLES: Final = {b"%x" % value for value in range(16)}


class ReverseIndex(Generic[Owner]):
    """Addresses (4 or 16 octets) and the keys of the objects that have them, in the order of their addition."""

    __slots__ = ("_one", "_several")

    def __init__(self) -> None:
        # Nearly every address has one owner; a tuple around it would cost 48 octets for each endpoint.
        self._one: dict[bytes, Owner] = {}
        self._several: dict[bytes, tuple[Owner, ...]] = {}

    def add(self, address: bytes, owner: Owner) -> None:
        """Add an owner of an address; without effect if it is one already."""
        if address not in self._one and address not in self._several:  # nearly always
            self._one[address] = owner
            return
        known = self.lookup(address)
        if owner not in known:
            self._put(address, (*known, owner))

    def remove(self, address: bytes, owner: Owner) -> None:
        """Remove an owner of an address; without effect if it is none."""
        if self._one.get(address) == owner:
            del self._one[address]
        elif address in self._several:
            self._put(address, tuple(known for known in self._several[address] if known != owner))

    def lookup(self, address: bytes) -> tuple[Owner, ...]:
        """The owners of an address."""
        one = self._one.get(address)
        return (one,) if one is not None else self._several.get(address, ())

    def _put(self, address: bytes, owners: tuple[Owner, ...]) -> None:
        self._one.pop(address, None)
        self._several.pop(address, None)
        if len(owners) == 1:
            self._one[address] = owners[0]
        elif owners:
            self._several[address] = owners

    def addresses(self) -> list[bytes]:
        """All addresses that have an owner."""
        return [*self._one, *self._several]


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
            return pack_address(_ipv6_text(b"".join(nibbles).decode()))
    return None


def _ipv6_text(digits: str) -> str:
    return ":".join(digits[at : at + 4] for at in range(0, 32, 4))
