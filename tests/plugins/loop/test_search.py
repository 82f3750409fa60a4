from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Self

import dns.message
import pytest

from hsdns.plugins.forward import Forward
from hsdns.plugins.loop import Loop
from hsdns.plugins.loop import search as search_module
from hsdns.plugins.loop.search import RECHECK, RETRY_AFTER, probe_name
from hsdns.upstream.exchange import Upstream
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.upstreams.dns_upstream import answer, serve

REFUSED = answer(rcode=Rcode.REFUSED)


class Circle:
    """Upstreams behind a `loop keep` and its `forward`: each leads back here, is silent or answers.

    `ways` says which one does what: "back", "silent" or "well"; sleep() changes nothing but the scripted time, and
    calls `on_sleep` with the seconds.
    """

    def __init__(self, ways: list[str], zone: str = ".", forward: str = "forward . {}") -> None:
        self.ways = ways
        self.plugin = set_up(Loop, "loop keep", [zone])
        self.runtime = FakeRuntime()
        self.visits: list[Reply] = []
        self.qnames: list[str] = []
        self.slept: list[float] = []
        self.on_sleep: Callable[[float], None] = lambda seconds: None
        self._forward_text = forward
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        stack = self._stack
        await stack.enter_async_context(asyncio.timeout(10))
        servers = [
            await stack.enter_async_context(serve(self._script(place)))
            for place in range(len(self.ways))
        ]
        self.ports = [server.port for server in servers]
        text = self._forward_text.format(" ".join(f"127.0.0.1:{port}" for port in self.ports))
        self.forward = set_up(Forward, text)
        self.forward.routes[0].manner = self.forward.routes[0].manner._replace(read_timeout=0.05)
        self.plugin.meet([self.plugin, self.forward])
        await self.forward.start(self.runtime)
        stack.push_async_callback(self.runtime.stop_tasks)
        stack.push_async_callback(self.forward.stop)
        return self

    async def __aexit__(self, *details: object) -> None:
        await self._stack.aclose()

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        return self.forward.routes[0].upstreams

    @property
    def left_out(self) -> list[bool]:
        return [upstream.loops for upstream in self.upstreams]

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.runtime.time += seconds
        self.on_sleep(seconds)
        await asyncio.sleep(0)

    async def search(self) -> None:
        """Search until nothing goes on any more."""
        assert self.plugin.search is not None
        self.plugin.search.run(self.runtime)
        await asyncio.gather(*self.runtime.tasks.values())

    def visit(self, qname: str) -> Reply:
        """What the plugin says to a query that an upstream sends back."""
        request = make_request(qname, "HINFO", client="192.0.2.7")
        return finish(self.plugin.handle(request, next_with(Reply())))

    def gauge(self) -> dict[str, float]:
        gauge = self.runtime.metrics.gauge("hsdns_loop_upstreams_left_out", "")
        return {labels[2]: value for labels, value in gauge.values.items()}

    def _script(self, place: int) -> Callable[[bytes], list[bytes]]:
        def script(wire: bytes) -> list[bytes]:
            qname = dns.message.from_wire(wire).question[0].name.to_text()
            self.qnames.append(qname)
            if self.ways[place] == "silent":
                return []
            if self.ways[place] == "back":
                self.visits.append(self.visit(qname))
            return REFUSED(wire)

        return script


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unscripted(seconds: float) -> None:
        raise AssertionError(f"nobody scripted a sleep of {seconds} s")

    monkeypatch.setattr(search_module, "sleep", unscripted)


def test_probe_names() -> None:
    zone = Name.from_text("example.org.")
    names = {probe_name(zone) for _ in range(3)}
    assert len(names) == 3
    for name in names:
        labels = name.below(zone)
        assert len(labels) == 2
        assert all(label.isdigit() for label in labels)


def test_an_upstream_that_answers_is_asked_once() -> None:
    async def run() -> None:
        async with Circle(["well", "well"]) as circle:
            await circle.search()
            assert circle.left_out == [False, False]
            assert (len(circle.qnames), circle.slept, circle.gauge()) == (2, [], {})
            assert circle.plugin.remark() == ""

    asyncio.run(run())


