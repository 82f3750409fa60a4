"""Runs a resolver model against the servers of a scenario, on the clock of the event loop.

Path: play.py -> here -> resolver/ (the queries and their times), stage.py (the replies).
Rule: each query is a separate task, so that replies can arrive out of order as over a network.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from hsdns.resolver.message import answer_of, wire_of
from hsdns.resolver.model import Answer, Arrival, Model, Packet, Result
from hsdns.wire.decode import BadReply
from hsdns.wire.iana import RRType

Ask = Callable[[bytes, str, int, int], Awaitable[bytes | None]]  # as Stage.ask
FIRST_PORT: Final = 10_000
PORTS: Final = 500  # of each program
TYPES: Final = (RRType.A, RRType.AAAA)
ONE_WAY: Final = 0.001  # seconds to the server, and the same back
INSTANT: Final = 1e-6  # seconds: a reply that is due at a timeout comes before it


class Lookup(NamedTuple):
    """One lookup; `seconds` is its duration, None if it has not ended with the scenario."""

    at: float
    seconds: float | None
    result: Result


class Client:
    """A resolver model; `queries` counts its queries.  Each `number` has its own range of ports."""

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
        """Look a name up; a lookup without an end is abandoned at the time `until`."""
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
