"""The listeners of a configuration: what a change of the Corefile binds, takes over and drains."""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hsdns.assemble import Configuration, ListenAddress
from hsdns.chain import Endpoint
from hsdns.fastpath.control import IP_PKTINFO, IPV6_PKTINFO
from hsdns.metrics import Registry
from hsdns.query import QueryProcessor
from hsdns.server.runtime import Tasks
from hsdns.server.transport import sockets
from hsdns.server.transport.admission import Places
from hsdns.server.transport.listeners import Listener, Listeners, Opener
from hsdns.server.transport.sockets import (
    BoundSockets,
    Limits,
    ListenError,
    Settings,
    asked_endpoint,
    client_endpoint,
    leave_port,
    open_all,
    open_both,
    open_tcp,
    open_udp,
    settings_of,
)
from hsdns.server.transport.tcp import TcpListener
from hsdns.wire.message import Reply
from loadtest.ports import free_port
from tests.server.stand_ins import ScriptedLoop
from tests.support.clients.messages import query
from tests.support.clients.sockets import TcpClient, UdpClient
from tests.support.plugins.corefiles import assembled
from tests.support.servers.function_processor import Answer, processor
from tests.support.servers.noted import Noted
from tests.support.servers.udp_listeners import NEEDS_NATIVE, each_kind, serving_with

pytestmark = pytest.mark.sockets

DATA = Path(__file__).parents[1] / "data" / "tls"


class ReloadableListeners:
    """Listeners whose Corefile changes; each configuration answers with an rcode of its own."""

    def __init__(self, workers: int = 1) -> None:
        self.tasks = Tasks()
        self.opener = Opener(Registry(), self.tasks.spawn, time.monotonic, workers, Places(64))
        self.listeners = Listeners(self.opener, ())
        self.made: list[Listeners] = []
        self.port = free_port()
        self.answers = 0

    def configuration(self, text: str) -> Configuration:
        """What a Corefile says; PORT stands for the site's port."""
        return assembled(text.replace("PORT", str(self.port)), interfaces=dict)

    async def change(self, text: str, answer: Answer | None = None) -> Listeners:
        """Serve another Corefile; return the listeners of the one before, which has to drain them."""
        self.answers += 1
        rcode = self.answers

        async def count(request: object) -> Reply:
            return Reply(rcode=rcode)

        configuration = self.configuration(text)
        before, new = self.listeners, Listeners(self.opener, configuration.listeners)
        self.made.append(new)
        bound = new.bind(before)
        assert set(bound) == {listener.listen.server for listener in configuration.listeners}
        made: dict[str, QueryProcessor] = {
            server: processor(answer or count, server) for server in bound
        }
        await new.start(made)
        new.take_over(before, made)
        self.listeners = new
        return before

    async def ask(self, way: str = "udp", host: str = "127.0.0.1") -> int:
        """The rcode that is answered."""
        wire = query().to_wire()
        if way == "udp":
            with UdpClient() as client:
                return (await client.ask(wire, (host, self.port)))[0][3] & 15
        async with TcpClient((host, self.port)) as tcp:
            tcp.send(wire)
            return (await tcp.receive())[3] & 15


def never() -> bool:
    return False


def tcp_of(listener: Listener) -> TcpListener:
    assert listener.tcp is not None
    return listener.tcp


@asynccontextmanager
async def serving(workers: int = 1) -> AsyncIterator[ReloadableListeners]:
    reloadable = ReloadableListeners(workers)
    try:
        yield reloadable
    finally:
        for each in reloadable.made:
            await each.drain(never)
        await reloadable.tasks.cancel()
        with socket.create_server(("127.0.0.1", reloadable.port)):
            pass  # it was given back


BOUND = ".:PORT {\nbind 127.0.0.1\nwhoami\n}\n"
OTHER = ".:0 {\nbind 127.0.0.1\nwhoami\n}\n"


