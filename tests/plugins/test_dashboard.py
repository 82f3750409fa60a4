from __future__ import annotations

import pytest

from hsdns.plugins.dashboard import Dashboard
from tests.support.coroutines.eager import finish
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up, setup_error


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("dashboard 127.0.0.1:8079", ["127.0.0.1:8079"]),
        ("dashboard :8080", [":8080"]),
        ("dashboard [::1]:8079\ndashboard 127.0.0.1:8079", ["[::1]:8079", "127.0.0.1:8079"]),
    ],
)
def test_start(text: str, addresses: list[str]) -> None:
    runtime = FakeRuntime()
    finish(set_up(Dashboard, text).start(runtime))
    assert runtime.dashboards == addresses


def test_two_addresses_in_a_line() -> None:
    assert "Corefile:2:" in setup_error(Dashboard, "dashboard :1 :2")
