import pytest

from hsdns.wire.encode import MAX_TCP_LEN, encode
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Query, Reply
from hsdns.wire.name import Name
from loadtest.pressure.judge import addresses_of

NAME, ALIAS = Name.from_text("web-0.team-0.svc.cluster.local"), Name.from_text("alias.example")
QUERY = Query.ask(NAME, RRType.A)
FIRST, SECOND = (RR(NAME, RRType.A, 30, bytes((10, 0, 0, last))) for last in (1, 2))
OTHER = RR(NAME, RRType.CNAME, 30, ALIAS.wire)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (Reply(answer=(FIRST, SECOND)), {"10.0.0.1", "10.0.0.2"}),
        (Reply(answer=(OTHER, FIRST)), {"10.0.0.1"}),
        (Reply(answer=(FIRST,), additional=(SECOND,)), {"10.0.0.1"}),
        (Reply(), None),
        (Reply(Rcode.SERVFAIL, answer=(FIRST,)), None),
        (Reply(answer=(FIRST,), tc=True), None),
    ],
)
def test_addresses(reply: Reply, expected: set[str] | None) -> None:
    found = addresses_of(encode(QUERY, reply, MAX_TCP_LEN))
    assert found == (None if expected is None else frozenset(expected))


def test_names_may_be_written_out() -> None:
    header = bytes((0, 0, 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0))
    record = NAME.wire + bytes((0, 1, 0, 1, 0, 0, 0, 30, 0, 4)) + bytes((10, 0, 0, 1))
    assert addresses_of(header + QUERY.question_wire + record) == frozenset({"10.0.0.1"})
