"""Loops of forwarded queries: the probe of `loop`, and the search of `loop keep` for the upstreams that lead back."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

import pytest

from hsdns.plugins import loop
from hsdns.plugins.forward import Forward
from hsdns.plugins.loop import MAX_NAMES, RECHECK, RETRY_AFTER, Loop, probe_name
from hsdns.upstream.exchange import Upstream, UpstreamError
from hsdns.upstream.target import Target
from hsdns.wire.decode import WrongQuestion
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query, Reply, unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import directives, make_block, set_up
from tests.support.upstreams.dns_upstream import answer, serve

FOUND = Reply()
REFUSED = unwritten(Rcode.REFUSED)


class EndOfTest(Exception):
    """Ends a search that would go on."""


class Setup:
    """A `loop` and its `forward`; nothing waits, and the clock goes on by what they would have waited.

    `modes` says of each upstream whether it "loops", is "silent", "answers" or answers "wrong"; `on_sleep` is called with
    the seconds of each pause.
    """

    def __init__(
        self, text: str, *modes: str, zone: str = ".", forward: str = "forward . {}"
    ) -> None:
        self.modes = dict(zip((f"10.0.0.{place}:53" for place in range(2, 9)), modes, strict=False))
        self.plugin, self.runtime = set_up(Loop, text, [zone]), FakeRuntime()
        self.forward = set_up(Forward, forward.format(" ".join(self.modes) or "10.0.0.2"))
        self.replies, self.qnames, self.slept = list[Reply](), list[str](), list[float]()
        self.on_sleep: Callable[[float], None] = lambda seconds: None
        self.plugin.find_handlers([self.plugin, self.forward])
        for plugin in (self.forward, self.plugin):
            finish(plugin.start(self.runtime))

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.runtime.time += seconds
        self.on_sleep(seconds)

    async def ask(self, upstream: Upstream, query: Query, protocol: str, seconds: float) -> Reply:
        """In place of Upstream.ask()."""
        self.qnames.append(query.qname.to_text())
        mode = self.modes[str(upstream)]
        if mode == "silent":
            raise UpstreamError("no reply")
        if mode == "wrong":
            raise WrongQuestion("another one")
        if mode == "loops":
            self.replies.append(self.receive(self.qnames[-1]))
        return FOUND

    def receive(self, qname: str = "", qtype: str = "HINFO") -> Reply:
        """The reply to a query that comes back, by default the probe."""
        request = make_request(qname or self.plugin.qname.to_text(), qtype, client="192.0.2.7")
        return finish(self.plugin.handle(request, next_with(FOUND)))

    def search(self) -> None:
        """Begin the search, and run it to its end."""
        assert self.plugin.search is not None
        self.plugin.search.run(self.runtime)
        self.run_tasks()

    def run_tasks(self) -> None:
        for name in [each for each in self.runtime.spawned if each.startswith("loop: search")]:
            finish(self.runtime.spawned.pop(name))

    @property
    def disabled(self) -> list[bool]:
        return [upstream.loops for upstream in self.forward.routes[0].upstreams]

    def gauge(self) -> dict[str, float]:
        gauge = self.runtime.metrics.gauge("hsdns_loop_upstreams_left_out")
        return {labels[2]: value for labels, value in gauge.values.items()}


Make = Callable[..., Setup]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make a Setup whose pauses and upstreams are its own."""
    made: list[Setup] = []

    def make(text: str, *modes: str, **options: str) -> Setup:
        made.append(setup := Setup(text, *modes, **options))
        monkeypatch.setattr(loop, "sleep", setup.sleep)
        monkeypatch.setattr(Upstream, "ask", lambda *args: setup.ask(*args))
        return setup

    yield make
    for setup in made:
        for coro in setup.runtime.spawned.values():
            coro.close()


