"""Records from a Service's value."""

import pytest

from hsdns.cluster.schema import PIECE, SVC, ParsedName, find, make_srv
from hsdns.cluster.value import HEADLESS, Node, PackedSlice, Port, ServiceValue
from hsdns.wire.message import RR
from hsdns.wire.name import Name

ZONE = Name.from_text("cluster.local")
ASKED = ParsedName(SVC, b"ns", b"db")
QNAME = Name.from_text("DB.ns.svc.cluster.local")
PART = PackedSlice("db-1", "1", 4, b"\n\0\0\1\n\0\0\2", b"\4db-0\0", (Port(b"sql", b"tcp", 5432),))


def srv_records(
    value: ServiceValue, node: Node, asked: ParsedName, qname: Name
) -> tuple[tuple[RR, ...], tuple[RR, ...]]:
    """The records, made in as many pieces as it takes."""
    for _ in make_srv(value, node, asked, qname, ZONE, 7):
        pass
    assert node.srv is not None
    return node.srv


def test_srv_records_of_many_endpoints_are_made_in_pieces() -> None:
    count = 4 * PIECE + 10
    part = PART._replace(
        addresses=b"".join((10 << 24 | n).to_bytes(4, "big") for n in range(count)), labels=None
    )
    value = ServiceValue(HEADLESS, "1", slices=(part,))
    node = find(value, ASKED, QNAME, 7)
    assert node is not None
    pieces = sum(1 for _ in make_srv(value, node, ASKED, QNAME, ZONE, 7))
    assert pieces == 2 * (count // PIECE)
    assert node.srv is not None
    assert [len(section) for section in node.srv] == [count, count]


@pytest.mark.parametrize("prefers", [False, True])
def test_names_with_a_topology_zone_that_a_client_made_up_are_not_cached(prefers: bool) -> None:
    part = PART._replace(topology_zones=(b"a", b""))
    value = ServiceValue(HEADLESS, "1", slices=(part,))
    word = "prefer" if prefers else "pin"
    for topology_zone in ("a", "b", "c", "d.e"):
        asked = ASKED._replace(topology_zone=topology_zone.encode(), prefers=prefers)
        qname = Name.from_text(f"{topology_zone}.{word}._zone.db.ns.svc.cluster.local")
        node = find(value, asked, qname, 7)
        assert node is not None
        assert len(node.a) == (1 if topology_zone == "a" else 2 if prefers else 0)
        assert len(srv_records(value, node, asked, qname)[0]) == len(node.a)
    assert list(value.nodes) == [Name.from_text(f"a.{word}._zone.db.ns.svc.cluster.local").lower]
