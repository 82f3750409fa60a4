"""Whole lookups of resolvers, with answers of the observed chain.

Path: asker.py -> here -> resolver/ (the models), explain.Explainer.ask (the answers) -> resolver.report.LookupReport.
Rule 1: the clock is virtual, and no server is queried; answers of other servers are not seen.
Rule 2: a name that this server would forward counts as NXDOMAIN, so that the lookup continues; if it then fails, its
        result is UNSEEN.  A query to another nameserver is UNSEEN at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from hsdns.resolver import MODELS
from hsdns.resolver.message import answer_of, wire_of
from hsdns.resolver.model import Answer, Ended, Fate, Packet, Result, Sent, Step, exchange
from hsdns.resolver.report import LookupReport, report_of
from hsdns.wire.iana import Rcode

UNSEEN: Final = "not known: another server answers"
ASSUMED: Final = "taken as missing"
NOT_SEEN: Final = "not seen"
Ask = Callable[[bytes, str, float], Awaitable[tuple[bytes | None, str]]]


class Setting(NamedTuple):
    """The settings of a lookup, apart from the name: the model, its resolv.conf, and the reachable servers.

    `servers` are the addresses of this server; other nameservers are not seen.  Without them all nameservers are this
    server.  `blocked` has the transports that a NetworkPolicy denies, each with a sentence.
    """

    resolver: str
    text: str
    servers: frozenset[str] = frozenset()
    blocked: tuple[tuple[str, str], ...] = ()

    @property
    def nameservers(self) -> str:
        """The nameservers of the resolv.conf, in words."""
        words = [line.split() for line in self.text.splitlines()]
        found = [each[1] for each in words if each[:1] == ["nameserver"] and len(each) > 1]
        return " and ".join(found) if found else "the nameservers of its node"

    def is_seen(self, server: str) -> bool:
        """Whether a nameserver is this server."""
        return not self.servers or server in self.servers


class Lookups:
    """Lookups of one name; `ask` gets a message, "udp" or "tcp", and seconds since the start.

    It returns the reply, and the servers that would have been queried for it.
    """

    def __init__(self, ask: Ask, name: str, types: Sequence[int]) -> None:
        self.name, self.types = name, types
        self._ask = ask
        self._known: dict[tuple[object, ...], tuple[Fate, str]] = {}

    async def look_up(self, setting: Setting, name: str = "") -> LookupReport:
        """Run a lookup, of another name if one is given; raise ValueError for a name that cannot be in a message."""
        model = MODELS[setting.resolver](setting.text, Random(0))
        running = exchange(model, name or self.name, self.types)
        taken: list[Step] = []
        unseen: dict[int, str] = {}
        whom = ""
        servers = model.conf.nameservers
        step = next(running)
        while True:
            taken.append(step)
            fate: Fate = None
            if isinstance(step, Sent):
                packet = step.packet
                fate, why = await self._fate(packet, servers[packet.server], setting)
                if why:
                    whom = why
                    unseen[id(packet)] = ASSUMED if fate is not None else NOT_SEEN
                if not any(map(setting.is_seen, servers)):
                    taken.append(
                        Ended(
                            model.now, Result((), UNSEEN, f"{whom} would answer for {packet.name}")
                        )
                    )
                    break
            try:
                step = running.send(fate)
            except StopIteration:
                break
        last = taken[-1]
        # No top-level domain has addresses, whichever server is queried.
        dotted = [
            each.packet for each in taken if isinstance(each, Sent) and "." in each.packet.name
        ]
        missed = [each.name for each in dotted if id(each) in unseen]
        if missed and isinstance(last, Ended) and last.result.error:
            why = f"{whom} would answer for {missed[-1]}"
            taken[-1] = last._replace(result=Result((), UNSEEN, why))
        return report_of(model, taken, unseen)

    async def _fate(self, packet: Packet, server: str, setting: Setting) -> tuple[Fate, str]:
        if packet.transport in dict(setting.blocked):
            return None, ""
        if not setting.is_seen(server):
            return None, setting.nameservers
        key = packet.transport, packet.rrtype, packet.name, packet.edns, packet.cookie, packet.ad
        if key not in self._known:
            reply, whom = await self._ask(wire_of(packet, 1), packet.transport, packet.at)
            if whom:
                missing = Answer(Rcode.NXDOMAIN)
                self._known[key] = (0.0, missing), whom
            else:
                answer: Answer | None = None if reply is None else answer_of(reply, packet)
                self._known[key] = (None if answer is None else (0.0, answer)), ""
        return self._known[key]
