"""Streams the recent queries (/v1/queries), and each second a picture of what they and the server do (/v1/top).

Path: routes.py -> here -> query_tap.py.
Rule 1: each line is one query.  If the tap took only a part of the queries, a line with `share` gives the part that the
        lines after it show.
Rule 2: `last` returns the last queries that the server has kept, and ends; without it each new query is sent as it
        arrives.

Selects names for a reader: the parameters `namespace` and `name`:
Rule: a name belongs to a namespace if it has the namespace's label at the right place in a zone of a kubernetes block,
      even if the name or the namespace does not exist.

The picture of the server:
Rule 1: a picture covers the last WINDOW seconds, or the queries that query_tap.py still has; its rates are computed
        since the previous picture.
Rule 2: `once` returns one picture, up to a second after the request, because a rate needs an interval.
Rule 3: readers of the same selection share its pictures: forty open dashboards cost what one does.

Query rates by type and rcode:
Rule: if every server block has `prometheus`, the rates come from its counters, which count every query.  Otherwise they
      come from the tap: the total is exact, but if the tap took only a part of the queries, types and rcodes are
      estimated from a fair sample.

Finds the clients that send queries in vain because of their search list (ndots):
Rule: a query is wasted if it got NXDOMAIN, its name ends in a search domain of the cluster (NAMESPACE.svc.ZONE,
      svc.ZONE or ZONE), and the rest of the name was resolved in the same period, by itself or with svc.ZONE or ZONE.
      So a name that fails in every form is not wasted: it fails.

The names that fail, at present or in the last 15 minutes:
Rule 1: a name fails if its reply has an rcode other than NOERROR, if there is no reply, or if it is that of a cluster
        IP without endpoints.  Queries that a search list causes in vain are left out.
Rule 2: of the past only names and rates are remembered, whether or not anyone looks; queries are not.

The questions with the longest times to their answers:
Rule: each question is listed once, with its longest time.  The time of a hit of the answer table is that of its batch.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import accumulate
from typing import Any, Final, Generic, NamedTuple, TypeVar

from hsdns.http_page import HttpRefusal, PageRequest
from hsdns.metrics import TIME_BUCKETS, Counter, Histogram
from hsdns.plugins.prometheus import Prometheus
from hsdns.server.control.cluster import ServedChanges
from hsdns.server.control.door import Door, in_pieces, kubernetes_blocks, time_text, to_line
from hsdns.server.control.explain import RESOLVES, Causes, FailingName, Question, key_of, routes
from hsdns.server.faults import corefile_rules
from hsdns.server.query_tap import POLL, SeenQuery
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name

C = TypeVar("C")
FILTERS: Final = ("namespace", "name")
KINDS: Final = (b"svc", b"pod")  # the label that follows the namespace


class QueryFilter(NamedTuple):
    """A selection: a namespace (its label) in the zones, and the names at and below a name; None selects all."""

    zones: tuple[Name, ...] = ()
    namespace: bytes | None = None
    name: Name | None = None

    @classmethod
    def of(cls, door: Door, asked: PageRequest) -> QueryFilter:
        """Read the parameters; raise HttpRefusal."""
        namespace, text = (asked.parameters.get(name) for name in FILTERS)
        name = None
        if text is not None:
            try:
                name = Name.from_text(text)
            except ValueError as error:
                raise HttpRefusal(400, f'name: "{text}" is not a domain name: {error}') from None
        if namespace is None:
            return cls(name=name)
        if not namespace or "." in namespace:
            raise HttpRefusal(400, f'namespace is one label, such as default, not "{namespace}"')
        return cls(cluster_zones(door), namespace.lower().encode(), name)

    def has(self, name: Name) -> bool:
        """Whether a name is selected."""
        if self.name is not None and not name.is_at_or_below(self.name):
            return False
        return self.namespace is None or namespace_of(name, self.zones) == self.namespace


def cluster_zones(door: Door) -> tuple[Name, ...]:
    """The zones of kubernetes blocks that contain names of Services."""
    blocks = kubernetes_blocks(door.serving())
    return tuple(dict.fromkeys(zone for each in blocks for zone in each.answer_set().forward_zones))


def namespace_of(name: Name, zones: tuple[Name, ...]) -> bytes | None:
    """The label of the namespace in a name, in lower case; None if the name has no such label."""
    zone = name.longest_of(zones)
    labels = () if zone is None else name.below(zone)
    return labels[-2] if len(labels) > 1 and labels[-1] in KINDS else None


QUERY_PARAMETERS: Final = ("last", *FILTERS)
MOST: Final = 1000  # largest number that `last` may request
NOT_KEPT: Final = (
    "this server has kept no queries, because it was not started for it: hsdns serve keeps them; "
    "read /v1/queries without last to see those that come"
)


async def queries(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """Write a line for each query."""
    door.serving()
    wanted = QueryFilter.of(door, asked)
    turn = Turn(door.clock)

    def pieces(found: Iterable[SeenQuery]) -> AsyncGenerator[bytes, None]:
        return in_pieces((to_line(to_object(each, door.began)) for each in found), turn)

    if "last" in asked.parameters:
        count = read_count("last", asked.parameters["last"])
        if not door.queries.keeps:
            raise HttpRefusal(404, NOT_KEPT)
        found = [each for each in door.queries.last() if wanted.has(each.name)][-count:]
        async for piece in pieces(found):
            yield piece
        return
    tap = door.queries
    with tap.looking():
        share, position = 1.0, tap.collected
        yield _share(door, share)
        while door.instance() is not None:
            tap.collect()
            new, position = list(tap.since(position)), tap.collected
            if new and (now := 1 / new[-1].weight) != share:
                share = now
                yield _share(door, share)
            async for piece in pieces(each for each in new if wanted.has(each.name)):
                yield piece
            await asyncio.sleep(POLL)


def read_count(name: str, text: str) -> int:
    """Read the parameter with the number of last queries; raise HttpRefusal."""
    if text.isdecimal() and text.isascii() and len(text) < 6 and 0 < int(text) <= MOST:
        return int(text)
    raise HttpRefusal(400, f'{name} is a number of queries from 1 to {MOST}, not "{text}"')


def _share(door: Door, share: float) -> bytes:
    at = round(door.clock() - door.began, 6)
    return to_line({"time": time_text(door.wall()), "at": at, "share": round(share, 4)})


def to_object(seen: SeenQuery, began: float) -> dict[str, Any]:
    """The members of a query's line; `began` is the start of the server, in monotonic seconds."""
    return {
        "time": time_text(seen.time),
        "at": round(seen.at - began, 6),
        "server": seen.server,
        "client": seen.client,
        "transport": seen.transport,
        "name": seen.name.to_text(),
        "type": seen.type,
        "rcode": seen.rcode,
        "duration_ms": round(seen.seconds * 1000, 3),
        "answered_by": "table" if seen.is_hit else "chain",
        "size": seen.size,
        "truncated": seen.is_truncated,
    }


