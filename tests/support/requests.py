"""Requests, records, replies and a runtime for tests of handlers, from text."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from random import Random
from typing import Any

import dns.rdata
import dns.rdataclass
import dns.rdatatype

from hsdns.chain import Endpoint, Next, Request
from hsdns.cluster.freshness import Counters, NoCounters
from hsdns.metrics import Registry
from hsdns.plugin import HttpHandler, Running, Runtime
from hsdns.readiness import Readiness
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode, class_from_text, class_to_text, type_from_text, type_to_text
from hsdns.wire.message import RD, RR, Query, Reply
from hsdns.wire.name import Name


def make_request(
    qname: str,
    qtype: str = "A",
    *,
    qclass: str = "IN",
    protocol: str = "udp",
    edns: Edns | None = None,
    flags: int = RD,
    id: int = 4711,  # noqa: A002 - the header field's name
    now: float = 0.0,
    client: str = "127.0.0.1",
    client_port: int = 40000,
    server: str = "dns://:53",
    zone: str = ".",
    depth: int = 0,
) -> Request:
    """Make the request that the server would make of a query."""
    name = Name.from_text(qname)
    number, number_of_class = type_from_text(qtype), class_from_text(qclass)
    question = name.wire + number.to_bytes(2, "big") + number_of_class.to_bytes(2, "big")
    size = 12 + len(question)
    if edns is not None:
        size += 11 + sum(4 + len(data) for _, data in edns.options)
    query = Query(id, flags, name, number, number_of_class, question, edns, size)
    return Request(
        query=query,
        client=Endpoint(client, client_port),
        local=Endpoint("127.0.0.1", 53),
        protocol=protocol,
        server=server,
        zone=Name.from_text(zone),
        now=now,
        depth=depth,
    )


def rr(text: str) -> RR:
    """Read a record in the form `name ttl IN TYPE rdata`; dnspython makes the RDATA."""
    owner, ttl, rrclass, rrtype, *rest = text.split(None, 4)
    rdata = dns.rdata.from_text(
        dns.rdataclass.from_text(rrclass), dns.rdatatype.from_text(rrtype), rest[0] if rest else ""
    )
    wire = rdata.to_wire()
    assert wire is not None
    return RR(
        Name.from_text(owner),
        type_from_text(rrtype),
        int(ttl),
        bytes(wire),
        class_from_text(rrclass),
    )


def rr_text(record: RR) -> str:
    """Write a record in the form that rr() reads, RDATA in dnspython's spelling."""
    rdata = dns.rdata.from_wire(
        dns.rdataclass.RdataClass(record.rrclass),
        dns.rdatatype.RdataType(record.rrtype),
        record.rdata,
        0,
        len(record.rdata),
    )
    return (
        f"{record.owner.to_text()} {record.ttl} {class_to_text(record.rrclass)} "
        f"{type_to_text(record.rrtype)} {rdata.to_text()}"
    )


def section(records: Sequence[RR]) -> list[str]:
    """Write a section's records, in order."""
    return [rr_text(record) for record in records]


def reply(
    answer: Sequence[str] = (),
    authority: Sequence[str] = (),
    additional: Sequence[str] = (),
    rcode: int = Rcode.NOERROR,
    **fields: Any,
) -> Reply:
    """Make a reply of records in the form that rr() reads; other fields of Reply by their names."""
    return Reply(
        rcode=rcode,
        answer=tuple(map(rr, answer)),
        authority=tuple(map(rr, authority)),
        additional=tuple(map(rr, additional)),
        **fields,
    )


class Answers:
    """A `next` that gives scripted replies, the last one again and again, and keeps what it was asked."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []

    async def __call__(self, request: Request) -> Reply:
        """Answer as a handler below would."""
        self.requests.append(request)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def next_with(*replies: Reply) -> Answers:
    """Make a `next` of scripted replies."""
    answers = Answers(*replies)
    checked: Next = answers
    assert callable(checked)
    return answers


class Spawned:
    """A coroutine that waits to be stepped, as a task that can be cancelled."""

    def __init__(self, coro: Coroutine[Any, Any, Any]) -> None:
        self.coro = coro

    def cancel(self) -> None:
        """Close it."""
        self.coro.close()


class FakeRuntime:
    """chain.Runtime with a scripted clock, seeded chance and a record of what was asked of it.

    `time` is what clock() answers and `wall_time` what wall() does; `http` maps addresses to their paths; `failures`
    are the reasons given to fail(); `resolver` answers resolve().  spawn() makes a task where a loop runs (kept in
    `tasks`), else it keeps the coroutine in `spawned` for the test to step or close.
    """

    def __init__(self, seed: int = 1) -> None:
        self.random = Random(seed)
        self.metrics = Registry()
        self.counters: Counters = NoCounters()
        self.stopping = False
        self.time = 0.0
        self.wall_time = 1_700_000_000.0
        self.http: dict[str, dict[str, HttpHandler]] = {}
        self.failures: list[str] = []
        self.reloads = 0
        self.claim_changes = 0
        self.unready: list[str] = []
        self.relapsed: list[str] = []
        self.remarks: list[str] = []
        self.tasks: dict[str, asyncio.Task[Any]] = {}
        self.spawned: dict[str, Coroutine[Any, Any, Any]] = {}
        self.addresses: list[str] = ["192.0.2.53"]
        self.resolver: Callable[[Request], Reply] = lambda _: Reply(rcode=Rcode.REFUSED)

    def clock(self) -> float:
        """Monotonic seconds, as scripted."""
        return self.time

    def wall(self) -> float:
        """Seconds since the epoch, as scripted."""
        return self.wall_time

    def spawn(self, coro: Coroutine[Any, Any, Any], name: str) -> Awaitable[Any]:
        """Make a task, or keep the coroutine where no loop runs."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self.spawned[name] = coro
            return coro
        task = self.tasks[name] = asyncio.create_task(coro, name=name)
        return task

    def spawn_lasting(self, coro: Coroutine[Any, Any, Any], name: str) -> Running:
        """Make a task, or keep the coroutine where no loop runs; whoever cancels that closes it."""
        made = self.spawn(coro, name)
        return made if isinstance(made, asyncio.Task) else Spawned(coro)

    def names_answered_first_changed(self) -> None:
        """Count that a handler said so."""
        self.claim_changes += 1

    async def resolve(self, request: Request) -> Reply:
        """Answer by the scripted resolver."""
        return self.resolver(request)

    def serve_http(self, address: str, paths: dict[str, HttpHandler]) -> None:
        """Keep what was asked to be served."""
        self.http.setdefault(address, {}).update(paths)

    def local_addresses(self, servers: Sequence[str]) -> list[str]:
        """Addresses of this host, as scripted in `addresses`."""
        return self.addresses

    async def wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Tell whether the condition holds; where it does not, let so many seconds of scripted time pass."""
        if not condition():
            self.time += seconds
        return condition()

    def readiness(self) -> Readiness:
        """What plugins say, as scripted."""
        return Readiness(self.unready, self.relapsed, self.remarks)

    def fail(self, reason: str) -> None:
        """Keep the reason."""
        self.failures.append(reason)

    async def reload_if_changed(self) -> None:
        """Count the call."""
        self.reloads += 1

    async def stop_tasks(self) -> None:
        """Cancel what was spawned, as the server does when a configuration ends."""
        for task in self.tasks.values():
            task.cancel()
        await asyncio.gather(*self.tasks.values(), return_exceptions=True)
        for coro in self.spawned.values():
            coro.close()


def as_runtime(fake: FakeRuntime) -> Runtime:
    """The fake as what it stands for; mypy checks here that it has every method."""
    return fake
