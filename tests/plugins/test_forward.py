from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from hsdns.corefile.tree import CorefileError
from hsdns.plugins.forward import Forward
from hsdns.upstream.exchange import PROBE_TIMEOUT
from hsdns.upstream.target import HostTarget
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Reply, unwritten
from tests.support.coroutines.scripted_timeouts import expire_timeouts, script_timeouts
from tests.support.plugins.requests import make_request, next_with, reply, section
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.upstreams.certificate import make_certificate
from tests.support.upstreams.dns_upstream import Answer, Upstream, answer, serve
from tests.support.upstreams.doh_upstream import serve_doh


def test_a_file_may_name_more_upstreams_than_words_are_allowed(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("".join(f"nameserver 10.0.0.{k}\n" for k in range(1, 21)))
    (route,) = set_up(Forward, f"forward . {path}").routes
    assert len(route.targets) == 20


def test_resolv_conf(tmp_path: Path) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text("search example.org\nnameserver 10.0.0.2\nnameserver 10.0.0.3\n")
    (route,) = set_up(Forward, f"forward . {path} 10.0.0.3").routes
    assert [str(target) for target in route.targets] == ["10.0.0.2:53", "10.0.0.3:53"]


def test_contexts_are_those_of_the_transports() -> None:
    text = "forward . tls://10.0.0.2 https://10.0.0.3 dns.example.net"
    (route,) = set_up(Forward, text).routes
    assert list(route.contexts) == ["tls", "https"]
    assert route.contexts["tls"] is not route.contexts["https"]
    assert isinstance(route.targets[2], HostTarget)


A = "www.example.org. 5 IN A 192.0.2.1"
FOUND = answer(A)
READ_TIMEOUT = 0.05  # seconds of no clock: silence() ends the wait
ELSEWHERE = unwritten(Rcode.SERVFAIL, "asked below")

# --- asking ---


class ProbedRuntime(FakeRuntime):
    """A FakeRuntime in which an upstream is probed once at a time."""

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> Awaitable[Any]:
        """Make a task, unless one of the name runs."""
        running = self.tasks.get(name)
        assert running is None or running.done(), f"{name} runs already"
        return super().spawn(coro, name)


class Forwarding:
    """A Forward that has started in front of scripted upstreams; `{0}`, `{1}` in its text are their addresses."""

    def __init__(self, runtime: FakeRuntime, forward: Forward, servers: list[Upstream]) -> None:
        self.runtime, self.forward, self.servers = runtime, forward, servers

    async def ask(self, protocol: str = "udp", qname: str = "www.example.org.") -> Reply:
        request = make_request(qname, protocol=protocol)
        return await self.forward.handle(request, next_with(ELSEWHERE))

    def asked(self, protocol: str = "udp") -> list[int]:
        """How many queries each upstream got, health probes left out."""
        seen = [server.udp if protocol == "udp" else server.tcp for server in self.servers]
        return [sum(b"\3www" in wire for wire in queries) for queries in seen]

    def metric(self, name: str) -> float:
        return self.runtime.metrics.counter(name).values[()]


class Forwarder:
    """Starts and stops a Forwarding."""

    def __init__(
        self, text: str, *scripts: tuple[Answer, Answer], read_timeout: float = 5.0
    ) -> None:
        self._text, self._scripts, self._read_timeout = text, scripts, read_timeout
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Forwarding:
        stack = self._stack
        servers = [await stack.enter_async_context(serve(udp, tcp)) for udp, tcp in self._scripts]
        forward = set_up(
            Forward, self._text.format(*(f"127.0.0.1:{server.port}" for server in servers))
        )
        for route in forward.routes:
            route.options["read_timeout"] = self._read_timeout
        runtime = ProbedRuntime()
        try:
            await forward.start(runtime)
        except BaseException:
            await stack.aclose()
            raise
        stack.push_async_callback(runtime.stop_tasks)
        stack.push_async_callback(forward.stop)
        return Forwarding(runtime, forward, servers)

    async def __aexit__(self, *details: object) -> None:
        await self._stack.aclose()


@pytest.fixture(autouse=True)
def loop() -> str:
    """The event loop whose timeouts are scripted."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_timeout_ends_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    script_timeouts(monkeypatch)


def silence(wire: bytes, probe_timeout: float | None = None) -> list[bytes]:
    """Send nothing; the wait for a reply ends now that the query has arrived, that for a health probe only if asked."""
    seconds = READ_TIMEOUT if b"\3www" in wire else probe_timeout
    if seconds is not None:
        expire_timeouts(seconds)
    return []


@pytest.mark.parametrize(("protocol", "tcp"), [("tcp", 0), ("udp", 1)])
async def test_prefer_udp_takes_what_fits_the_client(protocol: str, tcp: int) -> None:
    """A reply of 1,200 octets over UDP is good for a client on TCP, and cut for one that takes 512."""
    records = [f"www.example.org. 60 IN A 192.0.2.{host}" for host in range(70)]
    script = answer(*records)
    async with Forwarder("forward . {0} {{\nprefer_udp\n}}", (script, script)) as found:
        got = await found.ask(protocol)
        assert (got.rcode, got.ra, got.tc) == (Rcode.NOERROR, True, False)
        assert section(got.answer) == section(reply(records).answer)
        assert (found.asked("udp"), found.asked("tcp")) == ([1], [tcp])


async def test_probes_end_when_the_upstream_is_back() -> None:
    well = False

    def sometimes(wire: bytes) -> list[bytes]:
        return FOUND(wire) if well else silence(wire, PROBE_TIMEOUT)

    text = "forward . {0} {{\nhealth_check 1ms\n}}"
    async with Forwarder(text, (sometimes, silence), read_timeout=READ_TIMEOUT) as found:
        assert (await found.ask()).rcode == Rcode.SERVFAIL
        (upstream,) = found.forward.routes[0].upstreams
        (task,) = found.runtime.tasks.values()
        well = True
        await task
        assert (upstream.health.failures, upstream.health.is_probing) == (0, False)
        assert (await found.ask()).rcode == Rcode.NOERROR


@pytest.mark.parametrize("most", [1, 2])
async def test_max_concurrent(most: int) -> None:
    text = f"forward . {{0}} {{{{\nmax_concurrent {most}\n}}}}"
    async with Forwarder(text, (silence, silence), read_timeout=READ_TIMEOUT) as found:
        waiting = [asyncio.create_task(found.ask()) for _ in range(most)]
        await asyncio.sleep(0)
        refused = unwritten(Rcode.REFUSED, f"concurrent queries exceeded maximum {most}")
        assert await found.ask() == refused
        assert found.metric("coredns_forward_max_concurrent_rejects_total") == 1
        assert [(await task).rcode for task in waiting] == [Rcode.SERVFAIL] * most
        assert found.forward.routes[0].in_flight == 0
        assert (await found.ask()).rcode == Rcode.SERVFAIL


async def test_stop_closes_idle_connections() -> None:
    async with Forwarder("forward . {0}", (FOUND, FOUND)) as found:
        await found.ask("tcp")
        (upstream,) = found.forward.routes[0].upstreams
        assert len(upstream.pool) == 1
        await found.forward.stop()
        assert len(upstream.pool) == 0


async def test_over_tls(tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "dns.example.net")
    async with serve(tcp=FOUND, tls=certificate.server_context()) as server:
        text = f"forward . tls://127.0.0.1:{server.port} {{\ntls {certificate.cert}\ntls_servername dns.example.net\n}}"
        async with Forwarder(text.replace("{", "{{").replace("}", "}}")) as found:
            assert section((await found.ask()).answer) == [A]


NXDOMAIN = answer(rcode=Rcode.NXDOMAIN)


def served(*scripts: Answer) -> list[tuple[Answer, Answer]]:
    return [(script, script) for script in scripts]


async def test_without_a_limit_only_the_budget_ends_the_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        found.runtime.time += 1.0

    monkeypatch.setattr("hsdns.plugins.forward.sleep", sleep)
    async with Forwarder("forward . {0}", *served(FOUND)) as gone:
        port = gone.servers[0].port
    text = f"forward . 127.0.0.1:{port} {{{{\nmax_connect_attempts 0\nmax_fails 0\n}}}}"
    async with Forwarder(text) as found:
        reply = await found.ask("tcp")
        assert (reply.rcode, reply.written) == (Rcode.SERVFAIL, False)
        assert pauses == [0.05] * 5
        assert "7 failures in a row, the first 5s ago" in str(reply.error)


async def test_an_upstream_with_too_many_queries_is_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with Forwarder("forward . {0}", *served(FOUND)) as found:
        (upstream,) = found.forward.routes[0].upstreams
        monkeypatch.setattr(upstream._streams, "most", 0)
        sentence = f"{upstream} is not queried: 0 queries over streams wait"
        assert await found.ask("tcp") == unwritten(Rcode.SERVFAIL, sentence)
        assert found.runtime.tasks == {}


async def test_the_upstream_is_metadata() -> None:
    text = "forward . {0} {1} {{\npolicy sequential\n}}"
    async with Forwarder(text, *served(silence, FOUND), read_timeout=READ_TIMEOUT) as found:
        metadata: dict[str, Callable[[], str]] = {"a/b": str}
        request = make_request("www.example.org.").replace(metadata=metadata)
        await found.forward.handle(request, next_with(ELSEWHERE))
        assert list(metadata) == ["a/b", "forward/upstream"]
        assert metadata["forward/upstream"]() == f"127.0.0.1:{found.servers[1].port}"


# --- host names and HTTPS ---


async def test_host_names_are_looked_up_at_start() -> None:
    address = answer("dns.example.net. 5 IN A 127.0.0.1")
    async with serve(address) as resolver, serve(FOUND) as server:
        text = f"forward . dns.example.net:{server.port} {{{{\nresolver 127.0.0.1:{resolver.port}\n}}}}"
        async with Forwarder(text) as found:
            assert section((await found.ask()).answer) == [A]
            assert [str(each) for each in found.forward.routes[0].upstreams] == [
                f"127.0.0.1:{server.port}"
            ]
            assert len(resolver.udp) == 2


async def test_an_unknown_host_ends_the_start() -> None:
    async with serve(NXDOMAIN) as resolver:
        text = f"forward . 10.0.0.2 dns.example.net {{{{\nresolver 127.0.0.1:{resolver.port}\n}}}}"
        with pytest.raises(CorefileError) as caught:
            async with Forwarder(text):
                pass
        assert str(caught.value) == (
            'Corefile:2:20: cannot resolve "dns.example.net": '
            f"127.0.0.1:{resolver.port} has no address for it (NXDOMAIN); write an address, or use another resolver"
        )


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_over_https(method: str, tmp_path: Path) -> None:
    certificate = make_certificate(tmp_path, "dns.example.net")
    async with serve_doh(FOUND, certificate) as server:
        text = (
            f"forward . https://127.0.0.1:{server.port} {{\ntls {certificate.cert}\n"
            f"tls_servername dns.example.net\ndoh_method {method}\n}}"
        )
        async with Forwarder(text.replace("{", "{{").replace("}", "}}")) as found:
            for protocol in ("udp", "tcp"):
                assert section((await found.ask(protocol)).answer) == [A]
            assert [asked.method for asked in server.asked] == [method] * 2
            assert len(server.connections) == 1