@pytest.mark.parametrize("zone", [".", "example.org."])
def test_probe_names_have_two_labels_of_digits(zone: str) -> None:
    origin = Name.from_text(zone)
    names = [probe_name(origin), probe_name(origin), set_up(Loop, "loop", [zone]).qname]
    assert len(set(names)) == 3
    labels = [name.below(origin) for name in names]
    assert [(len(each), all(label.isdigit() for label in each)) for each in labels] == [
        (2, True)
    ] * 3


# --- loop: the probe ---


def test_a_zone_that_is_too_long_for_the_probe() -> None:
    zone = ".".join(["a" * 63] * 3 + ["b" * 30]) + "."
    with pytest.raises(
        Exception, match=r"^Corefile:2:1: zone .* is too long for the names of loop's probes"
    ):
        set_up(Loop, "loop", [zone])


@pytest.mark.parametrize(
    ("server", "target"),
    [
        ("dns://:1053", "127.0.0.1:1053"),
        ("dns://192.0.2.1:53", "192.0.2.1:53"),
        ("dns://[2001:db8::1]:53", "[2001:db8::1]:53"),
    ],
)
def test_the_first_zone_and_the_first_address_are_probed(server: str, target: str) -> None:
    block = make_block(["example.org.", "example.net."])._replace(servers=(server, "dns://:9"))
    found = Loop.setup(directives("loop"), block)
    assert (found.zone.to_text(), str(found.target)) == ("example.org.", target)


def test_the_third_probe_received_ends_the_process(make: Make) -> None:
    setup = make("loop", zone="example.org.")
    probe = setup.plugin.qname.to_text()
    others = [setup.receive("1.2.example.org."), *(setup.receive(qtype="A") for _ in range(3))]
    assert [*others, setup.receive(), setup.receive()] == [FOUND] * 6
    assert setup.runtime.failures == []
    assert [setup.receive(probe.upper()) for _ in range(3)] == [unwritten(Rcode.SERVFAIL)] * 3
    assert setup.runtime.failures == [
        'plugin/loop: Loop (192.0.2.7:40000 -> 127.0.0.1:53) detected for zone "example.org.": the query "HINFO '
        f'{probe}", sent to detect loops, came back 2 times; an upstream of forward sends its queries back to this '
        "server; configure other upstreams, for example not a resolv.conf that points to a stub on this host, or "
        'write "loop keep" to disable looping upstreams'
    ]


def test_no_detection_after_stop(make: Make) -> None:
    setup = make("loop")
    finish(setup.plugin.stop())
    assert [setup.receive() for _ in range(5)] == [FOUND] * 5
    assert (setup.runtime.failures, setup.plugin.search, setup.plugin.remark()) == ([], None, "")


@pytest.mark.parametrize(
    ("replies", "slept", "watched"),
    [
        # The detection ends two seconds after a reply.
        ([True], [2.0], [True]),
        ([False, False, True], [1.0, 1.0, 2.0], [True] * 3),
        ([False] * 30, [1.0] * 30, [True] * 30),
    ],
)
def test_probes_are_sent_until_a_reply_for_half_a_minute(
    make: Make, monkeypatch: pytest.MonkeyPatch, replies: Sequence[bool], slept: list[float], watched: list[bool]
) -> None:  # fmt: skip
    setup, asked, watching = make("loop"), iter(replies), list[bool]()

    async def ask(plugin: Loop) -> bool:
        return next(asked)

    monkeypatch.setattr(Loop, "_ask", ask)

    def pause(seconds: float) -> None:
        watching.append(setup.plugin.is_watching)
        setup.receive()  # late, and not counted with those of the next probe

    setup.on_sleep = pause
    finish(setup.runtime.spawned.pop("loop: probe"))
    assert (setup.slept, watching, setup.plugin.is_watching) == (slept, watched, False)
    assert setup.runtime.failures == []


async def test_a_probe_is_a_query_to_the_own_socket() -> None:
    plugin = set_up(Loop, "loop")
    async with serve(answer(rcode=3)) as server:
        plugin.target = Target("dns", "127.0.0.1", server.port)
        assert await plugin._ask()
        assert all(
            plugin.qname.wire + RRType.HINFO.to_bytes(2, "big") in wire for wire in server.udp
        )
    assert not await plugin._ask(), "the socket is closed"