STEP: Final = 100  # queries; the slowest computation over them takes half a millisecond


async def steps(found: Sequence[SeenQuery], turn: Turn) -> AsyncGenerator[SeenQuery, None]:
    """Yield all queries; after each STEP of them let other tasks run, if this iteration of the loop has become long."""
    for at in range(0, len(found), STEP):
        for each in found[at : at + STEP]:
            yield each
        await turn.end_if_long()


NO_REPLY: Final = "no reply"  # in place of an rcode
_HITS: Final = ("hit", "region")  # results of hsdns_table_lookups_total
# Counters, and the label by which each is shown.
_SERIES: Final = {
    "coredns_dns_requests_total": "type",
    "coredns_dns_responses_total": "rcode",
    "hsdns_table_lookups_total": "result",
}


class _RateCounts(NamedTuple):
    """The number of all queries since the start: by the labels of _SERIES, and by the tap."""

    series: list[dict[str, float]]
    seen: int
    position: int


class _Compared(ABC, Generic[C]):
    """Compares counts with those of the previous call."""

    def __init__(self, door: Door) -> None:
        self._door, self._at = door, door.clock()
        self._counts = self._count()

    @abstractmethod
    def _count(self) -> C:
        """The counts now."""

    def _since(self) -> tuple[float, C, C]:
        """The seconds since the last call, the counts then and now."""
        now, before = self._door.clock(), self._counts
        seconds = max(now - self._at, 0.001)
        self._at, self._counts = now, self._count()
        return seconds, before, self._counts


