"""Names in a cluster zone."""

import pytest

from hsdns.cluster.question import SVC, ParsedName, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.pin._zone.web.ns.svc", ParsedName(SVC, b"ns", b"web", topology_zone=b"a")),
        (
            "a.prefer._zone.web.ns.svc",
            ParsedName(SVC, b"ns", b"web", topology_zone=b"a", prefers=True),
        ),
        ("eu.1.pin._zone.web.ns.svc", ParsedName(SVC, b"ns", b"web", topology_zone=b"eu.1")),
        ("a.stay._zone.web.ns.svc", None),
        ("a.pin.zone.web.ns.svc", None),
        ("a.pin._zone.1-2-3-4.ns.pod", None),
        ("pin._zone.web.ns.svc", ParsedName(SVC, b"ns", b"web", port=b"pin", protocol=b"zone")),
    ],
)
def test_parse_with_topology_zones(text: str, expected: ParsedName | None) -> None:
    labels = tuple(text.encode().split(b"."))
    assert parse(labels, zonal=True) == expected
    if len(labels) > 5:
        assert parse(labels) is None
        assert parse(labels, zonal=True, multicluster=True) is None


def test_a_dot_within_a_label_is_no_dot_of_a_topology_zone() -> None:
    found = parse((b"eu.1", b"pin", b"_zone", b"web", b"ns", b"svc"), zonal=True)
    assert found is not None
    assert found.topology_zone == b"eu\\.1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("e.web.ns.svc", ParsedName(SVC, b"ns", b"web", endpoint=b"e")),
        ("e.c.web.ns.svc", ParsedName(SVC, b"ns", b"web", endpoint=b"e", cluster=b"c")),
        ("_p.c.web.ns.svc", ParsedName(SVC, b"ns", b"web", port=b"p", protocol=b"c")),
        ("p._c.web.ns.svc", ParsedName(SVC, b"ns", b"web", port=b"p", protocol=b"c")),
        ("a.e.c.web.ns.svc", None),
    ],
)
def test_parse_with_clusters(text: str, expected: ParsedName | None) -> None:
    assert parse(tuple(text.encode().split(b".")), multicluster=True) == expected
