from __future__ import annotations

import pytest

from hsdns.plugins.timeouts import Timeouts
from tests.support.plugins.setup import set_up, setup_error


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


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param("timeouts", 'Corefile:2:1: "timeouts" is empty; give at least one of read, write, idle, maxtcpqueries', id="no-body"),
        pytest.param("timeouts {\n}", 'Corefile:2:1: "timeouts" is empty; give at least one of read, write, idle, maxtcpqueries', id="empty"),
        pytest.param("timeouts 5s {\nread 5s\n}", 'Corefile:2:10: "timeouts" takes no argument, found "5s"', id="argument"),
        pytest.param("timeouts {\nread\n}", 'Corefile:3:1: property "read" takes 1 argument, found 0', id="no-value"),
        pytest.param("timeouts {\nread 999ms\n}", "Corefile:3:6: 999ms is out of range, allowed is 1s to 86400s", id="too-short"),
        pytest.param("timeouts {\nread 0\n}", "Corefile:3:6: 0s is out of range, allowed is 1s to 86400s", id="zero"),
        pytest.param("timeouts {\nidle 24h1s\n}", "Corefile:3:6: 24h1s is out of range, allowed is 1s to 86400s", id="too-long"),
        pytest.param("timeouts {\nidle soon\n}", 'Corefile:3:6: "soon" is not a duration; write a number and a unit such as "5s"', id="word"),
        pytest.param("timeouts {\nmaxtcpqueries 0\n}", 'Corefile:3:15: "0" would allow no query; give 1 or more, or -1 for no limit', id="no-queries"),
        pytest.param("timeouts {\nmaxtcpqueries -2\n}", "Corefile:3:15: -2 is out of range, allowed is -1 or more", id="fewer"),
        pytest.param("timeouts {\nreads 5s\n}", 'Corefile:3:1: unknown property "reads" of timeouts; did you mean "read"?', id="unknown"),
    ],
)  # fmt: skip
def test_setup_errors(text: str, error: str) -> None:
    assert setup_error(Timeouts, text) == error