class Rates(_Compared[_RateCounts]):
    """Compares the counts with those of the previous call."""

    def take(self) -> dict[str, Any]:
        """The rates per second since the last call; `exact` says whether every query was counted."""
        seconds, before, counts = self._since()
        by_type, by_rcode, lookups = (
            {key: count - old.get(key, 0) for key, count in new.items()}
            for new, old in zip(counts.series, before.series, strict=True)
        )
        total, is_exact = sum(by_type.values()), True
        if not self._is_counted():
            by_type, by_rcode = defaultdict(float), defaultdict(float)
            for each in self._door.queries.since(before.position):
                by_type[each.type] += each.weight
                by_rcode[each.rcode or NO_REPLY] += each.weight
                is_exact = is_exact and each.weight == 1
            total = float(counts.seen - before.seen)
        hits = sum(lookups.get(each, 0) for each in _HITS)
        return {
            "queries_per_second": round(total / seconds, 2),
            "table_share": round(min(hits / total, 1.0), 4) if total else None,
            "by_type": _each_second(by_type, seconds),
            "by_rcode": _each_second(by_rcode, seconds),
            "exact": is_exact,
        }

    def _is_counted(self) -> bool:
        blocks = self._door.serving().configuration.blocks
        return all(any(isinstance(each, Prometheus) for each in block.plugins) for block in blocks)

    def _count(self) -> _RateCounts:
        metrics, queries = self._door.metrics, self._door.queries
        metrics.fold()
        found: dict[str, dict[str, float]] = {name: defaultdict(float) for name in _SERIES}
        for metric in metrics:
            if metric.name in found and isinstance(metric, Counter):
                place = metric.labels.index(_SERIES[metric.name])
                for labels, count in metric.values.items():
                    found[metric.name][labels[place]] += count
        queries.collect()
        return _RateCounts([*found.values()], queries.seen, queries.collected)


def _each_second(counts: Mapping[str, float], seconds: float) -> dict[str, float]:
    """Rates, the highest first."""
    found = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return {key: round(count / seconds, 2) for key, count in found if count}


DURATIONS: Final = "coredns_proxy_request_duration_seconds"
_CELLS: Final = len(TIME_BUCKETS) + 2


class Upstreams(_Compared[dict[str, list[float]]]):
    """Compares the counts of each upstream with those of the previous call."""

    def take(self) -> list[dict[str, Any]]:
        """Each upstream with replies per second, failures and median time since the last call."""
        seconds, before, now = self._since()
        found = []
        for address, counts in now.items():
            earlier = before.get(address, [0.0] * _CELLS)
            *new, failures = (count - old for count, old in zip(counts, earlier, strict=True))
            found.append(
                {
                    "address": address,
                    "per_second": round(sum(new) / seconds, 2),
                    # The counts restart from 0 after a reload.
                    "failures": int(failures if failures >= 0 else counts[-1]),
                    "p50_ms": median(new),
                }
            )
        return found

    def _count(self) -> dict[str, list[float]]:
        """The upstreams of the serving configuration: replies by duration, as in Histogram, and failures at the end."""
        found: dict[str, list[float]] = {}
        for route in routes(self._door.serving()):
            for upstream in route.upstreams:
                found.setdefault(str(upstream), [0.0] * _CELLS)[-1] += upstream.failed
        for metric in self._door.metrics:
            if metric.name == DURATIONS and isinstance(metric, Histogram):
                for (_, address, _), cells in metric.values.items():
                    for at, count in enumerate(cells[:-1] if address in found else ()):
                        found[address][at] += count
        return found


