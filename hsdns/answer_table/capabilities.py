"""Protocols by which the handlers of a block tell the answer table what it may store, count and log.

Path: beside step 2; policy.py looks for them in a block, plugins implement them without naming them.
Rule 1: caching is opt-in: a handler without Cacheable must see every query.
Rule 2: four attributes need no protocol: `skips_recompute` of a handler without an effect on recomputed replies, as it
        only counts, logs or reorders; `skips_forwarded` of one that need not see queries which compiled code forwards;
        `rotates_addresses` of one that puts addresses in another order each time
        (`loadbalance`); `max_payload` of one that lowers EDNS payload sizes, in octets (`bufsize`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self, runtime_checkable

from hsdns.chain import Next, Request
from hsdns.cluster.lookup import PlainValues
from hsdns.fastpath import ClusterNames, Forwarder, LogRecord
from hsdns.fastpath import hit_counts as layout
from hsdns.wire.message import Reply
from hsdns.wire.name import Name


class HitLabels(NamedTuple):
    """The labels of hits that are counted together; `zone` is the server block's."""

    server: str
    zone: Name
    qtype: int
    rcode: int


class HitCounts(NamedTuple):
    """Numbers of queries by address family, with DO, by size and duration, and as hits and misses of `cache`.

    Sizes and durations have the form of metrics.Histogram.add(): counts by bucket, then the sum (octets, seconds).
    """

    ipv4: int
    ipv6: int
    do: int
    request_sizes: Sequence[float]
    response_sizes: Sequence[float]
    durations: Sequence[float]
    cache_hits: int
    cache_misses: int

    @classmethod
    def from_cells(cls, cells: Sequence[int]) -> Self:
        """Name the numbers of one row of take_counts()."""
        return cls(
            ipv4=cells[layout.CELL_IPV4],
            ipv6=cells[layout.CELL_IPV6],
            do=cells[layout.CELL_DO],
            request_sizes=cells[layout.CELL_REQUEST_SIZES : layout.CELL_REPLY_SIZES],
            response_sizes=cells[layout.CELL_REPLY_SIZES : layout.CELL_TIMES],
            durations=(
                *cells[layout.CELL_TIMES : layout.CELL_TIME_SUM],
                cells[layout.CELL_TIME_SUM] / 1e9,
            ),
            cache_hits=cells[layout.CELL_CACHE_HITS],
            cache_misses=cells[layout.CELL_CACHE_MISSES],
        )

    @property
    def queries(self) -> int:
        """The number of all queries."""
        return self.ipv4 + self.ipv6


@runtime_checkable
class Cacheable(Protocol):
    """A handler that need not see every query."""

    # True if replies that pass it may be stored; its module docstring says why.
    cacheable: bool


@runtime_checkable
class AnswerSource(Protocol):
    """The handler whose replies are stored: every dependency of them has a counter (`kubernetes`)."""

    zones: tuple[Name, ...]
    # Whether its replies contain reasons as Extended DNS Errors (RFC 8914).
    explains: bool
    # Whether all of `names` is served.
    has_all_namespaces: bool
    # Whether every address has the name of a Pod in each namespace of `names`.
    has_all_pod_names: bool

    @property
    def names(self) -> ClusterNames:
        """The namespaces and Services that exist."""

    def plain_values(self) -> PlainValues | None:
        """What replies about Services are made from; None if they depend on more."""

    def tells_absence(self, zone: Name) -> bool:
        """Whether all names of a zone that belong to no namespace or Service are nonexistent."""


@runtime_checkable
class AnswersFirst(Protocol):
    """A handler that may answer, change or count single names before the source of answers sees them."""

    def names_answered_first(self, zone: Name) -> tuple[Name, ...] | None:
        """The names in a zone at or below which it may do so; None for any name of the zone.

        When the result changes, the handler calls Runtime.names_answered_first_changed().
        """


@runtime_checkable
class Recomputes(Protocol):
    """A handler that takes part in recomputing an invalidated reply (recompute.py)."""

    async def recompute(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Return what handle() returns for a name of the cluster; do not count, store or wait.

        It may be called in the watch thread, while handle() runs in another one.
        """


@runtime_checkable
class TreatsAlike(Protocol):
    """A handler that may change recomputed replies, but not those of one name and not of another."""

    def treats_alike(self, zone: Name) -> bool:
        """Whether recompute() treats all names of a zone alike, so that their replies differ in records only."""


@runtime_checkable
class CountsHits(Protocol):
    """A handler that counts the queries of its block (`prometheus`)."""

    def count_hits(self, labels: HitLabels, protocol: str, counts: HitCounts) -> None:
        """Add what the answer table has counted."""


@runtime_checkable
class CountsCacheHits(Protocol):
    """A handler that counts the replies of the source as a cache does, and stores replies of its own (`cache`).

    For positive replies of the source it sets Dependencies.mark.
    """

    def stored_octets(self) -> int:
        """The memory of its own replies, for which the answer table makes room."""

    def denial_kind(self, zone: Name) -> str | None:
        """The kind under which it counts names of a zone that do not exist; None where it does not count them."""

    def count_cache_hits(self, server: str, kind: str, hits: int, misses: int) -> None:
        """Add what the answer table has counted."""

    def count_forwarded(self, server: str, entries: Mapping[str, int]) -> None:
        """Set the number of entries of each kind that the answer table has from compiled code."""

    def note_made(
        self,
        server: str,
        kind: str,
        ttl: int,
        key: tuple[bytes, int, int, bool, bool],
        now: float,
    ) -> None:
        """Count a reply of the source as an entry for `ttl` seconds, as handle() would; `now` in monotonic seconds.

        The key is the QNAME in lower case, type and class, DO and CD.
        """


@runtime_checkable
class Forwards(Protocol):
    """The handler whose queries compiled code may ask upstreams (`forward`)."""

    @property
    def compiled(self) -> Forwarder | None:
        """What asks them; None if only handle() does."""

    def forwarded(self) -> tuple[Name, Sequence[Name]]:
        """The zone of its names, and zones whose names it leaves to others."""

    def leave_misses_to_chain(self, leave: bool) -> None:
        """Let compiled code ask nothing, or go on."""

    def count_forwarded(self) -> None:
        """Add what compiled code has counted."""


class Storing(NamedTuple):
    """The least and the most seconds for which each half of a cache stores replies, and zones that it leaves out."""

    success: tuple[int, int]
    denial: tuple[int, int]
    exclusions: tuple[Name, ...]


@runtime_checkable
class StoresForwarded(Protocol):
    """A handler that stores replies to queries that were forwarded (`cache`)."""

    def storing(self, zone: Name) -> Storing | None:
        """How it stores replies for a zone; None if it does more than to store them."""


@runtime_checkable
class LogsHits(Protocol):
    """A handler that writes the query log (`log`).

    `logs_all`: each hit has a line.
    """

    logs_all: bool

    def drop_lines(self, count: int = 1) -> bool:
        """Count lines as lost, and return True, while lines cannot be written; else do nothing."""

    def log_hit(self, request: Request, hit: LogRecord) -> None:
        """Write the line about a query that the answer table has answered."""
