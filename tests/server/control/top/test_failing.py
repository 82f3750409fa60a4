"""The names that fail."""

from __future__ import annotations

from hsdns.server.control.top import MOST_FAILING, failing
from tests.server.control.top.seen import TURN, seen
from tests.support.coroutines.eager import finish


def test_failing() -> None:
    found = [
        seen("ok.example NOERROR", time=1.0),
        seen("a.example NXDOMAIN", time=2.0),
        seen("A.example NXDOMAIN", time=4.0, weight=2.0),
        seen("a.example NXDOMAIN AAAA", time=3.0),
        seen("a.example SERVFAIL", time=5.0),
        seen("b.example -", time=6.0, weight=9.0),
        seen("vain.example NXDOMAIN", time=7.0),
    ]
    shown = finish(failing(found, {id(found[-1])}, TURN))
    assert [(each.name.to_text(), each.type, each.rcode, each.queries, each.last) for each in shown] == [
        ("b.example.", "A", "no reply", 9.0, 6.0),
        ("a.example.", "A", "NXDOMAIN", 3.0, 4.0),
        ("a.example.", "AAAA", "NXDOMAIN", 1.0, 3.0),
        ("a.example.", "A", "SERVFAIL", 1.0, 5.0),
    ]  # fmt: skip
    many = [seen(f"n{number}.example NXDOMAIN") for number in range(MOST_FAILING + 1)]
    assert len(finish(failing(many, set(), TURN))) == MOST_FAILING