def median(counts: Sequence[float]) -> float | None:
    """The median reply time in milliseconds, interpolated within its bucket; None without replies.

    If the median is above the last bucket, it is the bound of that bucket.
    """
    half = sum(counts) / 2
    if not half:
        return None
    sums = list(accumulate(counts))
    place = bisect_left(sums, half)
    if place >= len(TIME_BUCKETS):
        return float(TIME_BUCKETS[-1] * 1000)
    below, above = (float(each) for each in ((0.0, *TIME_BUCKETS)[place], TIME_BUCKETS[place]))
    part = (half - (sums[place] - counts[place])) / counts[place]
    return round((below + (above - below) * part) * 1000, 3)


MOST_WASTED: Final = 10
SVC: Final = b"svc"
Domain = tuple[bytes, ...]


async def wasted(found: Sequence[SeenQuery], zones: tuple[Name, ...], turn: Turn) -> set[int]:
    """The id() of the wasted queries."""
    known: dict[bytes, list[Domain]] = {}

    def stems_of(name: Name) -> list[Domain]:
        if name.lower not in known:
            zone = name.longest_of(zones)
            known[name.lower] = [] if zone is None else stems(name.below(zone))
        return known[name.lower]

    resolved: set[Domain] = set()
    failed: list[SeenQuery] = []
    async for each in steps(found, turn):
        if each.rcode == "NOERROR":
            resolved.add(each.name.labels)
            # A name found with the first search domain wastes no query, so only the later domains count.
            resolved.update(stems_of(each.name)[-2:])
        elif each.rcode == "NXDOMAIN":
            failed.append(each)
    return {
        id(each)
        async for each in steps(failed, turn)
        if any(stem in resolved for stem in stems_of(each.name))
    }


async def search_waste(
    found: Sequence[SeenQuery], vain: set[int], turn: Turn
) -> list[dict[str, Any]]:
    """The clients that send most wasted queries."""
    queries, in_vain = defaultdict[str, float](float), defaultdict[str, float](float)
    examples: dict[str, str] = {}
    async for each in steps(found, turn):
        queries[each.client] += each.weight
        if id(each) in vain:
            in_vain[each.client] += each.weight
            examples[each.client] = each.name.to_text()
    worst = sorted(in_vain.items(), key=lambda each: (-each[1], each[0]))[:MOST_WASTED]
    return [
        {
            "client": client,
            "queries": round(queries[client]),
            "wasted": round(count),
            "example": examples[client],
        }
        for client, count in worst
    ]


def stems(labels: Domain) -> list[Domain]:
    """A name below a zone without the search domains of the cluster: a namespace's, that of Services, and the zone."""
    ends = (2, 1, 0) if labels[-1:] == (SVC,) else (0,)
    return [labels[: len(labels) - end] for end in ends if len(labels) > end]


MOST_FAILING: Final = 10


async def failing(
    found: Sequence[SeenQuery],
    vain: set[int],
    turn: Turn,
    leads_nowhere: Callable[[Name], bool] = lambda name: False,
    most: int = MOST_FAILING,
) -> list[FailingName]:
    """The names that fail most often."""
    names: dict[Question, FailingName] = {}
    async for each in steps(found, turn):
        rcode = each.rcode or NO_REPLY
        if id(each) in vain or (rcode == "NOERROR" and not leads_nowhere(each.name)):
            continue
        key = each.name.lower, each.type, rcode
        entry = names.get(key)
        if entry is None:
            entry = names[key] = FailingName(each.name.lowered(), each.type, rcode)
        entry.queries += each.weight
        entry.last = max(entry.last, each.time)
    return sorted(names.values(), key=lambda each: (-each.queries, each.name.lower))[:most]


