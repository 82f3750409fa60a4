from __future__ import annotations

import pytest

from hsdns.plugins.any import Any
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply

BELOW = reply(["below. 1 IN A 192.0.2.1"])


@pytest.mark.parametrize("qtype", ["A", "HINFO", "AXFR", "TYPE254"])
def test_other_types_go_on(qtype: str) -> None:
    assert finish(Any().handle(make_request("x.", qtype), next_with(BELOW))) is BELOW
