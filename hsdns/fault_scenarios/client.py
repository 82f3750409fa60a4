"""A model of a resolver that looks names up at a stage, on the clock of the event loop.

Path: play.py -> here -> resolver/ (what is sent, and when), stage.py (what is answered).
Rule: each query is a task of its own, so that replies overtake each other as over a network.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from hsdns.resolver.message import answer_of, wire_of
from hsdns.resolver.model import Answer, Arrival, Model, Packet, Result
from hsdns.wire.decode_reply import BadReply
from hsdns.wire.iana import RRType

Ask = Callable[[bytes, str, int, int], Awaitable[bytes | None]]  # as Stage.ask
FIRST_PORT: Final = 10_000
PORTS: Final = 500  # of each program
TYPES: Final = (RRType.A, RRType.AAAA)
ONE_WAY: Final = 0.001  # seconds to the server, and as much back
INSTANT: Final = 1e-6  # seconds: what is due now comes before what waits for it no longer


class Lookup(NamedTuple):
    """One lookup; `seconds` is None for one that has not ended when the scenario has."""

    at: float
    seconds: float | None
    result: Result


class Client:
    """A model; `queries` counts what it has sent.  The sockets of `number` have ports of their own."""

    def __init__(
        self, model: Model, ask: Ask, number: int = 0, *, keeps_socket: bool = False
    ) -> None:
        self._model = model
        self._ask = ask
        self._first_port = FIRST_PORT + number * PORTS
        self._keeps_socket = keeps_socket
        self._ports: dict[str, int] = {}
        self.queries = 0

    async def look_up(self, name: str, until: float) -> Lookup:
        """Look a name up; one that waits without a limit is left at the time `until`."""
        clock = asyncio.get_running_loop().time
        model, began = self._model, clock()
        arrivals: asyncio.Queue[Arrival] = asyncio.Queue()
        sent: list[asyncio.Task[None]] = []
        arrival: Arrival | None = None
        try:
            model.now = began
            lookup = model.lookup(name, TYPES)
            while True:
                model.now = clock()
                try:
                    deadline = lookup.send(arrival)
                except StopIteration as end:
                    return Lookup(began, clock() - began, end.value)
                for packet in model.outbox:
                    self.queries += 1
                    sent.append(asyncio.create_task(self._send(packet, arrivals)))
                model.outbox.clear()
                wait = (max(until, clock() + INSTANT) if deadline is None else deadline) - clock()
                arrival = None
                with contextlib.suppress(TimeoutError):
                    arrival = await asyncio.wait_for(arrivals.get(), max(wait, INSTANT))
                if arrival is None and deadline is None:
                    return Lookup(began, None, Result((), "no result: still waiting", ""))
        finally:
            for task in sent:
                task.cancel()
            for found in await asyncio.gather(*sent, return_exceptions=True):
                if isinstance(found, Exception):
                    raise found

    async def _send(self, packet: Packet, arrivals: asyncio.Queue[Arrival]) -> None:
        name = "udp" if self._keeps_socket and packet.transport == "udp" else packet.port
        number = self._ports.setdefault(name, len(self._ports))
        message = wire_of(packet, packet.qid & 0xFFFF)
        await asyncio.sleep(ONE_WAY)
        port = self._first_port + number % PORTS
        try:
            reply = await self._ask(message, packet.transport, port, packet.server)
        except ConnectionResetError:
            await asyncio.sleep(ONE_WAY)
            arrivals.put_nowait((packet, Answer(is_closed=True)))
            return
        if reply is not None:
            await asyncio.sleep(ONE_WAY)
            with contextlib.suppress(BadReply):
                arrivals.put_nowait((packet, answer_of(reply, packet)))
