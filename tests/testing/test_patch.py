import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import aiohttp
import pytest
import trio
from aiohttp.resolver import AsyncResolver

from hsdns.testing import Cluster
from tests.testing.conftest import calls

pytestmark = pytest.mark.sockets
STREAM = socket.SOCK_STREAM


@pytest.fixture
def web(cluster: Cluster) -> Cluster:
    cluster.service("web", headless=True).endpoints("10.0.0.1", "fd00::1")
    return cluster


@pytest.fixture
def patched(web: Cluster) -> Iterator[Cluster]:
    with web.patch():
        yield web


def addresses(found: list[Any]) -> list[str]:
    return [each[4][0] for each in found]


def test_getaddrinfo(patched: Cluster) -> None:
    v4 = (socket.AF_INET, STREAM, 6, "", ("10.0.0.1", 80))
    v6 = (socket.AF_INET6, STREAM, 6, "", ("fd00::1", 80, 0, 0))
    assert socket.getaddrinfo("web", 80, type=STREAM) == [v4, v6]
    assert socket.getaddrinfo(b"web.default", "http", type=STREAM) == [v4, v6]
    assert socket.getaddrinfo("web", 80, socket.AF_INET6, STREAM) == [v6]
    assert addresses(socket.getaddrinfo("web", None)) == ["10.0.0.1"] * 3 + ["fd00::1"] * 3
    named = socket.getaddrinfo("web", 80, 0, STREAM, 0, socket.AI_CANONNAME | socket.AI_ADDRCONFIG)
    assert [each[3] for each in named] == ["web", ""]
    assert socket.gethostbyname("web") == "10.0.0.1"
    assert socket.gethostbyname_ex("web") == ("web", [], ["10.0.0.1"])
    patched.queries.assert_order(("web", "A"), ("web", "AAAA"))
    patched.queries.assert_asked("web.default.svc.cluster.local", "A", from_="127.0.0.1")


@pytest.mark.parametrize("host", [None, "localhost", "LOCALHOST", "127.0.0.1", "::1", "fe80::1%1", socket.gethostname()])  # fmt: skip
def test_names_of_the_machine_are_left_to_it(patched: Cluster, host: str | None) -> None:
    try:
        socket.getaddrinfo(host, 80, type=STREAM)
    except socket.gaierror:  # where the machine does not know its own name
        assert host == socket.gethostname()
    assert len(patched.queries) == 0


@pytest.mark.parametrize(("given", "expected"), calls("errors of a library"))
def test_errors_are_those_of_the_library(web: Cluster, given: str, expected: str) -> None:
    resolver, host = given.split()
    web.service("empty", headless=True, publish_not_ready=True).endpoints("fd00::2")
    with web.patch(resolver=resolver), pytest.raises(socket.gaierror) as raised:
        socket.getaddrinfo(host, 80, socket.AF_INET)
    code, _, text = expected.partition(" ")
    assert raised.value.args == (getattr(socket, code), text)


def test_namespace(web: Cluster) -> None:
    web.service("api", namespace="shop", headless=True).endpoints("10.0.0.9")
    with web.patch(namespace="shop"):
        assert socket.gethostbyname("api") == "10.0.0.9"


def test_all_is_as_before_at_the_end(web: Cluster) -> None:
    def functions() -> tuple[object, ...]:
        return (
            socket.getaddrinfo,
            socket.gethostbyname,
            socket.gethostbyname_ex,
            AsyncResolver.resolve,
        )

    def fail() -> None:
        with web.patch():
            assert not set(functions()) & set(before)
            raise RuntimeError

    before = functions()
    with pytest.raises(RuntimeError):
        fail()
    assert functions() == before


def test_asyncio(patched: Cluster) -> None:
    async def look_up() -> list[Any]:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo("web", 80, type=STREAM)

    assert addresses(asyncio.run(look_up())) == ["10.0.0.1", "fd00::1"]


def test_trio(patched: Cluster) -> None:
    async def look_up() -> list[Any]:
        return await trio.socket.getaddrinfo("web", 80, type=STREAM)

    assert addresses(trio.run(look_up)) == ["10.0.0.1", "fd00::1"]


def test_aiohttp(patched: Cluster) -> None:
    async def look_up() -> list[list[str]]:
        threaded = await aiohttp.ThreadedResolver().resolve("web", 80)
        # What aiohttp uses where aiodns is installed; its constructor refuses without it.
        compiled = AsyncResolver.__new__(AsyncResolver)
        compiled._resolver = compiled._manager = None  # for its finalizer
        own = await AsyncResolver.resolve(compiled, "web", 80)
        return [[each["host"] for each in found] for found in (threaded, own)]

    assert asyncio.run(look_up()) == [["10.0.0.1"], ["10.0.0.1"]]