def nowhere(door: Door) -> Callable[[Name], bool]:
    """Whether a name leads to nothing, as a cluster IP without endpoints; False if the source has none at all."""
    sets = [
        each.answer_set()
        for each in kubernetes_blocks(door.serving())
        if any(True for _ in each.store.services.endpoint_ips.addresses())
    ]

    @cache
    def leads_nowhere(name: Name) -> bool:
        for answer_set in sets:
            zone = name.longest_of(answer_set.forward_zones)
            if zone is not None:
                return answer_set.lookup.is_dead_end(name, zone)
        return False

    return leads_nowhere


EVERY: Final = 15.0  # seconds between two rates that are remembered
REMEMBERED: Final = 900.0  # seconds
MOST_REMEMBERED: Final = 256  # names that failed
_SETTLED: Final = 5.0  # seconds in which the rest of a search list is tried


class Past:
    """What is remembered of the last 15 minutes, for readers that come later: rates, and names that failed."""

    def __init__(self) -> None:
        self.rates: deque[dict[str, Any]] = deque(maxlen=round(REMEMBERED / EVERY))
        self._failed: dict[Question, FailingName] = {}
        self._position = 0  # in the history of queries

    async def note(self, door: Door, turn: Turn) -> None:
        """Add the names that have failed since the last call."""
        queries, now = door.queries, door.wall()
        new = list(queries.since(self._position))
        settled = [each for each in new if each.time < now - _SETTLED]
        self._position = queries.collected - (len(new) - len(settled))
        if settled:
            every = list(queries.since(0))
            vain = await wasted(every, cluster_zones(door), turn)
            for each in await failing(settled, vain, turn, nowhere(door), MOST_REMEMBERED):
                known = self._failed.pop(key_of(each), each)
                known.last = each.last
                self._failed[key_of(each)] = known  # the last to fail is the last here
        for key, each in list(self._failed.items()):
            if len(self._failed) > MOST_REMEMBERED or each.last < now - REMEMBERED:
                del self._failed[key]

    def failed(self, wanted: QueryFilter, shown: Sequence[FailingName]) -> list[FailingName]:
        """The selected names that have failed, but those that are shown already; the last one first."""
        known = {key_of(each) for each in shown}
        return [
            FailingName(each.name, each.type, each.rcode, 0.0, each.last)
            for key, each in reversed(self._failed.items())
            if key not in known and wanted.has(each.name)
        ]


def past_of(door: Door) -> Past:
    """What is remembered."""
    if door.past is None:
        door.past = Past()
    found: Past = door.past
    return found


async def remember(door: Door) -> None:
    """Remember rates and names, until the server ends."""
    past, rates = past_of(door), Rates(door)
    while True:
        await asyncio.sleep(EVERY)
        if door.instance() is None:
            continue
        found = rates.take()
        failed = sum(rate for rcode, rate in found["by_rcode"].items() if rcode != "NOERROR")
        row = {"time": time_text(door.wall()), "queries_per_second": found["queries_per_second"]}
        past.rates.append({**row, "failing_per_second": round(failed, 2)})
        await past.note(door, Turn(door.clock, LONGEST))


MOST_SLOW: Final = 10


async def slowest(found: Sequence[SeenQuery], turn: Turn) -> list[dict[str, Any]]:
    """The slowest questions, and the listeners that received them."""
    longest: dict[tuple[bytes, str], SeenQuery] = {}
    async for each in steps(found, turn):
        key = each.name.lower, each.type
        known = longest.get(key)
        if known is None or each.seconds > known.seconds:
            longest[key] = each
    worst = sorted(longest.values(), key=lambda each: (-each.seconds, each.name.lower))[:MOST_SLOW]
    return [
        {
            "name": each.name.to_text(),
            "type": each.type,
            "duration_ms": round(each.seconds * 1000, 3),
            "server": each.server,
        }
        for each in worst
    ]


TOP_PARAMETERS: Final = ("once", *FILTERS)
INTERVAL: Final = 1.0  # seconds between two pictures
LONGEST: Final = 0.0004  # seconds of work without a break: queries wait for it, and readers ask for many pictures
WINDOW: Final = 60.0  # seconds of failures, waste and slow queries in a picture