def test_only_the_upstream_that_leads_back_is_left_out_until_it_does_no_more(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with Circle(["well", "back"]) as circle:
            monkeypatch.setattr(search_module, "sleep", circle.sleep)
            seen: list[tuple[list[bool], str, dict[str, float]]] = []
            address = f"127.0.0.1:{circle.ports[1]}"

            def mend(seconds: float) -> None:
                seen.append((circle.left_out, circle.plugin.remark(), circle.gauge()))
                if len(seen) == 2:
                    circle.ways[1] = "silent"  # no reply says nothing
                if len(seen) == 3:
                    circle.ways[1] = "well"

            circle.on_sleep = mend
            with caplog.at_level(logging.INFO, "hsdns"):
                await circle.search()
            remark = f"disabled, because queries sent to it come back to this server: {address}"
            assert seen == [([False, True], remark, {address: 1})] * 3
            assert circle.slept == [RECHECK] * 3
            assert circle.visits == [unwritten(Rcode.REFUSED)] * 2
            assert len(set(circle.qnames)) == 5  # a name is used once
            assert (circle.left_out, circle.gauge()) == ([False, False], {address: 0})
            assert circle.plugin.remark() == ""
            assert [record.getMessage() for record in caplog.records] == [
                f'plugin/loop: Loop (192.0.2.7:40000 -> 127.0.0.1:53) detected for zone ".": a query sent to upstream '
                f"{address} came back to this server; it is disabled, the others stay enabled; configure another upstream, "
                "for example not a resolv.conf that points to a stub on this host",
                f"plugin/loop: upstream {address} no longer sends queries back to this server; it is enabled again",
            ]

    asyncio.run(run())


def test_an_upstream_without_reply_is_asked_for_half_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        async with Circle(["silent"]) as circle:
            monkeypatch.setattr(search_module, "sleep", circle.sleep)
            monkeypatch.setattr(search_module, "REPLY_TIMEOUT", 0.001)
            await circle.search()
            assert circle.slept == [RETRY_AFTER] * 30
            assert circle.left_out == [False]
            assert circle.plugin.search is not None
            assert len(circle.plugin.search._asked) == search_module.MAX_NAMES

    asyncio.run(run())


def test_a_name_that_comes_late_is_a_loop_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with Circle(["well"]) as circle:
            monkeypatch.setattr(search_module, "sleep", circle.sleep)
            await circle.search()
            assert circle.visit(circle.qnames[0].upper()) == unwritten(Rcode.REFUSED)
            assert circle.left_out == [True]
            await asyncio.gather(*circle.runtime.tasks.values())  # asked anew, it answers
            assert circle.left_out == [False]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("zone", "forward", "suffix"),
    [
        pytest.param(".", "forward . {}", (), id="all"),
        pytest.param("example.org.", "forward . {}", ("example", "org"), id="block-s-zone"),
        pytest.param(".", "forward a.example {}", ("a", "example"), id="route-s-zone"),
        pytest.param("example.org.", "forward a.example {}", ("example", "org"), id="other-zone"),
    ],
)
def test_names_lie_in_the_zone_that_is_forwarded(
    zone: str, forward: str, suffix: tuple[str, ...]
) -> None:
    async def run() -> None:
        async with Circle(["well"], zone, forward) as circle:
            await circle.search()
            (qname,) = circle.qnames
            assert tuple(qname.rstrip(".").split(".")[2:]) == suffix

    asyncio.run(run())


def test_stop_counts_nothing_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with Circle(["back"]) as circle:
            stopped = asyncio.Event()

            async def sleep(seconds: float) -> None:
                stopped.set()
                await asyncio.Event().wait()

            monkeypatch.setattr(search_module, "sleep", sleep)
            search = asyncio.create_task(circle.search())
            await stopped.wait()
            assert list(circle.gauge().values()) == [1]
            await circle.plugin.stop()
            assert list(circle.gauge().values()) == [0]
            assert circle.plugin.remark() == ""
            search.cancel()

    asyncio.run(run())
