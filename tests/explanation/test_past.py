"""The last changes behind a name."""

from __future__ import annotations

from hsdns.cluster.history import History, Noted
from hsdns.cluster.reading import Lead
from hsdns.cluster.value import PackedSlice, Port
from hsdns.explanation.records import MOST, MOST_FACTS, past

DB = (b"shop", b"db")
LEAD = Lead((b"shop",), (DB,))
PORTS = (Port(b"http", b"tcp", 80),)


def part(*hosts: int, labels: tuple[bytes | None, ...] | None = None) -> tuple[PackedSlice, ...]:
    addresses = b"".join(bytes((10, 0, host // 256, host % 256)) for host in hosts)
    return (PackedSlice("db-1", "1", 4, addresses, labels, PORTS),)


def noted(
    before: tuple[PackedSlice, ...], after: tuple[PackedSlice, ...], written: str = ""
) -> Noted:
    return Noted(1.5, DB, "changed", "EndpointSlice", "db-1", "2", written, before, after)


def history(*changes: Noted) -> History:
    made = History()
    for each in changes:
        made.note(each)
    return made


def test_a_change() -> None:
    written = "1970-01-01T00:00:01Z"
    (found,) = past(history(noted(part(1), part(2), written)), LEAD, b"")
    assert (found.object, found.event) == ("EndpointSlice shop/db-1", "changed")
    assert (found.added, found.removed) == (["10.0.0.2"], ["10.0.0.1"])
    assert found.served == "1970-01-01T00:00:01.500Z"
    assert (found.written, found.took) == (written, 500.0)


def test_of_an_endpoint_only_what_has_its_label() -> None:
    ring = history(
        noted(part(1, labels=(b"db-0",)), part(2, labels=(b"db-0",))),
        noted(part(2, labels=(b"db-0",)), part(2, 3, labels=(b"db-0", b"db-1"))),
    )
    (found,) = past(ring, LEAD, b"db-0")
    assert (found.added, found.removed) == (["10.0.0.2 db-0"], ["10.0.0.1 db-0"])
    assert past(ring, LEAD, b"db-9") == []


def test_it_is_bounded() -> None:
    ring = history(*(noted(part(), part(*range(MOST_FACTS + 5))) for _ in range(MOST + 5)))
    found = past(ring, LEAD, b"")
    assert len(found) == MOST
    assert found[0].added[-1] == "and 5 more"
    assert len(found[0].added) == MOST_FACTS + 1