@each_kind
async def test_start_take_over_drain(kind: str) -> None:
    async with serving() as reloadable:
        await reloadable.change(BOUND)
        before = reloadable.listeners[ListenAddress("127.0.0.1", reloadable.port)].sockets
        assert [await reloadable.ask("udp"), await reloadable.ask("tcp")] == [1, 1]
        assert len(await reloadable.change(BOUND + OTHER)) == 0
        assert reloadable.listeners[ListenAddress("127.0.0.1", reloadable.port)].sockets == before
        assert [await reloadable.ask("udp"), await reloadable.ask("tcp")] == [2, 2]
        assert len(reloadable.listeners.addresses) == len(reloadable.listeners.udp) == 2
        old = await reloadable.change(OTHER)
        assert [await reloadable.ask("udp"), await reloadable.ask("tcp")] == [2, 2]
        await old.drain(never)
        with pytest.raises(ConnectionRefusedError):
            await reloadable.ask("tcp")


async def test_tls_and_https_are_tcp_alone() -> None:
    async with serving() as reloadable:
        tls = f"tls {DATA}/server.pem {DATA}/server.key"
        text = f"tls://.:PORT https://.:0 {{\nbind 127.0.0.1\n{tls}\nwhoami\n}}\n"
        await reloadable.change(text)
        assert reloadable.listeners.udp == {}
        over_tls, https = reloadable.listeners
        before = tcp_of(over_tls).settings
        assert before.tls is not None
        assert tcp_of(https).settings.max_connections == 200
        assert len(over_tls.sockets) == 1
        with socket.socket(type=socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", reloadable.port))
        # A reload without the certificate: the same sockets, plain text from the next connection on.
        await reloadable.change(text.replace(tls, "timeouts {\nread 9s\n}"))
        after = tcp_of(over_tls).settings
        assert (after.tls, after.limits.read) == (None, 9)
        assert await reloadable.ask("tcp") == 2


# --- the number of workers ---


def shared(sock: socket.socket) -> bool:
    return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT))


@NEEDS_NATIVE
async def test_workers_that_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sockets that are open are not closed for it."""
    with serving_with("workers"):
        async with serving() as reloadable:
            await reloadable.change(BOUND)
            real = socket.socket
            made: list[Any] = []

            def scarce(*args: Any) -> socket.socket:
                made.append(args)
                if len(made) > 2:
                    raise OSError(errno.EMFILE, "Too many open files")
                return real(*args)

            more = reloadable.configuration(BOUND.replace("whoami", "multisocket 4\nwhoami"))
            monkeypatch.setattr("hsdns.server.transport.sockets.socket.socket", scarce)
            new = Listeners(reloadable.opener, more.listeners)
            with pytest.raises(ListenError, match="Too many open files"):
                new.bind(reloadable.listeners)
            monkeypatch.undo()
            await new.release(never)
            assert await reloadable.ask() == 1
            (udp,) = reloadable.listeners.udp.values()
            assert not shared(udp.sock)


class Part(Noted):
    """UDP or TCP, of which the order of calls is wanted."""

    def __init__(self, log: list[str], name: str) -> None:
        super().__init__(log, f"{name} ")
        self.connections: set[int] = set()


def drained(listener: Listener, is_needed: bool, is_forced: bool = False) -> float:
    """Drain it; return how long that took."""
    loop = ScriptedLoop(lambda: None)
    try:
        loop.run_until_complete(listener.drain(loop.time, lambda: is_forced, lambda: is_needed))
        return loop.now
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("is_needed", "is_forced", "seconds"),
    [(False, False, 0.0), (True, True, 0.0), (True, False, 6.0)],
)
def test_time_limits(is_needed: bool, is_forced: bool, seconds: float) -> None:
    log: list[str] = []
    udp: Any = Part(log, "udp")
    tcp: Any = Part(log, "tcp")
    assert drained(Listener(udp, tcp), is_needed, is_forced) == pytest.approx(seconds, abs=0.05)
    assert log == ["tcp stop_accepting", "udp stop_reading", "tcp end", "udp close", "tcp close"]


def test_replaced_workers_take_what_has_arrived_meanwhile() -> None:
    log: list[str] = []
    udp: Any = Part(log, "udp")
    drained(Listener(udp, None), is_needed=False)
    assert log == ["udp stop_reading", "udp stop_reading", "udp close"]


# Sockets: which families and options, the sentence where an address cannot be had, limits, and addresses of the kernel.


@pytest.mark.parametrize("missing", ["python", "kernel", "address"])
def test_host_without_ipv6_gets_ipv4(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.socket

    class Ipv4Only(real):  # type: ignore[valid-type, misc]  # mypy takes no class from a variable
        def __init__(self, family: int = socket.AF_INET, *args: int) -> None:
            if missing == "kernel" and family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
            super().__init__(family, *args)

        def bind(self, address: tuple[str, int]) -> None:
            if missing == "address" and self.family == socket.AF_INET6:
                raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
            super().bind(address)

    monkeypatch.setattr(socket, "socket", Ipv4Only)
    monkeypatch.setattr(socket, "has_ipv6", missing != "python")
    udp, tcp = open_both(ListenAddress("", 0))
    with udp, tcp:
        assert udp.getsockname()[0] == tcp.getsockname()[0] == "0.0.0.0"
        assert udp.getsockopt(socket.IPPROTO_IP, IP_PKTINFO) == 1


def test_port_0_is_free_for_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that UDP got and TCP does not get is given up for another."""
    real, asked = open_tcp, list[int]()

    def refuse_twice(listen: ListenAddress, *, shared: bool = False) -> socket.socket:
        asked.append(listen.port)
        if len(asked) < 3:
            raise ListenError("taken")
        return real(listen, shared=shared)

    monkeypatch.setattr(sockets, "open_tcp", refuse_twice)
    udp, tcp = open_both(ListenAddress("127.0.0.1", 0))
    with udp, tcp:
        assert udp.getsockname()[1] == tcp.getsockname()[1] == asked[-1]
    assert len(asked) >= 3  # the third may be taken by chance
    assert 0 not in asked


