"""Lookups against a server on loopback."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from hsdns import cli
from hsdns.ask.lookup import Sockets
from hsdns.resolver import MODELS, USUAL
from hsdns.resolver import model as models
from hsdns.resolver.model import Trace
from hsdns.wire.iana import RRType
from loadtest.ports import free_port
from tests.server.loopback import ReloadableServer, running

MANY = "\n".join(f"192.0.2.{each} many.a.test" for each in range(1, 61))
COREFILE = f"""a.test {{
bind 127.0.0.1
hosts {{
192.0.2.7 www.a.test
{MANY}
}}
template ANY ANY {{
match ^none
rcode NXDOMAIN
fallthrough
}}
}}
. {{
bind 127.0.0.1
template ANY ANY {{
rcode NXDOMAIN
}}
}}
"""
SEARCH = "search b.test a.test\noptions ndots:2\n"


def look_up(
    resolver: str,
    name: str,
    port: int,
    times: int = 1,
    *,
    keeps_socket: bool = False,
    options: str = "",
) -> Trace:
    """The last of some lookups."""

    async def ask() -> Trace:
        model = MODELS[resolver](f"{SEARCH}options {options}\n", Random(0))
        sockets = Sockets(model, ("127.0.0.1", port), Random(0), keeps_socket=keeps_socket)
        types = (RRType.A, RRType.AAAA)
        found = [await models.look_up(model, name, types, sockets) for _ in range(times)]
        sockets.close()
        return found[-1]

    return asyncio.run(ask())


@pytest.mark.sockets
@pytest.mark.parametrize("resolver", [*USUAL, "musl-1.2.3"])
async def test_lookups(resolver: str, tmp_path: Path) -> None:
    async with running(ReloadableServer(tmp_path, COREFILE)) as server:
        found = await asyncio.to_thread(look_up, resolver, "www", server.port)
        assert found.result.addresses == ("192.0.2.7",)
        names = {each.name for each in found.packets}
        assert names == {"www.b.test", "www.a.test"}
        missing = await asyncio.to_thread(look_up, resolver, "none", server.port)
        assert missing.result.error
        many = await asyncio.to_thread(look_up, resolver, "many", server.port)
        uses_tcp = any(each.transport == "tcp" for each in many.packets)
        count = {"musl": 48, "musl-1.2.3": 30}.get(resolver, 60)
        assert len(many.result.addresses) == count
        assert uses_tcp == (resolver in ("glibc", "musl"))


@pytest.mark.sockets
def test_other_ids_and_questions_are_ignored() -> None:
    """Replies that do not belong to a query: a wrong ID, and for glibc a wrong question."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def serve() -> None:
            for _ in range(2):
                query, client = sock.recvfrom(4096)
                nxdomain = query[2:3] + b"\x83" + query[4:]
                reply = query[:2] + bytes([query[2] | 0x80]) + nxdomain[1:]
                sock.sendto(bytes([reply[0] ^ 1]) + reply[1:3] + b"\x80" + reply[4:], client)
                sock.sendto(reply[:3] + b"\x80" + reply[4:].replace(b"www", b"xxx"), client)
                sock.sendto(reply, client)

        thread = Thread(target=serve)
        thread.start()
        found = look_up("glibc", "www.", sock.getsockname()[1])
        thread.join()
    assert found.result.error == "Name or service not known"


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("resolver", "keeps_socket", "sockets"),
    [("glibc", False, 3), ("go", False, 6), ("glibc", True, 1), ("go", True, 1)],
)
def test_sockets_of_three_lookups(resolver: str, keeps_socket: bool, sockets: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        clients: list[int] = []

        def serve() -> None:
            for _ in range(6):
                query, client = sock.recvfrom(4096)
                clients.append(client[1])
                sock.sendto(query[:2] + b"\x84\x03" + query[4:], client)

        thread = Thread(target=serve)
        thread.start()
        look_up(resolver, "www.", sock.getsockname()[1], 3, keeps_socket=keeps_socket)
        thread.join()
    assert len({*clients}) == sockets


@pytest.mark.sockets
@pytest.mark.parametrize("listens", [True, False])
def test_a_connection_that_ends_without_a_reply(listens: bool) -> None:
    """Without that, glibc would wait without a time limit."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        thread = Thread(target=lambda: sock.accept()[0].close())
        if listens:
            thread.start()
        else:
            sock.close()
        found = look_up("glibc", "www.", port, options="use-vc")
        if listens:
            thread.join()
    assert found.result.error == "Temporary failure in name resolution"
    assert {each.transport for each in found.packets} == {"tcp"}


@pytest.mark.sockets
async def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text("nameserver 192.0.2.99\n" + SEARCH)
    async with running(ReloadableServer(tmp_path, COREFILE)) as server:
        words = ["-server", "127.0.0.1", "-p", str(server.port), "-resolv-conf", str(conf)]
        assert await asyncio.to_thread(cli.main, ["resolve", "www", *words]) == 0
        assert await asyncio.to_thread(cli.main, ["resolve", "none", *words]) == 1
    assert "resolves with all: glibc, musl, go, c-ares" in capsys.readouterr().out


@pytest.mark.sockets
def test_no_reply_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf = tmp_path / "resolv.conf"
    conf.write_text("options timeout:1 attempts:1\n")
    words = ["-server", "127.0.0.1", "-p", f"{(port := free_port())}", "-resolv-conf", str(conf)]
    assert cli.main(["resolve", "www", "-program", "musl", *words]) == 2
    assert capsys.readouterr() == (
        "",
        f"nothing listens on UDP at 127.0.0.1 port {port}; check --server and -p\n",
    )
