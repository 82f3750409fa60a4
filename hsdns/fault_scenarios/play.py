"""Runs a scenario for one client in virtual time, and measures its effect.

Path: matrix.py, tests -> here -> stage.py, client.py, on a virtual_loop.py.
Rule 1: each client has its own servers, so that clients do not influence each other.
Rule 2: an answer is right if it equals the correct answer at the time of the query or at the time of the reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

import msgspec

from hsdns.fault_scenarios.ahead import OtherServer
from hsdns.fault_scenarios.client import TYPES, Client, Lookup
from hsdns.fault_scenarios.scenario import Asked, Scenario, ScenarioError, Seen
from hsdns.fault_scenarios.stage import SERVERS, Stage
from hsdns.fault_scenarios.virtual_loop import VirtualLoop
from hsdns.resolver import MODELS
from hsdns.resolver.pod import PodDns, pod_resolv_conf
from hsdns.wire.decode import decode_reply
from hsdns.wire.encode import encode_query
from hsdns.wire.message import Query
from hsdns.wire.name import Name
from hsdns.wire.rdata import address_to_text

DOMAIN: Final = "cluster.local"


class Outcome(msgspec.Struct, frozen=True):
    """The measured result of one client: the members of Seen, and the hits of each rule."""

    client: str
    lookups: int
    seconds: float
    failed: int
    wrong: int
    recovered: float
    queries: int
    error: str
    hits: dict[str, int]

    def differences(self, seen: Seen) -> list[str]:
        """How it differs from the expected result."""
        found = []
        for name in ("seconds", "failed", "wrong", "recovered", "queries", "error"):
            expected, measured = getattr(seen, name), getattr(self, name)
            if expected != measured:
                found.append(f"{seen.label}: {name} {measured}, and not {expected}")
        return found


def play(scenario: Scenario, seen: Seen, behind: OtherServer | None = None) -> Outcome:
    """Run a scenario; raise ScenarioError.  `behind` is queried instead of the scenario's own cluster."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(_play(scenario, seen, behind))


def never_hit(scenario: Scenario, outcomes: Sequence[Outcome]) -> list[str]:
    """The rules that have hit no query of any client."""
    return [
        name
        for name in scenario.rules
        if not any(outcome.hits.get(name, 0) for outcome in outcomes)
    ]


def resolv_conf(scenario: Scenario, seen: Seen, namespace: str) -> str:
    """The resolv.conf of the client, in a pod of a namespace."""
    node = f"search {scenario.search}\n" if scenario.search else ""
    options = dict(option.partition(":")[::2] for option in seen.options)
    pod = PodDns(namespace, nameservers=SERVERS[1 : seen.servers], options=options)
    return pod_resolv_conf(pod, SERVERS[0], DOMAIN, node)


async def _play(scenario: Scenario, seen: Seen, behind: OtherServer | None) -> Outcome:
    async with Stage(scenario, seen.cache, behind) as stage:
        if behind is not None:
            await _check_behind(scenario, stage, behind)
        programs = [
            _Program(scenario, seen, stage, number)
            for number in range(max(each.programs for each in scenario.asked))
        ]
        await asyncio.gather(*(program.run() for program in programs))
        problems = stage.problems + ([behind.problem] if behind and behind.problem else [])
        for problem in problems:
            raise problem
        found = sorted(
            (each for program in programs for each in program.found), key=lambda each: each.end
        )
        bad = [each for each in found if not each.is_right]
        failed = [each for each in bad if not each.lookup.result.addresses]
        recovered = 0.0
        if scenario.mended and bad and bad[-1].end > scenario.mended:
            recovered = bad[-1].end - scenario.mended if found[-1].is_right else inf
        return Outcome(
            seen.label,
            len(found),
            round(sum(each.seconds for each in found), 1),
            len(failed),
            len(bad) - len(failed),
            round(recovered, 1),
            sum(program.queries for program in programs),
            failed[-1].lookup.result.error if failed else "",
            stage.cluster.hits,
        )


class _Judged(NamedTuple):
    """A lookup, and whether its answer is right."""

    lookup: Lookup
    is_right: bool

    @property
    def seconds(self) -> float:
        """The seconds that the lookup took, without the milliseconds of the network."""
        return inf if self.lookup.seconds is None else round(self.lookup.seconds, 1)

    @property
    def end(self) -> float:
        """When it ended."""
        return self.lookup.at + (inf if self.lookup.seconds is None else self.lookup.seconds)


class _Program:
    """A process that looks up names one after the other; `found` has its results."""

    def __init__(self, scenario: Scenario, seen: Seen, stage: Stage, number: int) -> None:
        self._until = scenario.seconds
        self._stage = stage
        asked = [each for each in scenario.asked if number < each.programs]
        self._clients = {
            namespace: Client(
                MODELS[seen.client](resolv_conf(scenario, seen, namespace), Random(number)),
                stage.ask,
                number,
                keeps_socket=seen.keeps_socket,
            )
            for namespace in {each.namespace for each in asked}
        }
        self._times = sorted(
            (each.at + time * each.every, index, each)
            for index, each in enumerate(asked)
            for time in range(each.times)
        )
        self.found: list[_Judged] = []

    @property
    def queries(self) -> int:
        """The number of queries that it has sent."""
        return sum(client.queries for client in self._clients.values())

    async def run(self) -> None:
        """Look up all names."""
        loop = asyncio.get_running_loop()
        for at, _, asked in self._times:
            await asyncio.sleep(max(0.0, at - loop.time()))
            before = await _truth(self._stage, asked)
            lookup = await self._clients[asked.namespace].look_up(asked.name, self._until)
            right = (before, await _truth(self._stage, asked))
            got = frozenset(lookup.result.addresses)
            self.found.append(_Judged(lookup, lookup.seconds is not None and got in right))


async def _check_behind(scenario: Scenario, stage: Stage, behind: OtherServer) -> None:
    """Raise ScenarioError if the other server does not have the name."""
    for asked in scenario.asked:
        found = await _truth(stage, asked)
        if behind.problem is not None:
            raise behind.problem
        if not found:
            where = f"{behind.address} port {behind.port}"
            raise ScenarioError(
                f"{where} has no address for {asked.meant}; choose another name with -name"
            )


async def _truth(stage: Stage, asked: Asked) -> frozenset[str]:
    """The correct addresses at this time."""
    found: set[str] = set()
    for rrtype in TYPES:
        query = Query.ask(Name.from_text(asked.meant), rrtype)
        reply = await stage.ask_truth(encode_query(query, 1))
        if reply is None:
            raise ScenarioError(f"there is no reply for {asked.meant}, even without faults")
        answer = decode_reply(reply, query).answer
        found |= {address_to_text(each.rdata) for each in answer if each.rrtype == rrtype}
    return frozenset(found)


def as_data(outcome: Outcome) -> dict[str, Any]:
    """Convert inf to null for JSON, for a duration without end."""
    found: dict[str, Any] = msgspec.to_builtins(outcome)
    return {key: None if value == inf else value for key, value in found.items()}
