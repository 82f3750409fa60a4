from __future__ import annotations

import pytest

from hsdns.plugins.whoami import Whoami
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, section
from tests.support.plugins.setup import set_up


@pytest.mark.parametrize(
    ("question", "additional"),
    [
        pytest.param(
            {"qname": "Example.org."},
            ["Example.org. 0 IN A 127.0.0.1", "_udp.Example.org. 0 IN SRV 0 0 40000 ."],
            id="ipv4-udp",
        ),
        pytest.param(
            {"qname": "example.org.", "qtype": "MX", "protocol": "tcp", "client": "2001:db8::7"},
            ["example.org. 0 IN AAAA 2001:db8::7", "_tcp.example.org. 0 IN SRV 0 0 40000 ."],
            id="ipv6-tcp-any-type",
        ),
        pytest.param(
            {"qname": "example.org.", "client": "fe80::1%eth0"},
            ["example.org. 0 IN AAAA fe80::1", "_udp.example.org. 0 IN SRV 0 0 40000 ."],
            id="link-local",
        ),
        pytest.param(
            {"qname": "."},
            [". 0 IN A 127.0.0.1", "_udp. 0 IN SRV 0 0 40000 ."],
            id="root",
        ),
        pytest.param(
            {"qname": "a" * 63 + "." + "b" * 63 + "." + "c" * 63 + "." + "d" * 60 + "."},
            ["a" * 63 + "." + "b" * 63 + "." + "c" * 63 + "." + "d" * 60 + ". 0 IN A 127.0.0.1"],
            id="no-room-for-the-port",
        ),
    ],
)
def test_whoami(question: dict[str, str], additional: list[str]) -> None:
    found = finish(set_up(Whoami, "whoami").handle(make_request(**question), next_with(Reply())))  # type: ignore[arg-type]  # all values of these rows are str
    assert found == Reply(rcode=Rcode.NOERROR, additional=found.additional, aa=True)
    assert section(found.additional) == additional


def test_records_have_the_class_of_the_question() -> None:
    found = finish(Whoami().handle(make_request("x.", qclass="CH"), next_with(Reply())))
    assert [record.rrclass for record in found.additional] == [3, 3]
