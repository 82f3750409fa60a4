from __future__ import annotations

from hsdns.plugins.whoami import Whoami
from hsdns.wire.message import Reply
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with


def test_records_have_the_class_of_the_question() -> None:
    found = finish(Whoami().handle(make_request("x.", qclass="CH"), next_with(Reply())))
    assert [record.rrclass for record in found.additional] == [3, 3]