# --- taken ports ---


@pytest.fixture
def taken() -> Iterator[int]:
    udp, tcp = open_both(ListenAddress("127.0.0.1", 0))
    with udp, tcp:
        yield udp.getsockname()[1]


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("kind", [socket.SOCK_DGRAM, socket.SOCK_STREAM], ids=["udp", "tcp"])
def test_taken_port_is_an_error(kind: socket.SocketKind, share: bool) -> None:
    """Also where the other program would share it, as CoreDNS does: we would get half of the queries."""
    with socket.socket(socket.AF_INET, kind) as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, share)
        port = free_port()
        other.bind(("127.0.0.1", port))
        if kind == socket.SOCK_STREAM:
            other.listen()
        with pytest.raises(ListenError) as caught:
            open_both(ListenAddress("127.0.0.1", port))
    name = "UDP" if kind == socket.SOCK_DGRAM else "TCP"
    assert str(caught.value) == (
        f"cannot listen on {name} 127.0.0.1:{port}: another program has the port; "
        "stop it or change the key's port (or --dns.port)"
    )


@pytest.mark.parametrize("first", ["", "127.0.0.1"])
def test_one_address_beside_all(first: str) -> None:
    """A block with bind and one without may share a port; nobody else gets in between."""
    second = "127.0.0.1" if not first else ""
    ours = open_both(ListenAddress(first, 0))
    port = ours[0].getsockname()[1]
    with pytest.raises(ListenError, match="another program has the port"):
        open_both(ListenAddress(second, port))
    more = open_both(ListenAddress(second, port), ours)
    try:
        for sock in (*ours, *more):
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) == 0
        with pytest.raises(ListenError):
            open_both(ListenAddress(second, port))
        bound, everywhere = (ours, more) if first else (more, ours)
        for asked, pair in (("127.0.0.1", bound), ("127.0.0.2", everywhere)):
            with socket.create_connection((asked, port), timeout=30) as client:
                accepted, address = pair[1].accept()
                with accepted:
                    assert address[1] == client.getsockname()[1]
    finally:
        for sock in (*ours, *more):
            sock.close()


