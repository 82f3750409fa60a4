"""Names in a cluster zone."""

import pytest

from hsdns.cluster.question import EMPTY, POD, SVC, Asked, parse


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", EMPTY),
        ("svc", EMPTY),
        ("pod", EMPTY),
        ("other", None),
        ("ns.other", None),
        ("ns.svc", Asked(SVC, b"ns")),
        ("ns.pod", Asked(POD, b"ns")),
        ("web.ns.svc", Asked(SVC, b"ns", b"web")),
        ("ep.web.ns.svc", Asked(SVC, b"ns", b"web", endpoint=b"ep")),
        ("_tcp.web.ns.svc", Asked(SVC, b"ns", b"web", endpoint=b"_tcp")),
        ("_http._tcp.web.ns.svc", Asked(SVC, b"ns", b"web", port=b"http", protocol=b"tcp")),
        ("http.tcp.web.ns.svc", Asked(SVC, b"ns", b"web", port=b"http", protocol=b"tcp")),
        ("__http._.web.ns.svc", Asked(SVC, b"ns", b"web", port=b"_http", protocol=b"")),
        ("a.b.c.web.ns.svc", None),
        ("a.b.1-2-3-4.ns.pod", Asked(POD, b"ns", b"1-2-3-4", port=b"a", protocol=b"b")),
    ],
)
def test_parse(text: str, expected: Asked | None) -> None:
    labels = tuple(text.encode().split(b".")) if text else ()
    assert parse(labels) == expected
