from collections.abc import Sequence

import pytest

from hsdns.resolver.model import Packet, wire_of
from hsdns.testing import Cluster, ClusterError
from hsdns.testing.cluster import wait_answer

pytestmark = pytest.mark.sockets


class Clock:
    """Time that goes on when it is slept, and a change that comes at one time."""

    def __init__(self, cluster: Cluster, change_at: float) -> None:
        self.now = 0.0
        self.slept = 0
        self._cluster = cluster
        self._change_at = change_at

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += 1
        if self.now >= self._change_at and "10.0.0.3" not in self._cluster["web"].addresses:
            self._cluster["web"].endpoints("10.0.0.3")


@pytest.fixture
def web(cluster: Cluster) -> Cluster:
    cluster.service("web", headless=True).endpoints("10.0.0.1", "10.0.0.2")
    return cluster


def wait(cluster: Cluster, name: str, addresses: Sequence[str], clock: Clock) -> None:
    server = cluster.server
    wait_answer(server.ask, name, addresses, 0.05, clock, clock.sleep)


def test_it_does_not_wait_for_what_is_there(web: Cluster) -> None:
    clock = Clock(web, 1.0)
    wait(web, "web", ["10.0.0.2", "10.0.0.1"], clock)
    assert clock.slept == 0


def test_it_waits_for_a_change(web: Cluster) -> None:
    clock = Clock(web, 0.02)
    wait(web, "web", ["10.0.0.1", "10.0.0.2", "10.0.0.3"], clock)
    assert 0.02 <= clock.now < 0.03


@pytest.mark.parametrize(
    ("name", "addresses", "text"),
    [
        (
            "web", ["10.0.0.1"],
            "web has not 10.0.0.1 within 0.05 s; web.default.svc.cluster.local has these: 10.0.0.1 10.0.0.2",
        ),
        (
            "web", [],
            "web has not lost its addresses within 0.05 s; web.default.svc.cluster.local has these: 10.0.0.1 10.0.0.2",
        ),
        (
            "web", ["fd00::1"],
            "web has not fd00::1 within 0.05 s; web.default.svc.cluster.local has no address",
        ),
        (
            "wbe.cluster.local", ["10.0.0.1"],
            "wbe.cluster.local has not 10.0.0.1 within 0.05 s; no name exists: wbe.cluster.local NXDOMAIN",
        ),
    ],
)  # fmt: skip
def test_failure_shows_what_was_answered(web: Cluster, name: str, addresses: list[str], text: str) -> None:  # fmt: skip
    with pytest.raises(AssertionError) as raised:
        wait(web, name, addresses, Clock(web, 1.0))
    assert str(raised.value) == text


def test_bad_input(web: Cluster) -> None:
    with pytest.raises(ClusterError, match=r'takes the addresses to wait for, and "web-0" is none'):
        web.wait_answer("web", ["web-0"])
    with pytest.raises(ClusterError, match=r'".*" is not a name that can be looked up: '):
        web.wait_answer("a..b", ["10.0.0.1"])


def test_it_asks_as_over_tcp(web: Cluster) -> None:
    """No answer is cut to the size of a datagram."""
    web["web"].endpoints(*(f"10.0.{high}.{low}" for high in (1, 2) for low in range(200)))
    packet = Packet(0.0, "tcp", 0, "t1", 1, 1, "web.default.svc.cluster.local")
    reply = web.server.ask(wire_of(packet, 1))
    assert reply is not None
    assert len(reply) > 400 * 16