@pytest.mark.parametrize(
    ("listen", "error", "sentence"),
    [
        pytest.param(
            ListenAddress("", 53), errno.EACCES,
            "cannot listen on UDP :53: ports below 1024 need a right; grant CAP_NET_BIND_SERVICE or change the "
            "key's port (or --dns.port)",
            id="low-port",
        ),
        pytest.param(
            ListenAddress("192.0.2.7", 53), errno.EADDRNOTAVAIL,
            "cannot listen on UDP 192.0.2.7:53: this host has no such address; change the block's bind (or --listen)",
            id="not-ours",
        ),
        pytest.param(
            ListenAddress("::1", 53), errno.EAFNOSUPPORT,
            "cannot listen on UDP [::1]:53: Address family not supported by protocol",
            id="no-ipv6",
        ),
    ],
)  # fmt: skip
def test_sentence(
    listen: ListenAddress, error: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(socket.socket):
        def bind(self, address: object) -> None:
            raise OSError(error, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "socket", Refusing)
    with pytest.raises(ListenError) as caught:
        open_udp(listen)
    assert str(caught.value) == sentence


# --- a socket for each worker ---


def shares(sockets: Iterable[socket.socket]) -> list[int]:
    return [sock.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT) for sock in sockets]


def counts(opened: BoundSockets, clients: int = 64) -> list[int]:
    """How many datagrams of so many clients each socket gets."""
    for _ in range(clients):
        with socket.socket(type=socket.SOCK_DGRAM) as client:
            client.sendto(b"x", opened.udp[0].getsockname())
    found = []
    for sock in opened.udp:
        count = 0
        try:
            while sock.recv(16):
                count += 1
        except BlockingIOError:
            found.append(count)
    return found


def test_a_second_server_takes_over_the_port() -> None:
    """What comes after the first has left the port, and before it closes, is the second's."""
    first = open_all(ListenAddress("127.0.0.1", 0), (), 2, reuseport=True)
    second = open_all(ListenAddress(*first.local), (), 2, reuseport=True)
    try:
        for sock in first.udp:
            leave_port(sock)
        assert (sum(counts(first)), sum(counts(second))) == (0, 128)
    finally:
        first.close()
        second.close()


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_one_socket_for_each_worker(workers: int) -> None:
    opened = open_all(ListenAddress("127.0.0.1", 0), (), workers)
    try:
        assert len(opened.udp) == workers
        (address,) = {sock.getsockname() for sock in opened.sockets}
        assert shares(opened.udp) == [int(workers > 1)] * workers
        assert shares(opened.sockets[workers:]) == [0]
        found = counts(opened)
        assert sum(found) == 64
        assert all(found)
        with pytest.raises(ListenError, match="another program has the port"):
            open_all(ListenAddress(*address), (), workers)
    finally:
        opened.close()
    open_all(ListenAddress(*address), (), workers).close()


TLS = f"tls {DATA}/server.pem {DATA}/server.key"


def test_worker_that_gets_no_socket_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sockets.open_udp

    def refuse(listen: ListenAddress, *, shared: bool = False) -> socket.socket:
        if listen.port:
            raise ListenError("no more")
        return real(listen, shared=shared)

    monkeypatch.setattr(sockets, "open_udp", refuse)
    beside = open_both(ListenAddress("127.0.0.2", 0))
    try:
        with pytest.raises(ListenError, match="no more"):
            open_all(ListenAddress("127.0.0.1", 0), beside, 3)
        assert shares(beside) == [0, 0]
    finally:
        for sock in beside:
            sock.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(". {\nwhoami\n}", Settings(), id="nothing"),
        pytest.param(
            ". {\ntimeouts {\nread 1s\nmaxtcpqueries 5\n}\nwhoami\n}",
            Settings(Limits(1.0, 5.0, 10.0, 5)), id="limits",
        ),
        pytest.param(
            "a.org {\ntimeouts {\nread 1s\nidle 2s\n}\nwhoami\n}\nb.org {\ntimeouts {\nread 4s\n}\nwhoami\n}",
            Settings(Limits(4.0, 5.0, 2.0, -1)), id="last-block-counts",
        ),
        pytest.param(". {\nmultisocket 3\nwhoami\n}", Settings(workers=3), id="workers"),
        pytest.param(". {\nmultisocket\nwhoami\n}", Settings(workers=2), id="workers-as-cpus"),
        pytest.param(
            "a.org {\nwhoami\n}\nb.org {\nmultisocket 3\nwhoami\n}", Settings(), id="first-block-counts",
        ),
        pytest.param(f". {{\n{TLS}\nwhoami\n}}", Settings(), id="no-tls-on-plain-dns"),
        pytest.param("https://. {\nwhoami\n}", Settings(max_connections=200), id="https"),
        pytest.param(
            "https://. {\nhttps {\nmax_connections 0\n}\nwhoami\n}", Settings(max_connections=0), id="https-any",
        ),
    ],
)  # fmt: skip
def test_settings(text: str, expected: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "usable_cpus", lambda: 2)
    assert [settings_of(each) for each in assembled(text).listeners] == [expected]


