"""The content of an index of addresses, for comparisons."""

from __future__ import annotations

from typing import TypeVar

from hsdns.cluster.services import ReverseIndex

Owner = TypeVar("Owner", bound=tuple[object, ...])


def owners_by_address(index: ReverseIndex[Owner]) -> dict[bytes, frozenset[Owner]]:
    """The owners of each address, without their order."""
    return {address: frozenset(index.lookup(address)) for address in index.addresses()}
