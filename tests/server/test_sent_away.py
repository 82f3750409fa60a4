from __future__ import annotations

import pytest

from hsdns.server.sent_away import (
    CREDIT,
    CREDIT_A_SECOND,
    FAULT,
    MAX_CLIENTS,
    REFUSED_SECONDS,
    SentAway,
)


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


def test_connections_of_a_client_are_bounded_in_a_time() -> None:
    found = SentAway()
    assert [found.admits("192.0.2.1", 100.0) for _ in range(CREDIT + 1)] == [True] * CREDIT + [
        False
    ]
    assert found.admits("192.0.2.2", 100.0)
    later = [found.admits("192.0.2.1", 101.0) for _ in range(CREDIT_A_SECOND + 1)]
    assert later == [True] * CREDIT_A_SECOND + [False]
    assert not found.refuses("192.0.2.1", 101.0), "it may come back as soon as it has credit"
    whole = [found.admits("192.0.2.1", 1000.0) for _ in range(CREDIT + 1)]
    assert whole == [True] * CREDIT + [False]


def test_client_with_fault_after_fault_is_sent_away() -> None:
    found = SentAway()
    for _ in range(CREDIT // FAULT):
        found.add_fault("2001:db8::1", 100.0)
        assert not found.refuses("2001:db8::1", 100.0)
    found.add_fault("2001:db8::2", 100.0)
    assert not found.admits("2001:db8::3", 100.0)
    assert not found.admits("2001:db8::3", 100.0 + REFUSED_SECONDS - 0.1)
    assert found.admits("2001:db8::3", 100.0 + REFUSED_SECONDS)
    assert found.admits("192.0.2.1", 100.0)


def test_credits_are_bounded() -> None:
    found = SentAway()
    for number in range(MAX_CLIENTS + 10):
        found.admits(f"10.0.{number // 256}.{number % 256}", 1.0)
    assert len(found._credit) == MAX_CLIENTS
