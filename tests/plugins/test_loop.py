from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Self

import dns.message
import pytest

from hsdns.plugin import Block
from hsdns.plugins import loop
from hsdns.plugins import loop as search_module
from hsdns.plugins.forward import Forward
from hsdns.plugins.loop import RECHECK, RETRY_AFTER, Loop, probe_name
from hsdns.upstream.exchange import Upstream
from hsdns.upstream.target import Target
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Reply, unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.coroutines.scripted_timeouts import script_timeouts, silence_until_timeout
from tests.support.plugins.requests import make_request, next_with
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block, set_up
from tests.support.upstreams.dns_upstream import Answer, answer, serve

REFUSED = answer(rcode=Rcode.REFUSED)
SILENCE = silence_until_timeout(search_module.REPLY_TIMEOUT)


class SearchSetup:
    """A `loop keep` and its `forward` with upstreams that loop, do not reply, or answer.

    `modes` has "loops", "silent" or "answers" for each; sleep() only advances the scripted clock and calls
    `on_sleep` with the seconds.
    """

    def __init__(self, modes: list[str], zone: str = ".", forward: str = "forward . {}") -> None:
        self.modes = modes
        self.plugin = set_up(Loop, "loop keep", [zone])
        self.runtime = FakeRuntime()
        self.replies: list[Reply] = []
        self.qnames: list[str] = []
        self.slept: list[float] = []
        self.on_sleep: Callable[[float], None] = lambda seconds: None
        self._forward_text = forward
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        stack = self._stack
        servers = [
            await stack.enter_async_context(serve(self._script(place)))
            for place in range(len(self.modes))
        ]
        self.ports = [server.port for server in servers]
        text = self._forward_text.format(" ".join(f"127.0.0.1:{port}" for port in self.ports))
        self.forward = set_up(Forward, text)
        self.plugin.find_handlers([self.plugin, self.forward])
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
    def disabled(self) -> list[bool]:
        return [upstream.loops for upstream in self.upstreams]

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.runtime.time += seconds
        self.on_sleep(seconds)
        await asyncio.sleep(0)

    async def search(self) -> None:
        """Run the search to its end."""
        assert self.plugin.search is not None
        self.plugin.search.run(self.runtime)
        await asyncio.gather(*self.runtime.tasks.values())

    def receive(self, qname: str) -> Reply:
        """Return the plugin's reply to a query that an upstream sends back."""
        request = make_request(qname, "HINFO", client="192.0.2.7")
        return finish(self.plugin.handle(request, next_with(Reply())))

    def gauge(self) -> dict[str, float]:
        gauge = self.runtime.metrics.gauge("hsdns_loop_upstreams_left_out", "")
        return {labels[2]: value for labels, value in gauge.values.items()}

    def _script(self, place: int) -> Callable[[bytes], list[bytes]]:
        def script(wire: bytes) -> list[bytes]:
            qname = dns.message.from_wire(wire).question[0].name.to_text()
            self.qnames.append(qname)
            if self.modes[place] == "silent":
                return SILENCE(wire)
            if self.modes[place] == "loops":
                self.replies.append(self.receive(qname))
            return REFUSED(wire)

        return script


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unscripted(seconds: float) -> None:
        raise AssertionError(f"unscripted sleep of {seconds} s")

    monkeypatch.setattr(search_module, "sleep", unscripted)
    script_timeouts(monkeypatch)


def test_probe_names() -> None:
    zone = Name.from_text("example.org.")
    names = {probe_name(zone) for _ in range(3)}
    assert len(names) == 3
    for name in names:
        labels = name.below(zone)
        assert len(labels) == 2
        assert all(label.isdigit() for label in labels)


def test_an_upstream_that_answers_is_queried_once() -> None:
    async def run() -> None:
        async with SearchSetup(["answers", "answers"]) as setup:
            await setup.search()
            assert setup.disabled == [False, False]
            assert (len(setup.qnames), setup.slept, setup.gauge()) == (2, [], {})
            assert setup.plugin.remark() == ""

    asyncio.run(run())


def test_only_a_looping_upstream_is_disabled_until_it_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with SearchSetup(["answers", "loops"]) as setup:
            monkeypatch.setattr(search_module, "sleep", setup.sleep)
            seen: list[tuple[list[bool], str, dict[str, float]]] = []
            address = f"127.0.0.1:{setup.ports[1]}"

            def repair(seconds: float) -> None:
                seen.append((setup.disabled, setup.plugin.remark(), setup.gauge()))
                if len(seen) == 2:
                    setup.modes[1] = "silent"  # stays disabled without a reply
                if len(seen) == 3:
                    setup.modes[1] = "answers"

            setup.on_sleep = repair
            with caplog.at_level(logging.INFO, "hsdns"):
                await setup.search()
            remark = f"disabled, because queries sent to it come back to this server: {address}"
            assert seen == [([False, True], remark, {address: 1})] * 3
            assert setup.slept == [RECHECK] * 3
            assert setup.replies == [unwritten(Rcode.REFUSED)] * 2
            assert len(set(setup.qnames)) == 5  # a name is used once
            assert (setup.disabled, setup.gauge()) == ([False, False], {address: 0})
            assert setup.plugin.remark() == ""
            assert [record.getMessage() for record in caplog.records] == [
                f'plugin/loop: Loop (192.0.2.7:40000 -> 127.0.0.1:53) detected for zone ".": a query sent to upstream '
                f"{address} came back to this server; it is disabled, the others stay enabled; configure another upstream, "
                "for example not a resolv.conf that points to a stub on this host",
                f"plugin/loop: upstream {address} no longer sends queries back to this server; it is enabled again",
            ]

    asyncio.run(run())


