"""The rules of faults: /v1/faults lists, adds and removes them, /v1/faults/hits streams their hits.

Path: routes.py -> here -> server/faults.py.
Rule: only a server that was started with support for rules accepts or lists them, so a client that can connect to the
      socket of any other server cannot make it answer wrongly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from hsdns.faults.rules import Rule, RuleError, Rules
from hsdns.http_page import Asked, HttpRefusal
from hsdns.server.control.door import NOT_SERVING, Door, to_line
from hsdns.server.control.dry_run import dry_run
from hsdns.server.faults import StandingFaults, corefile_rules

POLL: Final = 0.1  # seconds between two polls for hits
# What `queries` counts for rules that are not about queries.
COUNTS: Final = {"connection": "connections", "process": "restarts", "watch": "requests"}
REFUSED: Final = "this server was not started for faults; start it with -faults, which hsdns serve does by itself"


class NewRule(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a POST: the words of a rule."""

    rule: str


async def faults(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
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


async def hits(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """Write a line for each query that a rule hits from now on."""
    standing = _standing(door)
    seen = {rules: rules.after(0)[0] for rules in _sets(door, standing)}
    yield b""
    while door.instance() is not None or standing.is_restarting:
        await asyncio.sleep(POLL)
        time = datetime.fromtimestamp(door.wall(), UTC).isoformat(timespec="milliseconds")
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
        "state": why or "standing",
        "hits": rule.hits,
        "queries": rule.seen,
        "counts": COUNTS.get(rule.action.about, "queries"),
        "seed": rule.seed,
        "seconds_left": None if end is None or why else round(end - now, 3),
        "place": rule.place or "control door",
        "digest": rule.digest,
    }
