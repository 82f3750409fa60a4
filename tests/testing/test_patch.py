import _socket
import asyncio
import importlib
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import dns.asyncresolver
import dns.message
import dns.query
import dns.resolver
import pytest
import trio
import uvloop

from hsdns.testing import Cluster, ClusterError
from hsdns.testing.patch import CONNECTS, LOOKUPS
from tests.testing.conftest import calls

pytestmark = pytest.mark.sockets
STREAM = socket.SOCK_STREAM
WEB = "web.default.svc.cluster.local"


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
    def functions() -> list[object]:
        of: list[tuple[Any, str]] = [
            (module, name) for module in (socket, _socket) for name in LOOKUPS
        ]
        of += [(socket.socket, name) for name in CONNECTS]
        of += [(uvloop.Loop, "create_connection"), (dns.resolver.BaseResolver, "read_resolv_conf")]
        return [getattr(*each) for each in of] + [len(sys.meta_path)]

    def fail() -> None:
        with web.patch():
            changed = [old is not new for old, new in zip(before, functions(), strict=True)]
            assert changed == [
                False,
                *[True] * (len(changed) - 1),
            ]  # socket.getaddrinfo calls _socket's
            raise RuntimeError

    before = functions()
    with pytest.raises(RuntimeError):
        fail()
    assert functions() == before


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    with Cluster() as cluster:
        cluster.service("web", headless=True).endpoints("10.0.0.1", "fd00::1")
        cluster.service("here", headless=True).endpoints("127.0.0.1")
        yield cluster


@pytest.mark.parametrize(("call", "expected"), calls("lookups"))
def test_lookups(shared: Cluster, call: str, expected: str) -> None:
    """Forward and reverse, of names and of numbers; what was kept from before, or asks elsewhere, is refused."""
    kept = {f"kept_{each}": getattr(_socket, each) for each in LOOKUPS[1:]}
    with shared.patch(), socket.socket(type=socket.SOCK_DGRAM) as udp:
        try:
            found = eval(call, {**globals(), **kept}, {"udp": udp})
        except (OSError, ClusterError) as error:
            found = f"{type(error).__name__} {error}"
    assert str(found) == expected


def test_asyncio(patched: Cluster) -> None:
    async def look_up() -> list[Any]:
        loop = asyncio.get_running_loop()
        return await loop.getaddrinfo("web", 80, type=STREAM)

    assert addresses(asyncio.run(look_up())) == ["10.0.0.1", "fd00::1"]


def test_trio(patched: Cluster) -> None:
    async def look_up() -> list[Any]:
        return await trio.socket.getaddrinfo("web", 80, type=STREAM)

    assert addresses(trio.run(look_up)) == ["10.0.0.1", "fd00::1"]


def test_wait_and_resolve(web: Cluster) -> None:
    assert web.resolve("web") == ["10.0.0.1", "fd00::1"]
    assert {*web.resolve("web.default", namespace="shop", resolver="musl")} == {
        "10.0.0.1",
        "fd00::1",
    }
    with pytest.raises(socket.gaierror, match="Name or service not known"):
        web.resolve("wbe")

    async def wait() -> None:
        await web.wait_answer_async("web", ["10.0.0.1", "fd00::1"], within=30)
        with pytest.raises(AssertionError, match=r"web has not 10\.0\.0\.2 within 0 s"):
            await web.wait_answer_async("web", ["10.0.0.2"], within=0)

    asyncio.run(wait())
    trio.run(wait)