# --- loop keep: the search ---


def test_keep_answers_only_its_own_probe_and_searches_after_a_reply(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(plugin: Loop) -> bool:
        return True

    setup = make("loop keep", "answers")
    assert [setup.receive() for _ in range(5)] == [REFUSED] * 5
    assert [setup.receive("1.2.example.org."), setup.receive(qtype="A")] == [FOUND] * 2
    assert (setup.runtime.failures, setup.plugin.remark()) == ([], "")
    monkeypatch.setattr(Loop, "_ask", ask)
    finish(setup.runtime.spawned.pop("loop: probe"))
    assert list(setup.runtime.spawned) == ["loop: search through 10.0.0.2:53"]
    assert setup.slept == []


def test_an_upstream_that_answers_is_queried_once(make: Make) -> None:
    setup = make("loop keep", "answers", "wrong")
    setup.search()
    assert (setup.disabled, len(setup.qnames), setup.slept, setup.gauge()) == (
        [False, False],
        2,
        [],
        {},
    )
    assert setup.plugin.remark() == ""


def test_only_a_looping_upstream_is_disabled_until_it_answers(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """It stays disabled without a reply."""
    setup, seen = make("loop keep", "answers", "loops"), list[object]()

    def change(seconds: float) -> None:
        seen.append((setup.disabled, setup.plugin.remark(), setup.gauge()))
        setup.modes["10.0.0.3:53"] = ["loops", "silent", "answers"][len(seen) - 1]

    setup.on_sleep = change
    with caplog.at_level(logging.INFO, "hsdns"):
        setup.search()
    remark = "disabled, because queries sent to it come back to this server: 10.0.0.3:53"
    assert seen == [([False, True], remark, {"10.0.0.3:53": 1})] * 3
    assert (setup.slept, setup.replies) == ([RECHECK] * 3, [REFUSED] * 2)
    assert len(set(setup.qnames)) == 5, "a name is used once"
    assert (setup.disabled, setup.gauge(), setup.plugin.remark()) == (
        [False, False],
        {"10.0.0.3:53": 0},
        "",
    )
    assert caplog.messages == [
        'plugin/loop: Loop (192.0.2.7:40000 -> 127.0.0.1:53) detected for zone ".": a query sent to upstream '
        "10.0.0.3:53 came back to this server; it is disabled, the others stay enabled; configure another upstream, "
        "for example not a resolv.conf that points to a stub on this host",
        "plugin/loop: upstream 10.0.0.3:53 no longer sends queries back to this server; it is enabled again",
    ]


def test_a_silent_upstream_is_queried_for_half_a_minute(make: Make) -> None:
    setup = make("loop keep", "silent")
    setup.search()
    assert (setup.slept, setup.disabled) == ([RETRY_AFTER] * 30, [False])
    assert setup.plugin.search is not None
    assert len(setup.plugin.search._sent) == MAX_NAMES


def test_a_query_that_comes_back_late_is_a_loop(make: Make) -> None:
    setup = make("loop keep", "answers")
    setup.search()
    assert setup.receive(setup.qnames[0].upper()) == REFUSED
    assert setup.disabled == [True]
    setup.run_tasks()  # checked again, it answers
    assert setup.disabled == [False]


def test_stop_resets_the_metric(make: Make) -> None:
    setup, gauges = make("loop keep", "loops"), list[object]()

    def stop(seconds: float) -> None:
        gauges.append(list(setup.gauge().values()))
        finish(setup.plugin.stop())
        gauges.append(list(setup.gauge().values()))
        assert setup.plugin.remark() == ""
        raise EndOfTest

    setup.on_sleep = stop
    with pytest.raises(EndOfTest):
        setup.search()
    assert gauges == [[1], [0]]
