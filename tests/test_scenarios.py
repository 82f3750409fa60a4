"""Play every scenario of tests/scenarios in memory, over real sockets, and against what CoreDNS replies or has replied.

Path: tests/scenarios/**/*.md -> parse() -> a subject that answers -> the replies compared with what is written.
Rule 1: a question is asked once; after an event it is asked until the answer is as expected, up to a deadline.
Rule 2: a driver collects only what it can play; a question that CoreDNS is not asked is printed with the reason.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.clients.exchange import ask_tcp, ask_udp, is_silent
from tests.support.peer_replies import PEER, Replayed, hold
from tests.support.scenarios.dig import Expectation, Question
from tests.support.scenarios.drivers import MemoryDriver, SocketDriver
from tests.support.scenarios.peer import Peer
from tests.support.scenarios.scenario import Advance, Event, Packet, Scenario, needs_of, parse

SCENARIOS = Path(__file__).parent / "scenarios"
EVENT_DEADLINE = 5.0  # seconds; a change is seen after 10 ms on an idle machine
_PAUSE = 0.005


def played_without(need: str) -> pytest.MarkDecorator:
    """Parametrise with the scenarios that a driver plays: all but those that need what it has not."""
    return pytest.mark.parametrize(
        "path",
        [
            pytest.param(path, id=path.relative_to(SCENARIOS).with_suffix("").as_posix())
            for path in sorted(SCENARIOS.glob("*/*.md"))
            if need not in needs_of(path.read_text(encoding="utf-8"))
        ],
    )


class Driver(Protocol):
    """What a driver talks to; `settles` says that a change takes a moment to be seen."""

    settles: bool

    async def ask(self, wire: bytes, protocol: str) -> bytes: ...

    async def is_silent(self, wire: bytes) -> bool: ...

    async def apply(self, event: Event) -> None: ...

    def advance(self, seconds: float) -> None: ...


class OverSockets:
    """A server behind an address."""

    settles = True

    def __init__(self, server: Peer | SocketDriver) -> None:
        self._server = server

    async def ask(self, wire: bytes, protocol: str) -> bytes:
        return await (ask_tcp if protocol == "tcp" else ask_udp)(self._server.address, wire)

    async def is_silent(self, wire: bytes) -> bool:
        return await is_silent(self._server.address, wire)

    async def apply(self, event: Event) -> None:
        await self._server.apply(event)

    def advance(self, seconds: float) -> None:
        raise AssertionError("only the scripted clock can advance")


async def play(
    scenario: Scenario, driver: Driver, *, peer: bool = False, twice: bool = False
) -> list[bytes]:
    """Walk through the steps; raise AssertionError with every difference of the first step that has some.

    `peer` expects what CoreDNS answers, `twice` asks over TCP as well what UDP answers whole.  Return the replies that
    were as expected, one for each that was asked for; b"" is silence.
    """
    after_event = False
    replies: list[bytes] = []
    for step in scenario.steps:
        where = f"{scenario.path}:{step.line}"
        if isinstance(step, Event):
            await driver.apply(step)
            after_event = driver.settles
        elif isinstance(step, Advance):
            driver.advance(step.seconds)
        elif isinstance(step, Packet):
            if peer and step.differs:
                _say(f"{where}: not asked: {step.differs}")
                continue
            if step.expected is None:
                assert await driver.is_silent(step.sent), f"{where}: {step.sent.hex()} is answered"
                replies.append(b"")
            else:
                replies.append(await driver.ask(step.sent, "udp"))
                assert replies[-1] == step.expected, f"{where}: {step.sent.hex()}"
        else:
            expected = (step.peer if step.differs else step.expected) if peer else step.expected
            if expected is None:
                _say(f"{where}: not asked: {step.differs}")
                continue
            replies.append(await _ask(driver, step, expected, where, step.protocol, after_event))
            also_tcp = step.protocol == "udp" and "notcp" not in step.options
            if twice and also_tcp and "tc" not in expected.flags:
                await _ask(driver, step, expected, where, "tcp", after_event)
    return replies


def _say(sentence: str) -> None:
    """Print what a run leaves out; pytest shows it with -rP."""
    print(sentence)  # noqa: T201 - a test run's report is what it prints


async def _ask(
    driver: Driver,
    question: Question,
    expected: Expectation,
    where: str,
    protocol: str,
    again: bool,
) -> bytes:
    deadline = time.monotonic() + EVENT_DEADLINE
    while True:
        reply = await driver.ask(question.wire(), protocol)
        differences = expected.differences(question, reply)
        if not differences or not again or time.monotonic() > deadline:
            break
        await asyncio.sleep(_PAUSE)
    assert not differences, f"{where}: dig {question.text} ({protocol})\n" + "\n".join(differences)
    return reply


@played_without("sockets")
async def test_in_memory(path: Path) -> None:
    scenario = parse(path)

    async with MemoryDriver(scenario) as driver:
        await play(scenario, driver)


@pytest.mark.sockets
@played_without("memory")
async def test_over_sockets(path: Path) -> None:
    scenario = parse(path)

    async with SocketDriver(scenario) as server:
        await play(scenario, OverSockets(server), twice=True)


@pytest.mark.peer
@played_without("memory")
async def test_against_peer(path: Path) -> None:
    scenario = parse(path)
    key = f"scenarios/{path.relative_to(SCENARIOS).as_posix()}"
    # What these reply depends on the addresses of the machine.
    is_recorded = "LOCAL_IPV4" not in path.read_text(encoding="utf-8")
    if not PEER and not is_recorded:
        pytest.skip("asks for this machine's own address; HSDNS_PEER names no CoreDNS binary")
    if not PEER:
        await play(scenario, Replayed(key), peer=True)
        return
    async with Peer(PEER, scenario) as server:
        replies = await play(scenario, OverSockets(server), peer=True)
    if is_recorded:
        hold(key, replies)
