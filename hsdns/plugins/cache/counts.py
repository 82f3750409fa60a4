"""The metrics of `cache`.

Path: plugins/cache counts lookups and stored replies here, and adds the counts of the answer table.
Source: CoreDNS 1.14.7 plugin/cache metrics.go.
"""

from __future__ import annotations

from hsdns.chain import Request
from hsdns.metrics import Registry
from hsdns.plugins.cache.options import DENIAL, SUCCESS
from hsdns.plugins.cache.store import Store

_LABELS = ("server", "zones", "view")
_OF_KIND = ("server", "type", "zones", "view")


class Counts:
    """CoreDNS's metrics for one cache; `zones` is its label of that name."""

    def __init__(self, metrics: Registry, zones: str) -> None:
        self._zones = zones
        self._requests = metrics.counter(
            "coredns_cache_requests_total", "The count of cache requests.", _LABELS
        )
        self._misses = metrics.counter(
            "coredns_cache_misses_total",
            "The count of cache misses. Deprecated, derive misses from cache hits/requests counters.",
            _LABELS,
        )
        self._hits = metrics.counter(
            "coredns_cache_hits_total", "The count of cache hits.", _OF_KIND
        )
        self._evictions = metrics.counter(
            "coredns_cache_evictions_total", "The count of cache evictions.", _OF_KIND
        )
        self._entries = metrics.gauge(
            "coredns_cache_entries", "The number of elements in the cache.", _OF_KIND
        )
        self._octets = metrics.gauge(
            "hsdns_cache_bytes", "The memory of the elements in the cache.", _OF_KIND
        )
        self._prefetches = metrics.counter(
            "coredns_cache_prefetch_total",
            "The number of times the cache has prefetched a cached item.",
            _LABELS,
        )
        self._stale = metrics.counter(
            "coredns_cache_served_stale_total",
            "The number of requests served from stale cache entries.",
            _LABELS,
        )
        # Always 0, because replies to other questions never arrive here; dashboards query it.
        metrics.counter(
            "coredns_cache_drops_total",
            "The number responses that are not cached, because the reply is malformed.",
            _LABELS,
        )

    def count_lookup(self, request: Request, kind: str | None) -> None:
        """Count a query and the half that had its answer, None for a miss."""
        labels = self._labels(request)
        self._requests.inc(labels)
        if kind is None:
            self._misses.inc(labels)
        else:
            self._hits.inc((request.server, kind, self._zones, request.view))

    def count_prefetch(self, request: Request) -> None:
        """Count a refresh in the background."""
        self._prefetches.inc(self._labels(request))

    def count_stale(self, request: Request) -> None:
        """Count a stale reply."""
        self._stale.inc(self._labels(request))

    def count_stored(
        self, server: str, view: str, kind: str, evicted: int, success: Store, denial: Store
    ) -> None:
        """Set the size of each half, in entries and octets, and count the evictions from the one of that kind."""
        zones = self._zones
        if evicted:
            self._evictions.inc((server, kind, zones, view), evicted)
        entries, octets = self._entries.values, self._octets.values
        labels = (server, SUCCESS, zones, view)
        entries[labels], octets[labels] = len(success), success.octets
        labels = (server, DENIAL, zones, view)
        entries[labels], octets[labels] = len(denial), denial.octets

    def add(self, server: str, kind: str, hits: int, misses: int) -> None:
        """Count many queries at once, of a block without a view."""
        self._requests.inc((server, self._zones, ""), hits + misses)
        if misses:
            self._misses.inc((server, self._zones, ""), misses)
        if hits:
            self._hits.inc((server, kind, self._zones, ""), hits)

    def _labels(self, request: Request) -> tuple[str, str, str]:
        return request.server, self._zones, request.view