@pytest.fixture
def listening(cluster: Cluster) -> Iterator[int]:
    """A server of the test behind the name of a Service, with its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster.service("here", headless=True).endpoints("127.0.0.1")
        with cluster.patch():
            yield server.getsockname()[1]


async def connect(port: int) -> tuple[str, int]:
    """By a name, over TCP and over UDP, and serve at a name."""
    loop = asyncio.get_running_loop()
    (found,) = await loop.getaddrinfo("here", port, family=socket.AF_INET, type=STREAM)
    assert (await loop.getnameinfo(("127.0.0.1", port), socket.NI_NUMERICSERV))[0] == "localhost"
    server = await loop.create_server(asyncio.Protocol, "localhost", 0)
    server.close()
    udp, _ = await loop.create_datagram_endpoint(
        asyncio.DatagramProtocol, remote_addr=("here", port)
    )
    of_udp = udp.get_extra_info("peername")
    udp.close()
    transport, _ = await loop.create_connection(asyncio.Protocol, "here", port)
    peer: tuple[str, int] = transport.get_extra_info("peername")
    transport.close()
    assert found[4] == peer == of_udp
    return peer


@pytest.mark.parametrize("make", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_loops(cluster: Cluster, listening: int, make: Any) -> None:
    with asyncio.Runner(loop_factory=make) as runner:
        assert runner.run(connect(listening)) == ("127.0.0.1", listening)
    cluster.queries.assert_asked("here.default.svc.cluster.local", "A", times=3)


def test_dnspython(patched: Cluster) -> None:
    assert [each.address for each in dns.resolver.resolve("web", search=True)] == ["10.0.0.1"]
    assert dns.resolver.resolve_address("10.0.0.1")[0].to_text() == f"10-0-0-1.{WEB}."
    found = asyncio.run(dns.asyncresolver.resolve(WEB, "AAAA"))
    assert [each.address for each in found] == ["fd00::1"]
    query = dns.message.make_query(WEB, "A")
    with pytest.raises(
        ClusterError, match=r"a socket to 192\.0\.2\.53 port 53 would query another"
    ):
        dns.query.udp(query, "192.0.2.53")


def test_aiodns(web: Cluster) -> None:
    """With aiohttp, whose AsyncResolver it is."""
    pycares = pytest.importorskip("pycares")
    aiodns = pytest.importorskip("aiodns")
    before = pycares.Channel()

    async def look_up() -> list[str]:
        found = await aiohttp.AsyncResolver().resolve("web", 80)
        with pytest.raises(ClusterError, match="from before would query another DNS server"):
            before.getaddrinfo("web", 80, callback=print)
        with pytest.raises(ClusterError, match=r"the servers \['192.0.2.53'\] would query"):
            aiodns.DNSResolver(nameservers=["192.0.2.53"])
        return [each["host"] for each in found]

    with web.patch():
        assert asyncio.run(look_up()) == ["10.0.0.1"]
    web.queries.assert_asked(WEB, "A", times=1)
    before.close()


def test_grpc(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    grpc = pytest.importorskip("grpc")
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    cluster.service("here", headless=True).endpoints("127.0.0.1")
    with cluster.patch():
        for target in ("here", "dns:///here.default", "dns:here", "localhost", "127.0.0.1"):
            with grpc.insecure_channel(f"{target}:{port}") as channel:
                grpc.channel_ready_future(channel).result(30)
        cluster.queries.assert_asked("here.default.svc.cluster.local", "A", times=3)
        with pytest.raises(ClusterError, match=r"a channel of gRPC to DNS://192\.0\.2\.53/x would"):
            grpc.insecure_channel("DNS://192.0.2.53/x")
        with pytest.raises(ClusterError, match=r"a server of gRPC at x would"):
            grpc.server(ThreadPoolExecutor(1)).add_insecure_port("x:0")
        monkeypatch.setenv("http_proxy", "http://proxy:3128")
        with pytest.raises(ClusterError, match="gRPC's proxy for here:1 would query"):
            grpc.insecure_channel("here:1")
        monkeypatch.delenv("http_proxy")
        monkeypatch.setenv("GRPC_DNS_RESOLVER", "native")
        with pytest.raises(ClusterError, match="gRPC's native resolver for here:1 would query"):
            grpc.insecure_channel("here:1")
    before = grpc.insecure_channel("here:1")
    with (
        pytest.raises(ClusterError, match="the channel of gRPC to dns:///here:1 from before"),
        cluster.patch(),
    ):
        pass
    before.close()
    server.stop(None)


def test_a_library_that_comes_later(web: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    before = dns.resolver
    monkeypatch.setattr(dns, "resolver", before)  # so that it is there again at the end
    monkeypatch.delitem(sys.modules, "dns.resolver")
    with web.patch():
        later = importlib.import_module("dns.resolver")
        assert later.resolve(WEB)[0].address == "10.0.0.1"
    assert later is not before


@pytest.mark.slow
def test_nothing_leaves_the_machine(tmp_path: Path) -> None:
    """What the kernel was asked: connections and datagrams to loopback alone."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    program = (
        "import asyncio, socket, uvloop, dns.resolver\n"
        "from hsdns.testing import Cluster, ClusterError\n"
        "with Cluster() as cluster, cluster.patch():\n"
        "    for name in ('gethostbyname', 'gethostbyaddr', 'gethostbyname_ex', 'getfqdn', 'create_connection'):\n"
        "        for host in ('nothing.example.org', '192.0.2.9', socket.gethostname()):\n"
        "            try: getattr(socket, name)((host, 9) if name == 'create_connection' and host[0] == 'n' else host)\n"
        "            except (OSError, ValueError): pass\n"
        "    for make in (asyncio.new_event_loop, uvloop.new_event_loop):\n"
        "        with asyncio.Runner(loop_factory=make) as runner:\n"
        "            try: runner.run(runner.get_loop().create_connection(asyncio.Protocol, 'nothing.example.org', 9))\n"
        "            except OSError: pass\n"
        "    async def send(**to):\n"
        "        loop = asyncio.get_running_loop()\n"
        "        transport, _ = await loop.create_datagram_endpoint(asyncio.DatagramProtocol, ('127.0.0.1', 0), **to)\n"
        "        transport.sendto(b'x', ('192.0.2.53', 53))\n"
        "    for to in ({}, {'remote_addr': ('192.0.2.53', 53)}):\n"
        "        try: uvloop.run(send(**to))\n"
        "        except ClusterError: pass\n"
        "    try: dns.resolver.resolve('nothing.example.org')\n"
        "    except dns.resolver.NXDOMAIN: print('done')\n"
    )
    log = tmp_path / "log"
    calls = "trace=connect,sendto,sendmsg,sendmmsg"
    command: list[str | Path] = [strace, "-f", "-qq", "-e", calls, "-o", log]
    done = subprocess.run(
        [*command, sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    if "Operation not permitted" in done.stderr:
        pytest.skip("strace may not trace here")
    assert (done.stdout, done.stderr) == ("done\n", "")
    reached = {
        *re.findall(r'inet_addr\("([^"]*)"\)|inet_pton\(AF_INET6, "([^"]*)"', log.read_text())
    }
    assert {v4 or v6 for v4, v6 in reached} == {"127.0.0.1"}
