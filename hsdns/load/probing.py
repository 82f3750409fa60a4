"""Asks servers about each change of the cluster, again and again, to see the first new answer and the last old one.

Path: prober_process.py runs it in a process of its own -> here -> udp.py.
Rule 1: the times at which a change is asked about are fixed when it is seen (SERIES), whatever is answered; all servers
        are asked at the same ones.
Rule 2: a series ends early only when it is said that all servers have shown the change.
Rule 3: a server is asked from several ports in turn, so that what stands behind one address takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from struct import Struct
from typing import Final, NamedTuple

from hsdns.load.outcome import REPLY, frame
from hsdns.load.sender import HEADER_LEN, Wire

_SECOND: Final = 1_000_000_000
_STEP, _STEPS, _GROWTH, _LONGEST = 0.001, 10, 1.25, 60.0


def _series() -> tuple[int, ...]:
    """Each millisecond for ten, then each a quarter later, for a minute; nanoseconds."""
    found = [number * _STEP for number in range(_STEPS + 1)]
    while found[-1] < _LONGEST:
        found.append(found[-1] * _GROWTH)
    return tuple(round(each * _SECOND) for each in found)


SERIES: Final = _series()
PORTS: Final = 4  # from which each server is asked
PROBES: Final = b"p"
_PROBE: Final = Struct("=IIIIqq")
_IDLE: Final = 50_000_000  # nanoseconds that are waited for at once
_FOLLOW, _DONE = 1, 0
_COMMAND: Final = Struct("=IIIq")


class Command(NamedTuple):
    """To follow a change that was seen at a time (nanoseconds), or not to any more."""

    follows: int
    event: int
    question: int = 0
    seen: int = 0


class Probe(NamedTuple):
    """An answer; `server` by its place, `reply` the number of its content, times in nanoseconds."""

    event: int
    server: int
    flags: int
    reply: int
    sent: int
    received: int


def pack_command(command: Command) -> bytes:
    """The octets of a command, which a pipe takes whole."""
    return _COMMAND.pack(*command)


COMMAND_SIZE: Final = _COMMAND.size


def unpack_commands(octets: bytes) -> list[Command]:
    """Commands, whole ones."""
    return [Command(*each) for each in _COMMAND.iter_unpack(octets)]


def pack_probe(probe: Probe) -> bytes:
    """The octets of an answer; a message PROBES has several."""
    return _PROBE.pack(*probe)


def unpack_probes(octets: bytes) -> list[Probe]:
    """The content of a message PROBES."""
    return [Probe(*each) for each in _PROBE.iter_unpack(octets)]


class Prober:
    """Asks servers, each over PORTS `wires`, one after the other; `queries` are without IDs.

    `wait` waits at most so many nanoseconds; it returns the numbers of the wires that have something, and the commands
    that came: None if the end has.
    """

    def __init__(
        self,
        wires: Sequence[Wire],
        queries: Sequence[bytes],
        *,
        clock: Callable[[], int],
        wait: Callable[[int], tuple[list[int], list[Command] | None]],
        emit: Callable[[bytes], None],
    ) -> None:
        self._wires = wires
        self._queries = queries
        self._clock = clock
        self._wait = wait
        self._emit = emit
        self._due: list[tuple[int, int, int]] = []  # when, which event, which of its series
        self._events: dict[int, tuple[int, int]] = {}  # question, and when it was seen
        self._ids = [0] * len(wires)
        self._in_flight: dict[
            tuple[int, int], tuple[int, int]
        ] = {}  # wire and ID: event, and when it was sent
        self._replies: dict[bytes, int] = {}
        self._turn = 0

    def run(self) -> None:
        """Ask until the commands end."""
        while True:
            now = self._clock()
            while self._due and self._due[0][0] <= now:
                self._send(now)
            left = self._due[0][0] - now if self._due else _IDLE
            ready, commands = self._wait(max(0, min(left, _IDLE)))
            if commands is None:
                return
            for command in commands:
                self._obey(command)
            for number in ready:
                self._receive(number)

    def _obey(self, command: Command) -> None:
        if command.follows:
            self._events[command.event] = command.question, command.seen
            heappush(self._due, (command.seen, command.event, 0))
        else:
            self._events.pop(command.event, None)

    def _send(self, now: int) -> None:
        """Send the probe that is due, and note the next one of its change that is not in the past."""
        _, event, number = heappop(self._due)
        found = self._events.get(event)
        if found is None:
            return
        question, seen = found
        self._turn += 1
        for first in range(0, len(self._wires), PORTS):
            wire = first + self._turn % PORTS
            self._ids[wire] = query_id = (self._ids[wire] + 1) % 65_536
            if not self._wires[wire].send([query_id.to_bytes(2, "big") + self._queries[question]]):
                self._in_flight[wire, query_id] = event, now
        number += 1
        while number < len(SERIES) and seen + SERIES[number] <= now:
            number += 1
        if number < len(SERIES):
            heappush(self._due, (seen + SERIES[number], event, number))
        else:
            del self._events[event]

    def _receive(self, wire: int) -> None:
        probes = []
        found, _ = self._wires[wire].receive()  # what is left is told by the next wait
        for octets in found:
            now = self._clock()
            if len(octets) < HEADER_LEN:
                continue
            asked = self._in_flight.pop((wire, octets[0] << 8 | octets[1]), None)
            if asked is None:
                continue
            event, sent = asked
            content, flags = octets[2:], octets[2] << 8 | octets[3]
            reply = self._replies.get(content)
            if reply is None:
                reply = self._replies[content] = len(self._replies)
                self._emit(
                    frame(REPLY, reply.to_bytes(4, "big") + event.to_bytes(4, "big") + content)
                )
            probes.append(pack_probe(Probe(event, wire // PORTS, flags, reply, sent, now)))
        if probes:
            self._emit(frame(PROBES, b"".join(probes)))
