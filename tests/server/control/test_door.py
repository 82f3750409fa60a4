"""What pages may read where nothing serves."""

from __future__ import annotations

import pytest

from hsdns.http_page import HttpRefusal
from hsdns.metrics import Registry
from hsdns.server.control.door import Door, to_line
from hsdns.server.query_tap import QueryTap


def test_while_nothing_serves() -> None:
    metrics = Registry()
    queries = QueryTap(lambda: 7.0, lambda: 0.0)
    door = Door(lambda: None, lambda: 7.0, lambda: 0.0, queries, metrics)
    with pytest.raises(
        HttpRefusal, match="the server starts or ends, and has no answers"
    ) as caught:
        door.serving()
    assert caught.value.status == 503
    assert door.began == 7.0


def test_a_line_is_one_line() -> None:
    assert to_line({"name": "a\nb"}) == b'{"name":"a\\nb"}\n'
