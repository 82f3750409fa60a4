from __future__ import annotations

import pytest

from hsdns.plugins.timeouts import Timeouts
from tests.support.plugins.setup import set_up


@pytest.mark.parametrize(
    ("text", "read", "write", "idle", "queries"),
    [
        pytest.param("timeouts {\nread 5s\n}", 5, None, None, None, id="read"),
        pytest.param("timeouts {\nwrite 1m30s\n}", None, 90, None, None, id="write"),
        pytest.param("timeouts {\nidle 24h\n}", None, None, 86400, None, id="longest"),
        pytest.param("timeouts {\nread 1\n}", 1, None, None, None, id="seconds-without-a-unit"),
        pytest.param("timeouts {\nread 5s\nread 6s\n}", 6, None, None, None, id="last"),
        pytest.param("timeouts {\nread 5s\n}\ntimeouts {\nidle 6s\n}", 5, None, 6, None, id="two"),
        pytest.param("timeouts {\nmaxtcpqueries 1\n}", None, None, None, 1, id="queries"),
        pytest.param("timeouts {\nmaxtcpqueries -1\n}", None, None, None, -1, id="any-number"),
    ],
)
def test_setup(
    text: str, read: float | None, write: float | None, idle: float | None, queries: int | None
) -> None:
    plugin = set_up(Timeouts, text)
    assert (plugin.read, plugin.write, plugin.idle, plugin.max_queries) == (
        read, write, idle, queries,
    )  # fmt: skip
