"""What tests of the fast path share: both twins, packets, and replies as the server makes them.

Path: tests only.
Rule 1: packets are made by wire/encode.py, replies are what encode() makes for one query: what the table sends is
        compared with what encode() would have sent, octet for octet.
"""

from __future__ import annotations

import socket
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest

from hsdns.fastpath import Terms
from hsdns.fastpath.control import write_address
from hsdns.wire import rdata
from hsdns.wire.decode import decode
from hsdns.wire.edns import Edns
from hsdns.wire.encode import MAX_TCP_LEN, encode, encode_query, reply_size
from hsdns.wire.iana import RRType
from hsdns.wire.message import RD, RR, Query, Reply, nodata, nxdomain
from hsdns.wire.name import Name

PYTHON: Final = "hsdns.fastpath._python"
NATIVE: Final = "hsdns.fastpath._native"
HAS_NATIVE: Final = find_spec(NATIVE) is not None
BOTH: Final = [
    pytest.param(PYTHON, id="python"),
    pytest.param(
        NATIVE,
        id="rust",
        marks=pytest.mark.skipif(
            not HAS_NATIVE, reason=f"{NATIVE} is not built, so only the Python twin is tested"
        ),
    ),
]


def built() -> list[ModuleType]:
    """The twins that are there, for a test that asks all of them what it has asked something else once."""
    return [import_module(name) for name in ((PYTHON, NATIVE) if HAS_NATIVE else (PYTHON,))]


WEB: Final = "web.default.svc.cluster.local."
OCTETS: Final = Path(__file__).with_name("octets.txt")
ZONE: Final = Name.from_text("cluster.local.")
CAPACITY: Final = 1 << 22
SOURCE: Final = 5  # the number of the table for its tap
V4: Final = write_address(socket.AF_INET, ("192.0.2.1", 40000))
V6: Final = write_address(socket.AF_INET6, ("2001:db8::1", 40000, 0, 0))


def wire_of(text: str) -> bytes:
    """Octets as octets.txt writes them."""
    return bytes.fromhex(text.replace("WEB", Name.from_text(WEB).wire.hex()))


def ask(
    text: str = WEB, qtype: int = 1, query_id: int = 7, flags: int = RD, edns: Edns | None = None
) -> bytes:
    """A query's octets."""
    return encode_query(
        Query.ask(Name.from_text(text), qtype, query_id=query_id, flags=flags, edns=edns), query_id
    )


def addresses(query: bytes, count: int = 1, rrtype: int = RRType.A) -> Reply:
    """A reply with so many different addresses."""
    length = 4 if rrtype == RRType.A else 16
    qname = decode(query).qname
    return Reply(
        answer=tuple(
            RR(qname, rrtype, 5, bytes([number & 255]) * length) for number in range(count)
        ),
        aa=True,
    )


def soa(serial: int = 1, zone: Name = ZONE) -> RR:
    """The SOA record of a cluster's zone."""
    mname, rname = (Name.from_text(f"{left}.{zone.to_text()}") for left in ("ns.dns", "hostmaster"))
    return RR(zone, RRType.SOA, 5, rdata.soa(mname, rname, serial, 7200, 1800, 86400, 5))


def to_wire(query: bytes, reply: Reply, limit: int = MAX_TCP_LEN) -> bytes:
    """What the server would send."""
    return encode(decode(query), reply, limit)


class TableUnderTest:
    """A table of one twin with what belongs to it."""

    def __init__(self, twin: ModuleType, capacity: int = CAPACITY) -> None:
        self.twin = twin
        self.versions = twin.Versions()
        self.names = twin.ClusterNames()
        self.tap = twin.Tap()
        self.table = twin.AnswerTable(self.versions, capacity, self.tap, SOURCE)

    def store(self, query: bytes, reply: Reply | bytes, **changes: Any) -> bool:
        """Store a reply; parameters that are not given have plain values."""
        if isinstance(reply, Reply):
            size = reply_size(decode(query), reply)
            reply = to_wire(query, reply)
        else:
            size = len(reply)
        terms = {name: changes.pop(name) for name in Terms._fields if name in changes}
        kind = Terms(**{"group": 0, "names": self.names, **terms})
        dependencies, size = changes.pop("dependencies", []), changes.pop("size", size)
        is_stored = self.table.store(query, reply, dependencies, kind, size=size, **changes)
        assert isinstance(is_stored, bool)
        return is_stored

    def lookup(
        self, query: bytes, limit: int | None = MAX_TCP_LEN, now: float = 0.0, v6: bool = False
    ) -> bytes | None:
        """Ask the table; without a limit for a query over UDP that has waited."""
        reply = self.table.lookup(query, client=V6 if v6 else V4, limit=limit, now=now)
        assert reply is None or isinstance(reply, bytes)
        return reply

    def add_negative_zone(
        self,
        text: str = "cluster.local.",
        exclusions: tuple[str, ...] = (),
        groups: dict[int, int] | None = None,
        mark_ttl: int = -1,
        log: bool = False,
        max_payload: int = 65535,
        no_edns: bool = False,
    ) -> int:
        """Add a negative zone without template; absence means NXDOMAIN."""
        self.names.open = True
        number = self.table.add_negative_zone(
            Name.from_text(text).wire,
            self.names,
            [Name.from_text(name).wire for name in exclusions],
            {1: 4, 28: 5} if groups is None else groups,
            mark_ttl,
            log,
            max_payload,
            no_edns,
        )
        assert isinstance(number, int)
        return number

    def set_template(
        self, number: int = 0, text: str = "nope.cluster.local.", **options: Any
    ) -> bool:
        """Make the template of a negative zone."""
        query = ask(text, **options)
        zone = Name.from_text("cluster.local.")
        reply = nxdomain(soa(zone=zone))
        is_template = self.table.set_template(
            number, query, to_wire(query, reply), reply_size(decode(query), reply)
        )
        assert isinstance(is_template, bool)
        return is_template

    def set_form(
        self,
        text: str = "10-0-0-9.default.pod.cluster.local.",
        qtype: int = RRType.A,
        *,
        has_answer: bool = True,
        number: int = 0,
        group: int = 7,
        mark_ttl: int = -1,
        **options: Any,
    ) -> bool:
        """Take the form of a reply about the name of a Pod with the address 10.0.0.9."""
        query = ask(text, qtype, **options)
        answer = RR(decode(query).qname, qtype, 30, bytes((10, 0, 0, 9)))
        reply = Reply(answer=(answer,), aa=True) if has_answer else nodata(soa())
        size = reply_size(decode(query), reply)
        is_form = self.table.set_form(number, query, to_wire(query, reply), size, group, mark_ttl)
        assert isinstance(is_form, bool)
        return is_form

    def cells(self) -> dict[tuple[int, bool], list[int]]:
        """What was counted since the last time."""
        return {(group, is_tcp): list(cells) for group, is_tcp, cells in self.table.take_counts()}
