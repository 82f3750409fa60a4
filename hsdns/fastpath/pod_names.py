"""Replies about names of Pods where every address has one (`pods insecure`), made from replies of the chain.

Path: step 2; table.py calls it for names that negative_zone.py leaves to the chain.  Twin of native/src/pod_names.rs.
Rule 1: the name is that of one address, in its canonical form with dashes, in a namespace that exists; up to two labels
        to the left do not matter (CoreDNS plugin/kubernetes/parse.go).  Other forms go to the chain, and addresses in
        ::/80, whose forms differ between libraries.
Rule 2: the type of the address gets the address, others NODATA; each of these replies has its own form, which is taken
        from one of the chain.  SRV is left to the chain, as its reply has more in it.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Final, NamedTuple

from hsdns.fastpath import soa_template
from hsdns.fastpath.hit_counts import SIZE_SHIFT
from hsdns.fastpath.key import PlainQuery
from hsdns.fastpath.records import read_outline, walk
from hsdns.fastpath.soa_template import CLASS_IN, RCODE, SoaTemplate
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.iana import Rcode, RRType

ANSWER: Final = (1, 0, 0)

_PODS: Final = b"pod"
_OWNER: Final = b"\xc0\x0c"  # the question's name
_FIXED_LEN: Final = 10  # type, class, TTL and length of the RDATA
_FAMILIES: Final = ((socket.AF_INET, "."), (socket.AF_INET6, ":"))
_UNCLEAR: Final = bytes(10)


class PodReply(NamedTuple):
    """What is written for a query, and how it is counted (hit_counts.py), without the length and DO of the query."""

    kind: int
    flags: int
    counts: tuple[int, int, int]
    records: bytes


class PodNames:
    """The forms of the replies in one zone, by type and whether there is an answer."""

    def __init__(self, zone_len: int) -> None:
        self._zone_len = zone_len
        # With an answer: the flags of the reply and its TTL.
        self._forms: dict[tuple[bytes, bool], tuple[int, SoaTemplate | tuple[int, bytes]]] = {}

    def has_form(self, qtype: bytes) -> bool:
        """Whether there is any form for this type."""
        return (qtype, False) in self._forms or (qtype, True) in self._forms

    def set_form(
        self,
        labels: Sequence[bytes],
        plain: PlainQuery,
        query: bytes,
        reply: bytes,
        size: int,
        kinds: tuple[int, int],
    ) -> bool:
        """Take the form of a reply to a name with these labels left of the zone; False if that is not possible.

        `kinds` are those of a reply without an answer, and with one.
        """
        address, qtype = _address_of(labels), plain.key[-3:-1]
        if address is None:
            return False
        form: SoaTemplate | tuple[int, bytes] | None
        if is_answer := _type_of(address) == qtype:
            form = _address_form(address, plain, query, reply, size)
        else:
            form = SoaTemplate.of(self._zone_len, plain, query, reply, Rcode.NOERROR, size)
        if form is not None:
            self._forms[qtype, is_answer] = kinds[is_answer], form
        return form is not None

    def find(self, labels: Sequence[bytes], key: bytes, end: int, serial: int) -> PodReply | None:
        """The reply to a name with these labels left of the zone; None if the chain must answer."""
        address, qtype = _address_of(labels), key[-3:-1]
        if address is None:
            return None
        is_answer = _type_of(address) == qtype
        found = self._forms.get((qtype, is_answer))
        if found is None:
            return None
        kind, form = found
        if isinstance(form, SoaTemplate):
            kind += form.size + end - HEADER_LEN << SIZE_SHIFT
            return PodReply(kind, form.flags, soa_template.COUNTS, form.record(end, serial))
        flags, ttl = form
        kind += _size_with(address, end) << SIZE_SHIFT
        return PodReply(kind, flags, ANSWER, _record(address, ttl))


def _address_of(labels: Sequence[bytes]) -> bytes | None:
    """The address in the name of a Pod, whose namespace exists."""
    return _undashed(labels[-3]) if 3 <= len(labels) <= 5 and labels[-1] == _PODS else None


def _undashed(label: bytes) -> bytes | None:
    for family, separator in _FAMILIES:
        try:
            address = socket.inet_pton(family, label.decode("ascii").replace("-", separator))
        except (OSError, ValueError):
            continue
        text = socket.inet_ntop(family, address).replace(separator, "-")
        text += "0" * text.endswith("-")  # as CoreDNS does
        is_clear = len(address) == 4 or address[:10] != _UNCLEAR
        return address if is_clear and text.encode() == label else None
    return None


def _type_of(address: bytes) -> bytes:
    return (RRType.A if len(address) == 4 else RRType.AAAA).to_bytes(2, "big")


def _record(address: bytes, ttl: bytes) -> bytes:
    return b"".join(
        (_OWNER, _type_of(address), CLASS_IN, ttl, b"\0", bytes((len(address),)), address)
    )


def _size_with(address: bytes, end: int) -> int:
    """Octets of the reply with an address, without compression."""
    return end + end - HEADER_LEN - 4 + _FIXED_LEN + len(address)


def _address_form(
    address: bytes, plain: PlainQuery, query: bytes, reply: bytes, size: int
) -> tuple[int, bytes] | None:
    outline = read_outline(query[HEADER_LEN : plain.end], reply)
    if outline is None or outline.flags & RCODE or outline.counts != ANSWER:
        return None
    found = next(walk(reply, plain.end, 1))
    ttl = reply[found.owner_end + 4 : found.owner_end + 8]
    is_alike = reply[plain.end : found.end] == _record(address, ttl)
    return (outline.flags, ttl) if is_alike and size == _size_with(address, plain.end) else None
