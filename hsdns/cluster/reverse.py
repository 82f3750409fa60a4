"""From addresses back to Services and slices: the index behind PTR, and the names it is asked by.

Path: store.py keeps it; schema.py asks it.
Rule 1: an address leads to the objects that hold it, never to records; those are computed from the Service's value.
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
    """Addresses (4 or 16 octets) and the objects that hold them, in the order they came.  Owners are tuples."""

    __slots__ = ("_one", "_several")

    def __init__(self) -> None:
        # Nearly every address has one owner; a tuple around each would cost 48 octets an endpoint.
        self._one: dict[bytes, Owner] = {}
        self._several: dict[bytes, tuple[Owner, ...]] = {}

    def add(self, address: bytes, owner: Owner) -> None:
        """Let an address lead to an owner."""
        if address not in self._one and address not in self._several:  # as nearly every one
            self._one[address] = owner
            return
        known = self.lookup(address)
        if owner not in known:
            self._put(address, (*known, owner))

    def remove(self, address: bytes, owner: Owner) -> None:
        """Let an address no longer lead to an owner."""
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

    def __len__(self) -> int:
        return len(self._one) + len(self._several)

    def addresses(self) -> list[bytes]:
        """All addresses that lead somewhere."""
        return [*self._one, *self._several]

    def snapshot(self) -> dict[bytes, frozenset[Owner]]:
        """A copy without order, for comparing two indexes."""
        return {address: frozenset(self.lookup(address)) for address in self.addresses()}


def is_reverse(name: Name) -> bool:
    """Tell whether a name is below in-addr.arpa or ip6.arpa; those two themselves are not (CoreDNS IsReverse)."""
    labels = name.labels
    return len(labels) > 2 and labels[-2:] in (_IPV4, _IPV6)


def address_of(name: Name) -> bytes | None:
    """The address a complete reverse name stands for: 4 octets or 32 nibbles, else None.

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
