"""Sends a picture of the server every second: /v1/top.

Path: routes.py -> here -> the modules beside this one.
Rule 1: a picture covers the last WINDOW seconds, or the queries that query_tap.py still has; its rates are computed
        since the previous picture.
Rule 2: `once` returns one picture, a second after the request, because a rate needs an interval.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from hsdns.http_page import Asked, HttpRefusal
from hsdns.server.control.door import Door, time_text, to_line
from hsdns.server.control.query_filter import FILTERS, QueryFilter, cluster_zones
from hsdns.server.control.top.causes import Causes
from hsdns.server.control.top.failing import failing
from hsdns.server.control.top.rates import Rates
from hsdns.server.control.top.search_waste import search_waste, wasted
from hsdns.server.control.top.served_changes import ServedChanges
from hsdns.server.control.top.slowest import slowest
from hsdns.server.control.top.steps import steps
from hsdns.server.control.top.upstreams import Upstreams
from hsdns.server.query_tap import POLL, SeenQuery
from hsdns.server.runtime import Turn

PARAMETERS: Final = ("once", *FILTERS)
INTERVAL: Final = 1.0  # seconds between two pictures
LONGEST: Final = 0.0004  # seconds of work without a break: queries wait for it, and readers ask for many pictures
WINDOW: Final = 60.0  # seconds of failures, waste and slow queries in a picture


async def top(door: Door, asked: Asked) -> AsyncGenerator[bytes, None]:
    """Write each picture as a line."""
    is_once = _read_once(asked.parameters.get("once"))
    async with aclosing(pictures(door, asked)) as found:
        async for picture in found:
            yield to_line(picture)
            if is_once:
                break


async def pictures(door: Door, asked: Asked) -> AsyncGenerator[dict[str, Any], None]:
    """The pictures, as docs/openapi.yaml describes them."""
    door.serving()
    wanted = QueryFilter.of(door, asked)
    with door.queries.looking():
        painter = _Painter(door, wanted)
        while True:
            end = door.clock() + INTERVAL
            while door.clock() < end:
                await asyncio.sleep(POLL)
                door.queries.collect()
            if door.instance() is None:
                return
            async with door.painting:
                picture = await painter.paint()
            yield picture


class _Painter:
    """Makes the pictures of one reader."""

    def __init__(self, door: Door, wanted: QueryFilter) -> None:
        self._door, self._wanted = door, wanted
        self._turn = Turn(door.clock, LONGEST)
        self._rates, self._upstreams = Rates(door), Upstreams(door)
        self._changes, self._causes = ServedChanges(door, wanted), Causes(door)

    async def paint(self) -> dict[str, Any]:
        door, turn, now = self._door, self._turn, self._door.wall()
        rates = self._rates.take()
        await turn.end_if_long()
        recent = [each for each in door.queries.since(0) if each.time >= now - WINDOW]
        await turn.end_if_long()
        vain = await wasted(recent, cluster_zones(door), turn)
        shown = [each async for each in steps(recent, turn) if self._wanted.has(each.name)]
        return {
            "time": time_text(now),
            "uptime_seconds": round(door.clock() - door.began, 3),
            "rates": rates,
            "failing": await self._failing(shown, vain, _span(recent, now)),
            "changes": await self._changes.take(turn),
            "slowest": await slowest(shown, turn),
            "search_waste": await search_waste(shown, vain, turn),
            "upstreams": self._upstreams.take(),
        }

    async def _failing(
        self, shown: list[SeenQuery], vain: set[int], span: float
    ) -> list[dict[str, Any]]:
        names = await failing(shown, vain, self._turn)
        return [
            {
                "name": each.name.to_text(),
                "type": each.type,
                "rcode": each.rcode,
                "per_second": round(each.queries / span, 3),
                "last": time_text(each.last),
                "cause": cause,
            }
            for each, cause in zip(names, await self._causes.of(names), strict=True)
        ]


def _span(recent: list[SeenQuery], now: float) -> float:
    """The period of the known queries in seconds, for their rate: at least that between two pictures."""
    return max(now - recent[0].time, INTERVAL) if recent else INTERVAL


def _read_once(text: str | None) -> bool:
    if text not in (None, "0", "1"):
        raise HttpRefusal(400, f'once is 1 for a single picture, or 0, not "{text}"')
    return text == "1"
