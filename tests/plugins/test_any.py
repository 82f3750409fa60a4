from __future__ import annotations

import pytest

from hsdns.plugins.any import Any
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.setup import set_up

BELOW = reply(["below. 1 IN A 192.0.2.1"])


@pytest.mark.parametrize("qclass", ["IN", "CH"])
def test_any_gets_one_record_of_class_in(qclass: str) -> None:
    found = finish(
        set_up(Any, "any").handle(
            make_request("Www.example.org.", "ANY", qclass=qclass), next_with(BELOW)
        )
    )
    assert found == Reply(rcode=Rcode.NOERROR, answer=found.answer)
    assert section(found.answer) == [
        'Www.example.org. 8482 IN HINFO "ANY obsoleted" "See RFC 8482"'
    ]


@pytest.mark.parametrize("qtype", ["A", "HINFO", "AXFR", "TYPE254"])
def test_other_types_go_on(qtype: str) -> None:
    assert finish(Any().handle(make_request("x.", qtype), next_with(BELOW))) is BELOW