async def top(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """Write each picture, as docs/openapi.yaml describes it, as a line."""
    is_once = _read_once(asked.parameters.get("once"))
    door.serving()
    wanted = QueryFilter.of(door, asked)
    with door.queries.looking(), _shared(door, wanted) as pictures:
        number = pictures.number
        while await pictures.after(number):
            yield pictures.last
            number = pictures.number
            if is_once:
                break


class _Pictures:
    """The pictures of one selection, for all its readers: `last` is the line of the last one, `number` its number."""

    def __init__(self, door: Door, wanted: QueryFilter) -> None:
        self._door = door
        self._painter = _Painter(door, wanted)
        self._painting = asyncio.Lock()  # held by the reader that makes the next picture
        self.number, self.last, self.readers = 0, b"", 0

    async def after(self, number: int) -> bool:
        """Wait for a picture after one that a reader has; return False if the server has ended."""
        door = self._door
        async with self._painting:
            if self.number > number:
                return True
            end = door.clock() + INTERVAL
            while door.clock() < end:
                await asyncio.sleep(POLL)
                door.queries.collect()
            if door.instance() is None:
                return False
            async with door.painting:
                self.last = to_line(await self._painter.paint())
            self.number += 1
            return True


@contextmanager
def _shared(door: Door, wanted: QueryFilter) -> Iterator[_Pictures]:
    """The pictures of a selection, which exist while they have readers."""
    found = door.pictures.get(wanted)
    if found is None:
        found = door.pictures[wanted] = _Pictures(door, wanted)
    found.readers += 1
    try:
        yield found
    finally:
        found.readers -= 1
        if not found.readers:
            del door.pictures[wanted]


def _faults(door: Door) -> Iterator[dict[str, Any]]:
    """The rules of faults that stand."""
    instance, now = door.instance(), door.clock()
    sets = [] if instance is None else corefile_rules(instance.configuration)
    for rules in [*sets, *([door.faults.rules] if door.faults is not None else [])]:
        for rule in rules.standing.values():
            left = None if rule.end is None else round(max(rule.end - now, 0.0), 3)
            yield {"name": rule.name, "what": rule.what, "hits": rule.hits, "seconds_left": left}


class _Painter:
    """Makes the pictures of one selection."""

    def __init__(self, door: Door, wanted: QueryFilter) -> None:
        self._door, self._wanted = door, wanted
        self._turn = Turn(door.clock, LONGEST)
        self._rates, self._upstreams = Rates(door), Upstreams(door)
        self._changes, self._causes = ServedChanges(door, wanted.has), Causes(door)

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
            "past": list(past_of(door).rates),
            "failing": await self._failing(shown, vain, _span(recent, now)),
            "changes": await self._changes.take(turn),
            "slowest": await slowest(shown, turn),
            "search_waste": await search_waste(shown, vain, turn),
            "upstreams": self._upstreams.take(),
            "faults": list(_faults(door)),
        }

    async def _failing(
        self, shown: list[SeenQuery], vain: set[int], span: float
    ) -> list[dict[str, Any]]:
        names = await failing(shown, vain, self._turn, nowhere(self._door))
        names = [*names, *past_of(self._door).failed(self._wanted, names)][:MOST_FAILING]
        return [
            {
                "name": each.name.to_text(),
                "type": each.type,
                "rcode": each.rcode,
                "per_second": round(each.queries / span, 3),
                "last": time_text(each.last),
                "cause": why.cause,
                "todo": why.todo,
            }
            for each, why in zip(names, await self._causes.of(names), strict=True)
            if each.rcode != "NOERROR" or why.cause != RESOLVES
        ]


def _span(recent: list[SeenQuery], now: float) -> float:
    """The period of the known queries in seconds, for their rate: at least that between two pictures."""
    return max(now - recent[0].time, INTERVAL) if recent else INTERVAL


def _read_once(text: str | None) -> bool:
    if text not in (None, "0", "1"):
        raise HttpRefusal(400, f'once is 1 for a single picture, or 0, not "{text}"')
    return text == "1"
