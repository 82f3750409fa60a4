from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import dns.flags
import pytest

from hsdns.corefile.tree import CorefileError, Position
from hsdns.plugins import forward
from hsdns.plugins.forward import find_targets
from hsdns.upstream.target import HostTarget, Target
from hsdns.wire.iana import Rcode
from tests.support.coroutines.scripted_timeouts import script_timeouts, silence_until_timeout
from tests.support.upstreams.dns_upstream import Answer, answer, serve, silence

HOST = HostTarget("dns", "dns.example.net", 5353, None, Position("Corefile", 2, 11))
V4 = "dns.example.net. 5 IN A 192.0.2.1"
V6 = "dns.example.net. 5 IN AAAA 2001:db8::1"
SILENCE = silence_until_timeout(forward.ASK_TIMEOUT)
ALIAS = "dns.example.net. 5 IN CNAME a.example.net."


def by_type(a: Answer, aaaa: Answer) -> Answer:
    return lambda wire: (aaaa if wire.endswith(b"\0\x1c\0\1") else a)(wire)


def find(*scripts: Answer, tcp: Answer = silence, host: HostTarget = HOST) -> list[str]:
    """Look up a host with resolvers that follow these scripts."""

    async def run() -> list[str]:
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(serve(script, tcp)) for script in scripts]
            resolvers = [Target("dns", "127.0.0.1", server.port) for server in servers]
            return [str(target) for target in await find_targets([host], resolvers)]

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("scripts", "found"),
    [
        pytest.param([by_type(answer(V4), answer(V6))], ["192.0.2.1:5353", "[2001:db8::1]:5353"], id="both"),
        pytest.param([by_type(answer(V4), answer())], ["192.0.2.1:5353"], id="v4"),
        pytest.param([by_type(answer(), answer(V6))], ["[2001:db8::1]:5353"], id="v6"),
        pytest.param([by_type(answer(V4), SILENCE)], ["192.0.2.1:5353"], id="silent-about-v6"),
        pytest.param(
            [by_type(answer(ALIAS, "a.example.net. 5 IN A 192.0.2.7"), answer(ALIAS))],
            ["192.0.2.7:5353"],
            id="alias",
        ),
        pytest.param([SILENCE, by_type(answer(V4), answer())], ["192.0.2.1:5353"], id="second-resolver"),
        pytest.param([answer(rcode=3), by_type(answer(V4), answer())], ["192.0.2.1:5353"], id="first-knows-nothing"),
        pytest.param(
            [by_type(answer(V4, V4.replace("0.2.1", "0.2.2")), answer())],
            ["192.0.2.1:5353", "192.0.2.2:5353"],
            id="several",
        ),
    ],
)  # fmt: skip
def test_resolvers(
    scripts: list[Answer], found: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script_timeouts(monkeypatch)
    assert find(*scripts) == found


def test_a_truncated_reply_is_retried_over_tcp() -> None:
    cut = answer(flags=dns.flags.TC | dns.flags.RA)
    assert find(cut, tcp=by_type(answer(V4), answer())) == ["192.0.2.1:5353"]


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param(answer(), "127.0.0.1:* has no address for it (NOERROR)", id="nodata"),
        pytest.param(answer(rcode=Rcode.NXDOMAIN), "127.0.0.1:* has no address for it (NXDOMAIN)", id="nxdomain"),
        pytest.param(SILENCE, f"127.0.0.1:* did not reply within {forward.ASK_TIMEOUT:g}s", id="silence"),
        pytest.param(
            lambda wire: [wire],
            "127.0.0.1:* sent a malformed reply: reply is itself a query",
            id="nonsense",
        ),
    ],
)  # fmt: skip
def test_nothing_found(script: Answer, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    script_timeouts(monkeypatch)
    with pytest.raises(CorefileError) as caught:
        find(script)
    before, _, after = reason.partition("*")
    sentence = str(caught.value)
    assert sentence.startswith(f'Corefile:2:11: cannot resolve "dns.example.net": {before}')
    assert sentence.endswith(f"{after}; write an address, or use another resolver")


class Resolver:
    """Replaces the loop's getaddrinfo()."""

    def __init__(self, found: list[str] | OSError) -> None:
        self.found, self.asked = found, list[tuple[str, int]]()

    async def __call__(self, host: str, port: int, **options: Any) -> list[Any]:
        self.asked.append((host, port))
        if isinstance(self.found, OSError):
            raise self.found
        return [(2, 2, 17, "", (address, port)) for address in self.found]


def find_here(resolver: Resolver, *targets: Target | HostTarget) -> list[Target]:
    async def run() -> list[Target]:
        loop = asyncio.get_running_loop()
        loop.getaddrinfo = resolver  # type: ignore[assignment,method-assign]  # what this host knows is not for a test
        return await find_targets(targets)

    return asyncio.run(run())


def test_upstreams_are_unique_and_in_the_order_of_the_arguments() -> None:
    resolver = Resolver(["192.0.2.2", "192.0.2.1", "192.0.2.2"])
    tls = HOST._replace(transport="tls")
    first = Target("dns", "192.0.2.1", 5353)
    assert find_here(resolver, first, tls, HOST) == [
        first,
        Target("tls", "192.0.2.2", 5353, "dns.example.net"),
    ]


def test_a_system_resolver_that_does_not_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forward, "SYSTEM_TIMEOUT", 0.01)

    class Silent(Resolver):
        async def __call__(self, host: str, port: int, **options: Any) -> list[Any]:
            await asyncio.Event().wait()
            return []

    with pytest.raises(
        CorefileError, match=r"the resolver of this host did not reply within 0\.01s"
    ):
        find_here(Silent([]), HOST)
