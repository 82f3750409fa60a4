from __future__ import annotations

from typing import Any

import pytest

from hsdns.plugins.python import fault, ttl_fault
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name

OWNER = Name.from_text("www.example.org.")
A = RR(OWNER, RRType.A, 30, b"\xc0\x00\x02\x01")


def changed(**fields: Any) -> RR:
    """Return the record with fields of any type."""
    return A._replace(**fields)


ANSWER = "returned a Reply whose answer[0]"


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        pytest.param(Reply(), "", id="empty"),
        pytest.param(Reply(dropped=True), "", id="dropped"),
        pytest.param(Reply(rcode=Rcode.NXDOMAIN, answer=(A, changed(ttl=2**31)), aa=True), "", id="records"),
        pytest.param(Reply(answer=[A]), "", id="a-list"),  # type: ignore[arg-type]  # it can be sent
        pytest.param(Reply(additional=(RR(OWNER, RRType.TXT, 0, b"\1x"),)), "", id="text"),
        pytest.param(None, "returned NoneType, not a Reply", id="nothing"),
        pytest.param(Reply(rcode="NXDOMAIN"), "returned a Reply with rcode 'NXDOMAIN'; write one such as Rcode.NXDOMAIN", id="rcode"),  # type: ignore[arg-type]  # wrong
        pytest.param(Reply(rcode=-1), "returned a Reply with rcode -1; write one such as Rcode.NXDOMAIN", id="negative-rcode"),
        pytest.param(Reply(answer=A), "returned a Reply whose answer is RR, not a tuple of records", id="one-record"),  # type: ignore[arg-type]  # wrong
        pytest.param(Reply(authority=None), "returned a Reply whose authority is NoneType, not a tuple of records", id="no-section"),  # type: ignore[arg-type]  # wrong
        pytest.param(Reply(answer=("192.0.2.1",)), f"{ANSWER} is str, not a record; make one with record()", id="text-as-record"),  # type: ignore[arg-type]  # wrong
        pytest.param(Reply(answer=(changed(owner="www."),)), f"{ANSWER} has the owner 'www.', not a Name; write Name.from_text(...)", id="owner"),
        pytest.param(Reply(answer=(changed(rrtype="A"),)), f"{ANSWER} has type 'A' and class 1; both are numbers, such as RRType.A", id="type"),
        pytest.param(Reply(answer=(changed(ttl=-5),)), f"{ANSWER} has TTL -5; a TTL is a whole number of seconds from 0 to 4294967295", id="negative-ttl"),
        pytest.param(Reply(answer=(changed(ttl=1.5),)), f"{ANSWER} has TTL 1.5; a TTL is a whole number of seconds from 0 to 4294967295", id="ttl-with-a-fraction"),
        pytest.param(Reply(answer=(changed(rdata="192.0.2.1"),)), f"{ANSWER} has rdata of str, not octets; make the record with record()", id="address-as-text"),
        pytest.param(Reply(answer=(changed(rdata=b"192.0.2.1"),)), f"{ANSWER} is of type A, whose address has 4 octets, and has 9; make the record with record()", id="address-of-text"),
        pytest.param(Reply(additional=(A, changed(rrtype=RRType.AAAA))), "returned a Reply whose additional[1] is of type AAAA, whose address has 16 octets, and has 4; make the record with record()", id="ipv4-as-aaaa"),
    ],
)  # fmt: skip
def test_faults(result: object, sentence: str) -> None:
    assert fault(result) == sentence


@pytest.mark.parametrize(("ttl", "is_right"), [(0, True), (2**32 - 1, True), (2**32, False), (-1, False), ("5", False)])  # fmt: skip
def test_ttl(ttl: object, is_right: bool) -> None:
    assert (ttl_fault(ttl) == "") is is_right
