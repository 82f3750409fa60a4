"""Applies a rule of faults to the last queries, without effect: POST /v1/faults?dry-run=COUNT.

Path: faults.py -> here -> faults/dry_run.py, with the queries of query_tap.py.
Rule: the rule is parsed and checked like a rule to be added, but never becomes active.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Final

from hsdns.assemble import ServedAddress
from hsdns.chain import Endpoint
from hsdns.faults.dry_run import DryRun, Past
from hsdns.faults.handler import NO_PODS
from hsdns.faults.selector import UNKNOWN, Asked, PodOf
from hsdns.http_page import HttpRefusal
from hsdns.plugins.fault import pod_finder
from hsdns.server.control.door import Door, to_line
from hsdns.server.control.queries import read_count, to_object
from hsdns.server.faults import StandingFaults
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
