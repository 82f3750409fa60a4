"""The rules of faults: /v1/faults lists, adds and removes them, /v1/faults/hits streams their hits.

Path: routes.py -> here -> server/faults.py.
Rule: only a server that was started with support for rules accepts or lists them, so a client that can connect to the
      socket of any other server cannot make it answer wrongly.

Applies a rule of faults to the last queries, without effect: POST /v1/faults?dry-run=COUNT:
Rule: the rule is parsed and checked like a rule to be added, but never becomes active.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from hsdns.assemble import ServedAddress
from hsdns.chain import Endpoint
from hsdns.faults.dry_run import DryRun, Past
from hsdns.faults.handler import NO_PODS
from hsdns.faults.rules import Rule, RuleError, Rules
from hsdns.faults.selector import UNKNOWN, Asked, PodOf
from hsdns.http_page import HttpRefusal, PageRequest
from hsdns.plugins.fault import pod_finder
from hsdns.server.control.door import NOT_SERVING, Door, time_text, to_line
from hsdns.server.control.queries import read_count, to_object
from hsdns.server.faults import StandingFaults, corefile_rules
from hsdns.server.query_tap import SeenQuery
from hsdns.server.runtime import Turn
from hsdns.wire.iana import type_from_text
from hsdns.wire.name import Name

NOT_KEPT: Final = (
    "this server has kept no queries to try a rule on, because it was not started for it: "
    "hsdns serve keeps them"
)


async def dry_run(
    door: Door, standing: StandingFaults, words: list[str], count: str
) -> AsyncGenerator[bytes, None]:
    """Write a line about the rule, and one for each query that it would have hit; raise RuleError."""
    last = read_count("dry-run", count)
    if not door.queries.keeps:
        raise HttpRefusal(404, NOT_KEPT)
    configuration, turn = door.serving().configuration, Turn(door.clock)
    rule = standing.make(words, configuration)
    trial = DryRun(rule, is_drawn="seed" not in words)
    pod_of = pod_finder(configuration.plugins) or NO_PODS
    queries = sorted(door.queries.last()[-last:], key=_came)
    listeners = {each.listen.server: _Served(each) for each in configuration.listeners}
    lines: list[dict[str, Any]] = []
    for seen in queries:
        await turn.end_if_long()
        served = listeners.get(seen.server)
        if served is None or (rule.action.about == "query" and not served.has(seen.name)):
            continue  # rules do not see this query
        bite = trial.see(Past(_came(seen), _asked(seen, served, pod_of), seen.is_hit))
        if bite:
            drawn = {} if bite.drawn is None else {"drawn": bite.drawn}
            lines.append({**to_object(seen, door.began), "hit": bite.line["hit"], **drawn})
    yield to_line(
        {
            "rule": rule.text,
            "queries": len(queries),
            "seconds": round(_came(queries[-1]) - _came(queries[0]), 3) if queries else 0.0,
            "hits": len(lines),
            "may": trial.may,
            "digest": rule.digest,
            "unforeseen": list(trial.unforeseen()),
        }
    )
    for line in lines:
        yield to_line(line)
        await turn.end_if_long()


def _came(seen: SeenQuery) -> float:
    """When a query arrived, in seconds since the epoch."""
    return seen.time - seen.seconds


class _Served:
    """A listener and the zones of its plugins, in lower case."""

    def __init__(self, listener: ServedAddress) -> None:
        listen = listener.listen
        self.local = UNKNOWN if listen.is_wildcard else listen.host
        self._zones = {
            zone.lower: any(block.handlers for block in blocks)
            for zone, blocks in listener.served.items()
        }

    def has(self, name: Name) -> bool:
        """Whether plugins answer for a name."""
        return next((self._zones[each] for each in name.ancestors() if each in self._zones), False)


def _asked(seen: SeenQuery, served: _Served, pod_of: PodOf) -> Asked:
    return Asked(
        seen.name,
        type_from_text(seen.type),
        seen.transport,
        Endpoint(seen.client, seen.port),
        served.local,
        seen.server,
        pod_of,
    )


POLL: Final = 0.1  # seconds between two polls for hits
# What `queries` counts for rules that are not about queries.
COUNTS: Final = {"connection": "connections", "process": "restarts", "watch": "requests"}
REFUSED: Final = "this server was not started for faults; start it with --faults, which hsdns serve does by itself"


class NewRule(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a POST: the words of a rule."""

    rule: str


async def faults(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """List the rules, as lines.  POST adds or tries a rule, DELETE ends one or all; both write the affected rules."""
    standing, instance = _standing(door), door.instance()
    if instance is None and not standing.is_restarting:
        raise HttpRefusal(503, NOT_SERVING)
    configuration = None if instance is None else instance.configuration
    name, dry = asked.parameters.get("name"), asked.parameters.get("dry-run")
    if dry is not None and asked.method != "POST":
        raise HttpRefusal(400, "/v1/faults takes dry-run with POST")
    try:
        if asked.method == "POST":
            if name is not None:
                raise HttpRefusal(
                    400,
                    '/v1/faults takes name with DELETE and GET; a rule that is added has "named"',
                )
            words = _read(asked.body)
            if dry is not None:
                async for line in dry_run(door, standing, words, dry):
                    yield line
                return
            found = [standing.add(words, door.serving().configuration)]
        elif asked.method == "DELETE":
            found = standing.clear() if name is None else [standing.remove(name, configuration)]
        else:
            every = [rule for rules in _sets(door, standing) for rule in rules.all]
            found = [rule for rule in every if name in (None, rule.name)]
    except RuleError as error:
        raise HttpRefusal(400, str(error)) from None
    now = door.clock()
    for rule in found:
        yield to_line(_to_object(rule, now))


async def hits(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """Write a line for each query that a rule hits from now on."""
    standing = _standing(door)
    seen = {rules: rules.after(0)[0] for rules in _sets(door, standing)}
    yield b""
    while door.instance() is not None or standing.is_restarting:
        await asyncio.sleep(POLL)
        time = time_text(door.wall())
        before, seen = seen, {}
        for rules in _sets(door, standing):
            seen[rules], lines = rules.after(before.get(rules, 0))
            for line in lines:
                yield to_line({"time": time, **line})


def _standing(door: Door) -> StandingFaults:
    if door.faults is None:
        raise HttpRefusal(403, REFUSED)
    return door.faults


def _sets(door: Door, standing: StandingFaults) -> list[Rules]:
    instance = door.instance()
    configuration = None if instance is None else instance.configuration
    return [*corefile_rules(configuration), standing.rules]


def _read(body: bytes) -> list[str]:
    try:
        new = msgspec.json.decode(body, type=NewRule)
    except msgspec.DecodeError as error:
        raise HttpRefusal(
            400, f'a rule is added with {{"rule": "drop type AAAA"}}: {error}'
        ) from None
    return new.rule.split()


def _to_object(rule: Rule, now: float) -> dict[str, Any]:
    why, end = rule.is_over(now), rule.end
    return {
        "name": rule.name,
        "rule": rule.text,
        "state": why or "active",
        "hits": rule.hits,
        "queries": rule.seen,
        "counts": COUNTS.get(rule.action.about, "queries"),
        "seed": rule.seed,
        "seconds_left": None if end is None or why else round(end - now, 3),
        "place": rule.place or "control API",
        "digest": rule.digest,
    }
