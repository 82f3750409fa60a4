"""The cost of the search list: the queries that a client sent in vain because a search domain was appended to a name.

Path: doctor/cli.py -> here (queries of a recording, in their order) -> rules/checks/pods.py, as an object of the dump.
Rule 1: queries do not show which name the program looked up.  A denial of `NAME.DOMAIN`, where DOMAIN may be a search
        domain of the cluster, counts as a try for NAME if the client then queries NAME without a domain, or finds it
        with another one.
Rule 2: a try that is followed by neither within WINDOW seconds is not counted, because the program may have meant the
        queried name.
Rule 3: the domains are those that the kubelet writes for a pod.  Other domains, such as a node's, count while tries for
        the same name are in progress.
Rule 4: names without a failed query are omitted, so that the object is small: a recording may have millions of queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hsdns.cli.command import FlagError
from hsdns.recording.entry import RecordedQuery
from hsdns.recording.reader import BadRecording, Recording
from hsdns.server.control.queries import stems
from hsdns.sources.cluster_dump import QUERIES_OF

WINDOW: Final = 10.0  # seconds between two queries of one lookup; glibc waits 5 s for a reply
MOST_AT_ONCE: Final = 256  # names of a client that are being looked up


@dataclass(slots=True)
class NameCost:
    """Lookups of a name, each type by itself, and the queries in vain; `searched` if a search domain had it."""

    lookups: int = 0
    extra: int = 0
    searched: bool = False


@dataclass(slots=True)
class ClientCost:
    """The queries of one client, and the names for which it tried search domains in vain."""

    queries: int = 0
    names: dict[str, NameCost] = field(default_factory=dict)


@dataclass(slots=True)
class _Tries:
    """Denials of one name with search domains."""

    count: int
    last: float


class SearchCosts:
    """Counts; `zones` are those of the cluster, such as `cluster.local.`, and `clients` has the result by address."""

    def __init__(self, zones: Iterable[str]) -> None:
        self.clients: dict[str, ClientCost] = {}
        self._zones = [f".{each.lower().strip('.')}" for each in zones if not _is_reverse(each)]
        self._tries: dict[str, dict[tuple[str, str], _Tries]] = {}

    def add(self, at: float, client: str, name: str, rrtype: str, *, is_denied: bool) -> None:
        """Count a query, at a time in seconds; they come in order.  `is_denied` if its reply was NXDOMAIN."""
        asked = name.lower().rstrip(".")
        cost = self.clients.setdefault(client, ClientCost())
        cost.queries += 1
        tries = self._tries.setdefault(client, {})
        shorter = list(self._without_domain(asked))
        candidates = [asked] if is_denied else [asked, *shorter]
        ended = max(
            (each for each in candidates if self._is_open(tries, (each, rrtype), at)),
            key=lambda each: tries[each, rrtype].count,
            default=None,
        )
        if ended is not None:
            found = cost.names.setdefault(ended, NameCost())
            found.lookups += 1
            found.extra += tries.pop((ended, rrtype)).count
            found.searched |= ended != asked
        elif is_denied:
            others = () if shorter else self._of_other_domains(tries, asked, rrtype, at)
            for each in (*shorter, *others):
                if self._is_open(tries, (each, rrtype), at):
                    tries[each, rrtype].count += 1
                    tries[each, rrtype].last = at
                else:
                    tries[each, rrtype] = _Tries(1, at)
            while len(tries) > MOST_AT_ONCE:
                del tries[next(iter(tries))]

    def _without_domain(self, asked: str) -> Iterator[str]:
        """The names that the program may have looked up: the queried name without each possible search domain."""
        for zone in self._zones:
            if asked.endswith(zone):
                found = stems(tuple(asked.removesuffix(zone).encode().split(b".")))
                yield from (b".".join(each).decode() for each in reversed(found))

    def _of_other_domains(
        self, tries: dict[tuple[str, str], _Tries], asked: str, rrtype: str, at: float
    ) -> Iterator[str]:
        for name, of_type in list(tries):
            is_longer = of_type == rrtype and asked.startswith(f"{name}.")
            if is_longer and self._is_open(tries, (name, of_type), at):
                yield name

    @staticmethod
    def _is_open(tries: dict[tuple[str, str], _Tries], key: tuple[str, str], at: float) -> bool:
        found = tries.get(key)
        if found is not None and at - found.last > WINDOW:
            del tries[key]
            found = None
        return found is not None


def _is_reverse(zone: str) -> bool:
    return zone.lower().rstrip(".").endswith(("in-addr.arpa", "ip6.arpa"))


def recorded_queries(path: str) -> dict[str, Any]:
    """The queries of a recording as an object of the dump; raise FlagError."""
    try:
        with Recording.open(path) as recording:
            costs = SearchCosts(recording.header.zones)
            for each in recording:
                if isinstance(each, RecordedQuery) and each.rcode is not None:
                    denied = each.rcode == "NXDOMAIN"
                    costs.add(each.at, each.client, each.name, each.type, is_denied=denied)
    except BadRecording as error:
        raise FlagError(f"--recording: {error}") from None
    except OSError as error:
        raise FlagError(f"--recording {path}: cannot read it: {error.strerror or error}") from None
    if not costs.clients:
        raise FlagError(
            f"--recording {path}: it has no queries; record without --queries=false while clients look names up"
        )
    return {
        "apiVersion": "hsdns.io/v1",
        "kind": QUERIES_OF,
        "metadata": {"name": path},
        "clients": [_client(address, cost) for address, cost in sorted(costs.clients.items())],
    }


def _client(address: str, cost: ClientCost) -> Mapping[str, Any]:
    most = sorted(cost.names.items(), key=lambda each: (-each[1].extra, each[0]))
    names = [
        {"name": name, "lookups": each.lookups, "extra": each.extra, "searched": each.searched}
        for name, each in most
    ]
    return {"address": address, "queries": cost.queries, "names": names}
