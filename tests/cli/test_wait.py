"""The command against hsdns on loopback, and its loop over scripted servers and a scripted clock."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hsdns import cli
from hsdns.cli.wait import Count, Seen, wait_until_right
from hsdns.load.verify.judge import Answer
from hsdns.testing import Cluster
from hsdns.wire.iana import RRType
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name
from loadtest.ports import free_port

NAME = Name.from_text("web.shop.svc.cluster.local.")
ONE, TWO = bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2))


def reply(*addresses: bytes, rcode: int = 0) -> Reply:
    return Reply(rcode, tuple(RR(NAME, RRType.A, 5, each) for each in addresses))


def answer(*addresses: bytes, rcode: int = 0) -> Answer:
    return Answer(rcode, frozenset((int(RRType.A), each) for each in addresses))


class Clock:
    """Stands still but for the pauses."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def waited(
    *replies: Reply | str,
    count: Count | None = None,
    expected: Answer | None = None,
    has_objects: bool = False,
) -> tuple[Seen, float]:
    """The last look at a server that gives these replies, the last of them for ever, and the seconds it took."""
    left, clock = list(replies), Clock()
    (seen,), seconds = wait_until_right(
        ["x"],
        lambda server: left.pop(0) if len(left) > 1 else left[0],
        RRType.A,
        count,
        (lambda: expected) if has_objects else None,
        1.0,
        clock,
        clock.sleep,
    )
    return seen, round(seconds, 3)


@pytest.mark.parametrize(
    ("count", "replies", "is_right", "seconds"),
    [
        (Count(1, None), [reply(ONE)], True, 0.0),
        (Count(1, None), [reply(rcode=3), reply(), reply(ONE, TWO)], True, 0.2),
        (Count(2, 2), ["no reply", reply(ONE), reply(ONE, TWO)], True, 0.2),
        (Count(2, 2), [reply(ONE)], False, 1.0),
        (Count(1, 1), [reply(ONE, TWO)], False, 1.0),
        (Count(0, 0), [reply(ONE), reply(rcode=3)], True, 0.1),
        (Count(0, 0), [reply(rcode=2)], False, 1.0),
        (Count(1, None), ["no reply"], False, 1.0),
    ],
)
def test_numbers_of_records(
    count: Count, replies: list[Reply | str], is_right: bool, seconds: float
) -> None:
    seen, took = waited(*replies, count=count)
    assert (seen.is_right, took) == (is_right, seconds)


@pytest.mark.parametrize(
    ("expected", "replies", "is_right"),
    [
        (answer(ONE, TWO), [reply(ONE), reply(TWO, ONE)], True),
        (answer(ONE), [reply(TWO)], False),
        (answer(rcode=3), [reply(ONE), reply(rcode=3)], True),
        (None, [reply(ONE)], True),
        (None, [reply()], False),
    ],
)
def test_what_the_objects_say(
    expected: Answer | None, replies: list[Reply | str], is_right: bool
) -> None:
    assert waited(*replies, expected=expected, has_objects=True)[0].is_right == is_right


def test_where_the_objects_do_not_say_the_number_counts() -> None:
    assert waited(reply(ONE), count=Count(1, 1), has_objects=True)[0].is_right


def test_all_servers_must_be_right() -> None:
    replies = {"a": reply(ONE), "b": reply()}
    clock = Clock()
    seen, seconds = wait_until_right(
        ["a", "b"], replies.__getitem__, RRType.A, Count(1, None), None, 0.25, clock, clock.sleep
    )
    assert ([each.is_right for each in seen], round(seconds, 3)) == ([True, False], 0.25)


@pytest.fixture
def server(no_server: Path) -> Iterator[Cluster]:
    """A server with a headless Service, and a folder without control APIs."""
    with Cluster() as cluster:
        cluster.service("web", namespace="shop", headless=True).endpoints("10.0.0.1", "10.0.0.2")
        yield cluster


def run(server: Cluster, line: str) -> int:
    return cli.main(["wait", *line.split(), "-server", "127.0.0.1", "-p", str(server.port)])


@pytest.mark.sockets
def test_a_name_that_resolves(server: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(server, "web.shop.svc.cluster.local --count 2") == 0
    printed = capsys.readouterr().out
    assert printed.startswith("web.shop.svc.cluster.local. A of 127.0.0.1 port ")
    assert ": 2 records, after 0." in printed


@pytest.mark.sockets
def test_an_endpoint_that_comes_later(
    server: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It comes in the first pause."""

    def pause(seconds: float) -> None:
        server.service("late", namespace="shop", headless=True).endpoints("10.0.0.3")

    monkeypatch.setattr(time, "sleep", pause)
    assert run(server, "late.shop.svc.cluster.local -o json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["met"], found["wanted"], found["why"]) == (True, "1 or more", "")
    assert found["servers"][0]["records"] == ["10.0.0.3"]


MANIFEST = Path(__file__).with_name("wait.yaml").read_text()


@pytest.mark.sockets
@pytest.mark.slow
def test_manifests(server: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    Path("right.yaml").write_text(f"{MANIFEST}- addresses: [10.0.0.1]\n- addresses: [10.0.0.2]\n")
    assert run(server, "web.shop.svc.cluster.local --source manifests right.yaml") == 0
    Path("ready.yaml").write_text(
        f"{MANIFEST}- addresses: [10.0.0.1]\n- addresses: [10.0.0.2]\n  conditions: {{ready: false}}\n"
    )
    line = "web.shop.svc.cluster.local --source manifests ready.yaml --timeout 50ms"
    assert run(server, line) == 1
    lines = capsys.readouterr().out.splitlines()
    assert ": 2 records, wanted what the objects say, after 0." in lines[1]
    assert lines[2].startswith("the objects say: ")
    assert "1 of 2 endpoints" in lines[2]


PENDING = Path(__file__).with_name("wait_pending.yaml").read_text()


@pytest.mark.sockets
def test_a_name_that_the_objects_mean_is_waited_for(
    server: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("pending.yaml").write_text(PENDING)
    line = "late.shop.svc.cluster.local --source manifests pending.yaml --timeout 50ms"
    assert run(server, line) == 1
    printed = capsys.readouterr().out.splitlines()
    assert (
        printed[0].split(": ", 1)[1].startswith("NXDOMAIN, wanted what the objects say, after 0.")
    )
    assert printed[1:] == [
        "the objects say: NXDOMAIN: Service shop/late has no endpoints: pod late-0 is Pending: no node fits",
        "to do: kubectl -n shop describe pod late-0",
    ]
    assert run(server, f"{line} --count 0") == 0
    assert run(server, line.replace("late.shop", "gone.shop")) == 0


@pytest.mark.sockets
def test_over_tcp(server: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    """Without EDNS, 100 addresses fit into no datagram."""
    server.service("big", namespace="shop", headless=True).endpoints(*(f"10.0.1.{at}" for at in range(1, 101)))  # fmt: skip
    assert run(server, "big.shop.svc.cluster.local --count 100") == 0
    assert ": 100 records, after" in capsys.readouterr().out


@pytest.mark.sockets
@pytest.mark.parametrize("name", ["web", "web.shop"])
def test_nothing_listens(name: str, no_server: Path, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    words = ["wait", name, "-server", "127.0.0.1", "-p", str(port), "-timeout", "10ms"]
    assert cli.main(words) == 1
    assert f"nothing listens on UDP at 127.0.0.1 port {port}, wanted 1 or more" in capsys.readouterr().out  # fmt: skip
