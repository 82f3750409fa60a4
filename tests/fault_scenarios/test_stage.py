"""The servers of a scenario in memory: steps in time, rules, the node cache and the truth."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hsdns.fault_scenarios.memory_server import OtherServer
from hsdns.fault_scenarios.play import Stage, VirtualLoop
from hsdns.fault_scenarios.scenario import Scenario, load
from hsdns.wire.decode import decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from hsdns.wire.rdata import address_to_text

WEB = Query.ask(Name.from_text("web.shop.svc.cluster.local."), 1)


async def answered(reply: Awaitable[bytes | None]) -> str:
    """The rcode and the addresses of a reply."""
    wire = await reply
    if wire is None:
        return "silence"
    found = decode_reply(wire, WEB)
    return " ".join([str(found.rcode), *(address_to_text(each.rdata) for each in found.answer)])


def on_stage(
    scenario: Scenario, run: Callable[[Stage], Awaitable[list[str]]], cache: str = ""
) -> list[str]:
    async def play() -> list[str]:
        async with Stage(scenario, cache, None) as stage:
            return await run(stage)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(play())


@pytest.mark.parametrize(
    ("cache", "expected"),
    [
        ("", ["0 10.96.7.7", "3", "0 10.96.7.7", "hits 1"]),
        ("cache 30", ["0 10.96.7.7", "0 10.96.7.7", "0 10.96.7.7", "hits 0"]),
        ("cache 10", ["0 10.96.7.7", "3", "3", "hits 1"]),
    ],
)
def test_rules_come_and_go_and_a_cache_hides_them(cache: str, expected: list[str]) -> None:
    scenario = load("empty-record-nxdomain")  # from second 30 to second 90

    async def run(stage: Stage) -> list[str]:
        found = []
        for until in (25, 45, 95) if cache != "cache 10" else (25, 89, 95):
            await asyncio.sleep(until - asyncio.get_running_loop().time())
            found.append(await answered(stage.ask(encode_query(WEB, 1), "udp", 10_000, 0)))
            truth = await answered(stage.ask_truth(encode_query(WEB, 1)))
            assert truth == "0 10.96.7.7"
        return [*found, f"hits {stage.cluster.hits['gone']}"]

    assert on_stage(scenario, run, cache) == expected


def test_the_address_that_is_asked_is_that_of_the_nameserver() -> None:
    async def run(stage: Stage) -> list[str]:
        await asyncio.sleep(15)
        message = encode_query(WEB, 1)
        return [await answered(stage.ask(message, "udp", 10_000, at)) for at in (0, 1)]

    assert on_stage(load("nodelocal-restart"), run) == ["silence", "0 10.96.7.7"]


def test_a_server_behind_has_no_objects_of_the_scenario() -> None:
    class Behind(OtherServer):
        async def exchange(self, message: bytes, transport: str) -> bytes | None:
            return None

    async def play() -> str:
        async with Stage(load("conntrack-race"), "", Behind("127.0.0.1", 1)) as stage:
            return await answered(stage.ask(encode_query(WEB, 1), "udp", 10_000, 0))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(play()) == "2"  # SERVFAIL, as forward