def test_a_silent_upstream_is_queried_for_half_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        async with SearchSetup(["silent"]) as setup:
            monkeypatch.setattr(search_module, "sleep", setup.sleep)
            await setup.search()
            assert setup.slept == [RETRY_AFTER] * 30
            assert setup.disabled == [False]
            assert setup.plugin.search is not None
            assert len(setup.plugin.search._sent) == search_module.MAX_NAMES

    asyncio.run(run())


def test_a_query_that_comes_back_late_is_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with SearchSetup(["answers"]) as setup:
            monkeypatch.setattr(search_module, "sleep", setup.sleep)
            await setup.search()
            assert setup.receive(setup.qnames[0].upper()) == unwritten(Rcode.REFUSED)
            assert setup.disabled == [True]
            await asyncio.gather(*setup.runtime.tasks.values())  # checked again, it answers
            assert setup.disabled == [False]

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
def test_names_are_in_the_forwarded_zone(zone: str, forward: str, suffix: tuple[str, ...]) -> None:
    async def run() -> None:
        async with SearchSetup(["answers"], zone, forward) as setup:
            await setup.search()
            (qname,) = setup.qnames
            assert tuple(qname.rstrip(".").split(".")[2:]) == suffix

    asyncio.run(run())


def test_stop_resets_the_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with SearchSetup(["loops"]) as setup:
            stopped = asyncio.Event()

            async def sleep(seconds: float) -> None:
                stopped.set()
                await asyncio.Event().wait()

            monkeypatch.setattr(search_module, "sleep", sleep)
            search = asyncio.create_task(setup.search())
            await stopped.wait()
            assert list(setup.gauge().values()) == [1]
            await setup.plugin.stop()
            assert list(setup.gauge().values()) == [0]
            assert setup.plugin.remark() == ""
            search.cancel()

    asyncio.run(run())


FOUND = Reply()


def test_zone_too_long_for_the_probe() -> None:
    zone = ".".join(["a" * 63] * 3 + ["b" * 30]) + "."
    with pytest.raises(
        Exception, match=r"^Corefile:2:1: zone .* is too long for the names of loop's probes"
    ):
        set_up(Loop, "loop", [zone])


@pytest.mark.parametrize(
    ("server", "target"),
    [
        ("dns://:53", "127.0.0.1:53"),
        ("dns://:1053", "127.0.0.1:1053"),
        ("dns://192.0.2.1:53", "192.0.2.1:53"),
        ("dns://[2001:db8::1]:53", "[2001:db8::1]:53"),
    ],
)
def test_first_zone_and_first_address_are_probed(server: str, target: str) -> None:
    block: Block = make_block(["example.org.", "example.net."])._replace(
        servers=(server, "dns://:9")
    )
    found = Loop.setup(directives("loop"), block)
    assert found.zone == Name.from_text("example.org.")
    assert str(found.target) == target


def test_probe_name_has_two_labels_of_digits() -> None:
    first, second = (set_up(Loop, "loop", ["example.org."]).qname for _ in range(2))
    assert first != second
    labels = first.below(Name.from_text("example.org."))
    assert len(labels) == 2
    assert all(label.isdigit() for label in labels)


def started() -> tuple[Loop, FakeRuntime]:
    plugin, runtime = set_up(Loop, "loop"), FakeRuntime()
    finish(plugin.start(runtime))
    for coro in runtime.spawned.values():
        coro.close()
    return plugin, runtime


def probed(plugin: Loop, times: int, qname: str | None = None, qtype: str = "HINFO") -> list[Reply]:
    replies: list[Reply] = []
    for _ in range(times):
        request = make_request(qname or plugin.qname.to_text(), qtype, client="192.0.2.7")
        replies.append(finish(plugin.handle(request, next_with(FOUND))))
    return replies


def test_the_third_probe_received_ends_the_process() -> None:
    plugin, runtime = started()
    assert probed(plugin, 2) == [FOUND] * 2
    assert runtime.failures == []
    assert probed(plugin, 3) == [unwritten(Rcode.SERVFAIL)] * 3
    assert runtime.failures == [
        'plugin/loop: Loop (192.0.2.7:40000 -> 127.0.0.1:53) detected for zone ".": the query "HINFO '
        f'{plugin.qname.to_text()}", sent to detect loops, came back 2 times; an upstream of forward sends its '
        "queries back to this server; configure other upstreams, for example not a resolv.conf that points to a stub "
        'on this host, or write "loop keep" to disable looping upstreams'
    ]


