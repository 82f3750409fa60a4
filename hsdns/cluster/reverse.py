"""The index from addresses to Services and slices, and the reverse names of addresses.

Path: services.py keeps the indexes; lookup.py and nameserver.py look up addresses.
Rule 1: an address leads to the objects that have it, not to records; records are computed from the Service's value.
Rule 2: a change replaces one value in one dict, so that a lookup in another thread finds the owners before or after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Generic, TypeVar

from hsdns.cluster.address import pack_address
from hsdns.cluster.freshness import Counters, bump_addresses, versions_of
from hsdns.cluster.replaced import Replaced, Table
from hsdns.fastpath import move_addresses
from hsdns.wire.name import Name

Owner = TypeVar("Owner", bound=tuple[object, ...])

REVERSE_ZONES: Final = (Name.from_text("in-addr.arpa."), Name.from_text("ip6.arpa."))
_IPV4: Final = (b"in-addr", b"arpa")
_IPV6: Final = (b"ip6", b"arpa")
_NIBBLES: Final = {b"%x" % value for value in range(16)}


class ReverseIndex(Generic[Owner]):
    """Addresses (4 or 16 octets) and the keys of the objects that have them, in the order of their addition.

    `replaced` records what changes replace, under `table`.
    """

    __slots__ = ("_owners", "_replaced", "_table")

    def __init__(self, replaced: Replaced | None = None, table: Table = "") -> None:
        self._replaced = Replaced() if replaced is None else replaced
        self._table = table
        # Nearly every address has one owner; a tuple around it would cost 48 octets for each endpoint.  Several are a
        # list, which is never changed.
        self._owners: dict[bytes, Owner | list[Owner]] = {}

    @property
    def owners(self) -> dict[bytes, Owner | list[Owner]]:
        """The dict of the index, for compiled code that changes it as move() does."""
        return self._owners

    def add(self, address: bytes, owner: Owner) -> None:
        """Add an owner of an address; no effect if it is one already."""
        known = self.lookup(address)
        if owner not in known:
            self._note(address, known)
            self._owners[address] = [*known, owner] if known else owner

    def add_all(self, addresses: Iterable[bytes], owner: Owner) -> None:
        """Add an owner of addresses, most of which have none yet."""
        owners = self._owners
        for address in addresses:
            if self._replaced.is_kept or address in owners:
                self.add(address, owner)
            else:
                owners[address] = owner

    def move(
        self, gone: Sequence[bytes], come: Sequence[bytes], owner: Owner, counters: Counters
    ) -> None:
        """Remove an owner of some addresses, add it to others, then increment the counters of all of them."""
        versions = versions_of(counters)
        if move_addresses is not None and versions is not None and not self._replaced.is_kept:
            move_addresses(self._owners, gone, come, owner, versions)
            return
        for address in gone:
            self.remove(address, owner)
        self.add_all(come, owner)
        bump_addresses(counters, gone)
        bump_addresses(counters, come)

    def remove(self, address: bytes, owner: Owner) -> None:
        """Remove an owner of an address; no effect if it is not one."""
        known = self.lookup(address)
        rest = [each for each in known if each != owner]
        if len(rest) < len(known):
            self._note(address, known)
        if len(rest) > 1:
            self._owners[address] = rest
        elif rest:
            self._owners[address] = rest[0]
        elif known:
            del self._owners[address]

    def lookup(self, address: bytes) -> tuple[Owner, ...]:
        """The owners of an address."""
        found = self._owners.get(address)
        if found is None:
            return ()
        return tuple(found) if isinstance(found, list) else (found,)

    def addresses(self) -> list[bytes]:
        """All addresses that have an owner."""
        return list(self._owners)

    def _note(self, address: bytes, known: tuple[Owner, ...]) -> None:
        if self._replaced.is_kept:
            self._replaced.note(self._table, address, known)


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


def reverse_name(address: bytes) -> Name:
    """The reverse name of an address of 4 or 16 octets; the inverse of address_of()."""
    if len(address) == 4:
        return Name.from_labels([b"%d" % octet for octet in reversed(address)] + [*_IPV4])
    nibbles = reversed(address.hex().encode())
    return Name.from_labels([*(b"%c" % nibble for nibble in nibbles), *_IPV6])


def _ipv6_text(digits: str) -> str:
    return ":".join(digits[at : at + 4] for at in range(0, 32, 4))
