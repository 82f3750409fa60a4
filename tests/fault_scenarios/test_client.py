"""A model that looks names up on a virtual clock: which ports it uses, and what it waits for."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from hsdns.fault_scenarios.play import Client, Lookup, VirtualLoop
from hsdns.resolver import MODELS
from hsdns.wire.decode import decode
from hsdns.wire.encode import encode
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name

CONF = "nameserver 127.0.0.1\n"


class Server:
    """Answers with an address, `late` seconds late; `ports` has those that have asked."""

    def __init__(self, late: float) -> None:
        self.late = late
        self.ports: list[int] = []

    async def ask(self, message: bytes, transport: str, port: int, server: int) -> bytes | None:
        self.ports.append(port)
        await asyncio.sleep(self.late)
        query = decode(message)
        record = RR(Name.from_text("web."), 1, 30, bytes([192, 0, 2, 1]))
        answer = (record,) if query.qtype == 1 else ()
        return encode(query, Reply(answer=answer, aa=True), 512)


def look_up(
    server: Server, model: str = "glibc", until: float = 60.0, *, keeps_socket: bool = False, times: int = 1
) -> list[Lookup]:  # fmt: skip
    async def run() -> list[Lookup]:
        made = MODELS[model](CONF, Random(0))
        client = Client(made, server.ask, keeps_socket=keeps_socket)
        return [await client.look_up("web.", until) for _ in range(times)]

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(run())


@pytest.mark.parametrize(("late", "seconds"), [(0.0, 0.002), (1.5, 1.502), (6.0, 6.002)])
def test_replies_take_their_time_but_none_from_the_others(late: float, seconds: float) -> None:
    (found,) = look_up(Server(late))
    assert found.result.addresses == ("192.0.2.1",)
    assert found.seconds == pytest.approx(seconds, abs=0.001)


def test_a_server_that_is_too_late_is_given_up() -> None:
    (found,) = look_up(Server(100.0))
    assert found.result.error == "Temporary failure in name resolution"
    assert found.seconds == pytest.approx(10, abs=0.001)


@pytest.mark.parametrize(
    ("model", "keeps_socket", "sockets"),
    [("glibc", False, 3), ("go", False, 6), ("glibc", True, 1), ("go", True, 1)],
)
def test_sockets_of_three_lookups(model: str, keeps_socket: bool, sockets: int) -> None:
    server = Server(0.0)
    look_up(server, model, keeps_socket=keeps_socket, times=3)
    assert (len(server.ports), len(set(server.ports))) == (6, sockets)


def test_what_the_server_raises_is_raised() -> None:
    class Broken(Server):
        async def ask(self, message: bytes, transport: str, port: int, server: int) -> bytes | None:
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        look_up(Broken(0.0))