@pytest.mark.parametrize(
    ("qname", "qtype"),
    [
        pytest.param("1.2.example.org.", "HINFO", id="other-name"),
        pytest.param(None, "A", id="other-type"),
    ],
)
def test_other_queries_do_not_count(qname: str | None, qtype: str) -> None:
    plugin, runtime = started()
    assert probed(plugin, 5, qname, qtype) == [FOUND] * 5
    assert probed(plugin, 2) == [FOUND] * 2
    assert runtime.failures == []


def test_the_case_of_the_probe_name_does_not_matter() -> None:
    plugin, runtime = set_up(Loop, "loop", ["example.org."]), FakeRuntime()
    finish(plugin.start(runtime))
    for coro in runtime.spawned.values():
        coro.close()
    probed(plugin, 3, plugin.qname.to_text().upper())
    assert len(runtime.failures) == 1


def test_no_detection_after_stop() -> None:
    plugin, runtime = started()
    finish(plugin.stop())
    assert probed(plugin, 5) == [FOUND] * 5
    assert runtime.failures == []


class FakeSleep:
    """Replaces asyncio.sleep: advances the scripted clock, and records the seconds."""

    def __init__(self, runtime: FakeRuntime, plugin: Loop) -> None:
        self.runtime, self.plugin, self.seconds = runtime, plugin, list[float]()
        self.watching: list[bool] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        self.watching.append(self.plugin.is_watching)
        self.runtime.time += seconds


async def probe(script: Answer, monkeypatch: pytest.MonkeyPatch) -> tuple[FakeSleep, list[bytes]]:
    async with serve(script) as server:
        plugin, runtime = set_up(Loop, "loop"), FakeRuntime()
        plugin.target = Target("dns", "127.0.0.1", server.port)
        slept = FakeSleep(runtime, plugin)
        monkeypatch.setattr(loop, "sleep", slept)
        await plugin.start(runtime)
        await runtime.tasks["loop: probe"]
        assert not plugin.is_watching
        assert all(
            plugin.qname.wire + RRType.HINFO.to_bytes(2, "big") in wire for wire in server.udp
        )
        return slept, server.udp


def test_the_detection_ends_two_seconds_after_a_reply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept, seen = asyncio.run(probe(answer(rcode=3), monkeypatch))
    assert len(seen) == 1
    assert (slept.seconds, slept.watching) == ([2.0], [True])


def test_probes_are_sent_for_half_a_minute_without_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    script_timeouts(monkeypatch)
    slept, seen = asyncio.run(probe(silence_until_timeout(loop.REPLY_TIMEOUT), monkeypatch))
    assert len(seen) == 30
    assert slept.seconds == [1.0] * 30


def test_probes_are_repeated_until_the_socket_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with serve() as server:
            port = server.port
        plugin, runtime = set_up(Loop, "loop"), FakeRuntime()
        plugin.target = Target("dns", "127.0.0.1", port)
        monkeypatch.setattr(loop, "sleep", FakeSleep(runtime, plugin))
        await plugin.start(runtime)
        await runtime.tasks["loop: probe"]
        assert runtime.failures == []
        assert runtime.time == 30.0

    asyncio.run(run())


# --- loop keep ---


def test_keep_answers_only_its_own_probe() -> None:
    plugin, runtime = set_up(Loop, "loop keep"), FakeRuntime()
    finish(plugin.start(runtime))
    for coro in runtime.spawned.values():
        coro.close()
    assert probed(plugin, 5) == [unwritten(Rcode.REFUSED)] * 5
    assert probed(plugin, 1, "1.2.example.org.") == [FOUND]
    assert probed(plugin, 1, None, "A") == [FOUND]
    assert (runtime.failures, plugin.remark()) == ([], "")


def test_keep_searches_after_a_reply_from_its_own_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with serve(answer(rcode=5)) as own, serve(answer(rcode=3)) as server:
            plugin, runtime = set_up(Loop, "loop keep"), FakeRuntime()
            forward = set_up(Forward, f"forward . 127.0.0.1:{server.port}")
            plugin.find_handlers([plugin, forward])
            plugin.target = Target("dns", "127.0.0.1", own.port)
            slept = FakeSleep(runtime, plugin)
            monkeypatch.setattr(loop, "sleep", slept)
            await plugin.start(runtime)
            await forward.start(runtime)
            await runtime.tasks["loop: probe"]
            await runtime.tasks[f"loop: search through 127.0.0.1:{server.port}"]
            assert slept.seconds == []
            assert (len(own.udp), len(server.udp)) == (1, 1)
            await forward.stop()
            await plugin.stop()

    asyncio.run(run())


def test_no_search_without_keep() -> None:
    plugin = set_up(Loop, "loop")
    plugin.find_handlers([plugin])
    assert (plugin.search, plugin.remark()) == (None, "")
