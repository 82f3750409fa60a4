from __future__ import annotations

import pytest

from hsdns.server.sent_away import MAX_CLIENTS, REFUSED_SECONDS, SentAway


@pytest.mark.parametrize(
    ("sent_away", "comes", "refused"),
    [
        pytest.param("192.0.2.1", "192.0.2.1", True, id="same"),
        pytest.param("192.0.2.1", "192.0.2.2", False, id="neighbour"),
        pytest.param("2001:db8::1", "2001:db8::ffff:2", True, id="same-64"),
        pytest.param("2001:db8::1", "2001:db8:0:1::1", False, id="other-64"),
        pytest.param("192.0.2.1", "::ffff:192.0.2.1", True, id="mapped"),
        pytest.param("::ffff:192.0.2.1", "::ffff:192.0.2.2", False, id="mapped-neighbour"),
        pytest.param("fe80::1%eth0", "fe80::2%eth0", True, id="link-local"),
    ],
)
def test_client(sent_away: str, comes: str, refused: bool) -> None:
    found = SentAway()
    found.add(sent_away, 100.0)
    assert found.refuses(comes, 100.0) == refused


def test_time() -> None:
    found = SentAway()
    found.add("192.0.2.1", 100.0)
    found.add("192.0.2.2", 105.0)
    found.add("192.0.2.1", 106.0)
    end = 105.0 + REFUSED_SECONDS
    assert found.refuses("192.0.2.2", end - 0.1)
    assert not found.refuses("192.0.2.2", end)
    assert found.refuses("192.0.2.1", end)
    assert not found.refuses("192.0.2.1", end + 1)


def test_memory_is_bounded() -> None:
    found = SentAway()
    for number in range(MAX_CLIENTS + 10):
        found.add(f"10.0.{number // 256}.{number % 256}", 1.0)
    assert not found.refuses("10.0.0.9", 2.0)
    assert found.refuses("10.0.0.10", 2.0)
    assert len(found._until) == MAX_CLIENTS
