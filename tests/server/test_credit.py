from __future__ import annotations

import pytest

from hsdns.server.credit import (
    CONNECTION,
    CREDIT,
    CREDIT_A_SECOND,
    FRAME,
    MANY,
    MAX_CLIENTS,
    MAX_WAIT,
    OCTET,
    Credit,
)

MUCH = int(10 / FRAME)  # frames: 10 seconds


def test_connections_beyond_the_credit_begin_later_and_in_order() -> None:
    credit = Credit()
    waits = []
    while (wait := credit.connect("192.0.2.1", 100.0)) is not None:
        waits.append(wait)
    apart = CONNECTION / CREDIT_A_SECOND
    at_once = round(CREDIT / CONNECTION) + 1
    assert waits[:at_once] == pytest.approx([0.0] * at_once, abs=1e-9)
    later = [apart * number for number in range(1, len(waits) - at_once + 1)]
    assert waits[at_once:] == pytest.approx(later)
    assert waits[-1] == pytest.approx(MAX_WAIT, abs=apart)
    assert credit.connect("192.0.2.1", 100.0 + 2 * apart) == pytest.approx(MAX_WAIT, abs=3 * apart)
    assert credit.connect("192.0.2.2", 100.0) == 0.0
    assert credit.connect("192.0.2.1", 1000.0) == 0.0


@pytest.mark.parametrize(
    ("charged", "comes", "waits"),
    [
        pytest.param("192.0.2.1", "192.0.2.1", True, id="same"),
        pytest.param("192.0.2.1", "192.0.2.2", False, id="neighbour"),
        pytest.param("2001:db8::1", "2001:db8::1", True, id="same-IPv6"),
        pytest.param("2001:db8::1", "2001:db8::2", False, id="same-64"),
        pytest.param("192.0.2.1", "::ffff:192.0.2.1", True, id="mapped"),
        pytest.param("::ffff:192.0.2.1", "::ffff:192.0.2.2", False, id="mapped-neighbour"),
        pytest.param("fe80::1%eth0", "fe80::1%eth1", True, id="link-local"),
        pytest.param("fe80::1%eth0", "fe80::2%eth0", False, id="link-local-neighbour"),
    ],
)
def test_client_is_a_whole_address(charged: str, comes: str, waits: bool) -> None:
    """However much its connections have cost, the next one waits for MAX_WAIT at most and is not refused."""
    credit = Credit()
    for _ in range(3):
        credit.charge(charged, round(CREDIT / FRAME), 0, 100.0)
    assert credit.connect(comes, 100.0) == pytest.approx(MAX_WAIT if waits else 0.0)
    assert credit.connect(comes, 100.0 + MAX_WAIT + CREDIT / CREDIT_A_SECOND) == 0.0


def test_frames_and_octets_are_charged() -> None:
    credit = Credit()
    credit.charge("192.0.2.1", round((CREDIT + 0.03) / FRAME), round(0.02 / OCTET), 100.0)
    assert credit.connect("192.0.2.1", 100.0) == pytest.approx(0.05 / CREDIT_A_SECOND)


def test_many_addresses_of_a_network_have_one_credit() -> None:
    credit = Credit()
    for number in range(1, 1 + MANY):
        assert credit.connect("2001:db8::ffff", 100.0) == 0.0
        credit.charge(f"2001:db8::{number:x}", round(CREDIT / FRAME), 0, 100.0)
    wait = credit.connect("2001:db8::ffff", 100.0)
    assert wait is not None
    assert wait > 0
    credit.charge("2001:db8::ff", MANY * MUCH, 0, 100.0)
    assert credit.connect("2001:db8::eeee", 100.0) == pytest.approx(MAX_WAIT)
    assert credit.connect("2001:db8:0:1::1", 100.0) == 0.0
    assert credit.connect("192.0.2.1", 100.0) == 0.0


def test_memory_is_bounded() -> None:
    credit = Credit()
    for number in range(MAX_CLIENTS + 10):
        credit.charge(f"10.0.{number // 256}.{number % 256}", MUCH, 0, 1.0)
    assert len(credit._left) == MAX_CLIENTS
    assert credit.connect("10.0.0.9", 1.0) == 0.0
    assert credit.connect("10.0.0.11", 1.0) == pytest.approx(MAX_WAIT)