LOCAL = Endpoint("0.0.0.0", 53)
MAPPED = bytes(10) + b"\xff\xff"


def sockaddr(family: int, port: int, rest: bytes) -> bytes:
    return struct.pack("=H", family) + port.to_bytes(2, "big") + rest


def ipv6(address: bytes, port: int = 5353, scope: int = 0) -> bytes:
    rest = bytes(4) + address + struct.pack("=I", scope)
    return sockaddr(socket.AF_INET6, port, rest)


def message(level: int, kind: int, data: bytes) -> bytes:
    """One control message, padded to eight octets."""
    found = struct.pack("=Qii", 16 + len(data), level, kind) + data
    return found + bytes(-len(found) % 8)


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        pytest.param(sockaddr(socket.AF_INET, 40000, bytes((192, 0, 2, 1)) + bytes(8)), ("192.0.2.1", 40000), id="ipv4"),
        pytest.param(ipv6(socket.inet_pton(socket.AF_INET6, "2001:db8::5")), ("2001:db8::5", 5353), id="ipv6"),
        pytest.param(ipv6(MAPPED + bytes((10, 0, 0, 9))), ("10.0.0.9", 5353), id="mapped"),
        pytest.param(ipv6(socket.inet_pton(socket.AF_INET6, "fe80::1"), 0xFFFF, 7), ("fe80::1%7", 65535), id="link-local"),
        pytest.param(ipv6(bytes(16), 0), ("::", 0), id="nothing"),
    ],
)  # fmt: skip
def test_client(address: bytes, endpoint: tuple[str, int]) -> None:
    assert client_endpoint(address) == endpoint


IN_PKTINFO = struct.pack("=I", 3) + bytes((127, 0, 0, 2)) + bytes((192, 0, 2, 53))
IN6_PKTINFO = socket.inet_pton(socket.AF_INET6, "2001:db8::35") + struct.pack("=I", 3)
MAPPED_PKTINFO = MAPPED + bytes((192, 0, 2, 53)) + struct.pack("=I", 3)
OTHER_TEXT = message(socket.SOL_SOCKET, socket.SO_TIMESTAMP, bytes(5)) if hasattr(socket, "SO_TIMESTAMP") else message(1, 29, bytes(5))  # fmt: skip


@pytest.mark.parametrize(
    ("control", "address"),
    [
        pytest.param(b"", "0.0.0.0", id="nothing"),
        pytest.param(message(socket.IPPROTO_IP, IP_PKTINFO, IN_PKTINFO), "192.0.2.53", id="ipv4"),
        pytest.param(message(socket.IPPROTO_IPV6, IPV6_PKTINFO, IN6_PKTINFO), "2001:db8::35", id="ipv6"),
        pytest.param(message(socket.IPPROTO_IPV6, IPV6_PKTINFO, MAPPED_PKTINFO), "192.0.2.53", id="mapped"),
        pytest.param(OTHER_TEXT + message(socket.IPPROTO_IP, IP_PKTINFO, IN_PKTINFO), "192.0.2.53", id="second"),
        pytest.param(OTHER_TEXT, "0.0.0.0", id="another-kind"),
        pytest.param(message(socket.IPPROTO_IPV6, IP_PKTINFO, IN_PKTINFO), "0.0.0.0", id="another-level"),
        pytest.param(message(socket.IPPROTO_IP, IP_PKTINFO, IN_PKTINFO[:8]), "0.0.0.0", id="cut"),
        pytest.param(bytes(64), "0.0.0.0", id="length-of-nothing"),
        pytest.param(b"\x10", "0.0.0.0", id="shorter-than-a-header"),
    ],
)  # fmt: skip
def test_asked(control: bytes, address: str) -> None:
    assert asked_endpoint(control, LOCAL) == (address, LOCAL.port)
