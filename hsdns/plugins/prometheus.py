"""Exports metrics in the Prometheus format.

Path: step 5, before all plugins that answer; server/http/pages.py calls its page for /metrics.  The server itself uses
QueryCounts for queries that never reach a chain (zone `dropped`).
Source: CoreDNS 1.14.7 plugin/metrics, with the same names, labels and buckets, so existing dashboards and alerts work.
Rule 1: label values are bounded: a record type that is not in TYPES is "other", a zone is one of the Corefile's.
Rule 2: a query costs six dict updates; label tuples are created once and reused.
Rule 3: cacheable: the answer table counts its hits itself, and count_hits() adds them up before the page is made.

Metrics of the Python runtime:
Source: the collectors of prometheus-client, with the same names, so existing dashboards for Python work.

The web configuration file, which configures TLS for /metrics (`tls FILE`):
Source: prometheus/exporter-toolkit, which CoreDNS 1.14.7 uses for the file.
Rule 1: an unknown option is an error, because it may be one that restricts access.
Rule 2: YAML is imported only if there is such a file, because that takes 10 ms.
"""

from __future__ import annotations

import gc
import platform
import ssl
import threading
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Self
from weakref import WeakSet

from hsdns import __version__
from hsdns.answer_table.capabilities import HitCounts, HitLabels
from hsdns.chain import Handler, Next, Request
from hsdns.corefile.keys import listen_address
from hsdns.corefile.properties import Property, flag, one, only_once, read_properties
from hsdns.corefile.tree import Directive, Token
from hsdns.http_page import HttpPage
from hsdns.metrics import SIZE_BUCKETS, TIME_BUCKETS, Counter, Labels, Registry
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.wire.edns import OPT_FIXED_LEN
from hsdns.wire.encode import reply_size
from hsdns.wire.iana import RRType, rcode_to_text, type_to_text
from hsdns.wire.message import Reply
from hsdns.wire.name import Name

TlsContext = ssl.SSLContext
CLIENT_AUTH: Final = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
VERSIONS: Final = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
KNOWN: Final = (
    "cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version", "max_version",
)  # fmt: skip


class _Error(Exception):
    """An error in the web configuration file."""


def read_web_config(token: Token, path: str) -> TlsContext | None:
    """Return the SSL context that a file describes, None if it does not configure TLS; raise CorefileError."""
    import yaml  # noqa: PLC0415 - Rule 2 of the web configuration

    try:
        return _context(yaml.safe_load(Path(path).read_text()), Path(path).parent)
    except (_Error, yaml.YAMLError, OSError, ValueError) as error:
        reason = str(error).replace("\n", " ")
        if isinstance(error, OSError):
            reason = f"{error.filename or path}: {error.strerror or error}"
        raise token.error(f'cannot use "{token.text}" for TLS: {reason}') from error


def _context(content: object, folder: Path) -> TlsContext | None:
    sections = _mapping(content or {}, "the file")
    for name in sections:
        if name != "tls_server_config":
            raise _Error(
                f'"{name}" is not known to hsdns, which has "tls_server_config"; remove it'
            )
    wanted = _mapping(sections.get("tls_server_config") or {}, "tls_server_config")
    if not wanted:
        return None
    for name in wanted:
        if name not in KNOWN:
            raise _Error(f'"{name}" is not known to hsdns, which has {", ".join(KNOWN)}; remove it')
    for name in ("cert_file", "key_file"):
        if not wanted.get(name):
            raise _Error(f'"{name}" is missing')
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.minimum_version = _one_of(VERSIONS, wanted, "min_version", "TLS12")
    context.maximum_version = _one_of(VERSIONS, wanted, "max_version", "TLS13")
    context.load_cert_chain(
        folder / str(wanted["cert_file"]), folder / str(wanted["key_file"]), lambda: b""
    )
    authority = wanted.get("client_ca_file")
    if authority:
        context.load_verify_locations(cafile=folder / str(authority))
    context.verify_mode = _one_of(CLIENT_AUTH, wanted, "client_auth_type", "NoClientCert")
    if context.verify_mode != ssl.CERT_NONE and not authority:
        raise _Error('"client_auth_type" requires "client_ca_file"; add it')
    return context


def _mapping(found: object, what: str) -> Mapping[str, Any]:
    if not isinstance(found, Mapping):
        raise _Error(f"{what} is not a mapping")
    return found


def _one_of(known: Mapping[str, Any], wanted: Mapping[str, Any], name: str, default: str) -> Any:
    value = wanted.get(name, default)
    if value not in known:
        raise _Error(f'"{name}: {value}" is not one of: {", ".join(known)}')
    return known[value]


_registered: Final[WeakSet[Registry]] = WeakSet()


def show_runtime(metrics: Registry) -> None:
    """Register the metrics, once; as in CoreDNS, a reload does not remove them."""
    if metrics in _registered:
        return
    _registered.add(metrics)
    counters = {
        "collected": metrics.counter("python_gc_objects_collected_total", ("generation",)),
        "uncollectable": metrics.counter("python_gc_objects_uncollectable_total", ("generation",)),
        "collections": metrics.counter("python_gc_collections_total", ("generation",)),
    }
    threads = metrics.gauge("hsdns_runtime_threads")
    metrics.gauge("python_info", ("implementation", "major", "minor", "patchlevel", "version")).set(
        1,
        (
            platform.python_implementation(),
            *platform.python_version_tuple(),
            platform.python_version(),
        ),
    )

    def update() -> None:
        for generation, found in enumerate(gc.get_stats()):
            for what, counter in counters.items():
                counter.values[(str(generation),)] = found[what]
        threads.set(threading.active_count())

    metrics.before_collect(update)


DEFAULT_ADDRESS: Final = "localhost:9153"
# The zone label of queries that no block answers; without a final dot, so it is never the name of a zone.
DROPPED: Final = "dropped"
TYPES: Final = {
    rrtype: type_to_text(rrtype)
    for rrtype in (
        RRType.A, RRType.AAAA, RRType.ANY, RRType.AXFR, RRType.CNAME, RRType.DNSKEY, RRType.DS, RRType.HTTPS,
        RRType.IXFR, RRType.MX, RRType.NS, RRType.NSEC, RRType.NSEC3, RRType.PTR, RRType.RRSIG, RRType.SOA,
        RRType.SRV, RRType.SVCB, RRType.TXT,
    )
}  # fmt: skip
_SERVER: Final = ("server", "zone", "view")
_NO_VIEW: Final = ""  # a block with a view has no answer table


class _Series(NamedTuple):
    """The label tuples of one kind of query."""

    request: Labels
    server: Labels
    protocol: Labels


class QueryCounts:
    """The metrics of queries, answered by a chain, the answer table or the server itself."""

    def __init__(self, metrics: Registry) -> None:
        self._requests = metrics.counter(
            "coredns_dns_requests_total", (*_SERVER, "proto", "family", "type")
        )
        self._durations = metrics.histogram(
            "coredns_dns_request_duration_seconds", TIME_BUCKETS, _SERVER
        )
        self._request_sizes = metrics.histogram(
            "coredns_dns_request_size_bytes", SIZE_BUCKETS, (*_SERVER, "proto")
        )
        self._do = metrics.counter("coredns_dns_do_requests_total", _SERVER)
        self._response_sizes = metrics.histogram(
            "coredns_dns_response_size_bytes", SIZE_BUCKETS, (*_SERVER, "proto")
        )
        self._responses = metrics.counter(
            "coredns_dns_responses_total", (*_SERVER, "rcode", "plugin")
        )
        self._zones: dict[bytes, str] = {}
        self._series: dict[tuple[str, str, str, str, bool, int], _Series] = {}

    def count(self, request: Request, reply: Reply, seconds: float, plugin: str) -> None:
        """Count a query of a block; `plugin` is the handler after the counting one.

        A reply that the server itself will write counts with size 0 and without a plugin.
        """
        zone = self._zone_text(request.zone)
        written = reply.written and not reply.dropped
        size = reply_size(request.query, reply) if written else 0
        rcode = 0 if reply.dropped else reply.rcode
        self._add(request, zone, rcode, size, seconds, plugin if written else "")

    def count_dropped(self, request: Request, reply: Reply, seconds: float) -> None:
        """Count a query that no chain answered: no block has its name, its class is refused, or a handler failed.

        The size includes the server's own OPT record, as in CoreDNS, which adds it before measuring.
        """
        size, edns = reply_size(request.query, reply), request.query.edns
        if edns is not None:
            size += OPT_FIXED_LEN + len(edns.echoed_options())
        self._add(request, DROPPED, reply.rcode, size, seconds, "")

    def _add(
        self, request: Request, zone: str, rcode: int, size: int, seconds: float, plugin: str
    ) -> None:
        query = request.query
        rrtype = query.qtype if query.qtype in TYPES else 0
        is_v6 = ":" in request.client.address
        key = (request.server, zone, request.view, request.protocol, is_v6, rrtype)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = self._make_series(key)
        self._requests.inc(series.request)
        self._durations.observe(seconds, series.server)
        self._request_sizes.observe(query.size, series.protocol)
        self._response_sizes.observe(size, series.protocol)
        if query.do:
            self._do.inc(series.server)
        self._responses.inc((*series.server, rcode_to_text(rcode), plugin))

    def add(self, hits: HitLabels, protocol: str, counts: HitCounts, plugin: str) -> None:
        """Count the hits of the answer table in a block; `plugin` as in count()."""
        labels = (hits.server, self._zone_text(hits.zone), _NO_VIEW)
        rrtype = TYPES.get(hits.qtype, "other")
        for family, count in (("1", counts.ipv4), ("2", counts.ipv6)):
            if count:
                self._requests.inc((*labels, protocol, family, rrtype), count)
        if counts.do:
            self._do.inc(labels, counts.do)
        self._responses.inc((*labels, rcode_to_text(hits.rcode), plugin), counts.queries)
        self._request_sizes.add(counts.request_sizes, (*labels, protocol))
        self._response_sizes.add(counts.response_sizes, (*labels, protocol))
        self._durations.add(counts.durations, labels)

    def _zone_text(self, zone: Name) -> str:
        text = self._zones.get(zone.lower)
        if text is None:
            text = self._zones[zone.lower] = Name(zone.lower).to_text()
        return text

    @staticmethod
    def _make_series(key: tuple[str, str, str, str, bool, int]) -> _Series:
        server, zone, view, protocol, is_v6, rrtype = key
        labels = (server, zone, view)
        family = "2" if is_v6 else "1"  # IANA address family numbers
        return _Series(
            (*labels, protocol, family, TYPES.get(rrtype, "other")), labels, (*labels, protocol)
        )


@dataclass(eq=False)
class Prometheus(Plugin):
    """Counts a block's queries and serves /metrics."""

    skips_recompute = True
    cacheable = True
    skips_forwarded = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "runtime_metrics": Property(flag, default=False),
        "tls": Property(one(lambda token: token), syntax="FILE", repeat="once"),
    }

    address: str = DEFAULT_ADDRESS
    _: KW_ONLY
    runtime_metrics: bool = False
    tls: TlsContext | None = None

    def __post_init__(self) -> None:
        self._following = ""  # the name of the next handler in the chain

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read `prometheus [ADDRESS]`."""
        address = listen_address(only_once(directives), DEFAULT_ADDRESS)
        options = read_properties(directives, cls.PROPERTIES)
        config: Token | None = options["tls"]
        return cls(
            address,
            runtime_metrics=options["runtime_metrics"],
            tls=read_web_config(config, config.text) if config is not None else None,
        )

    def find_handlers(self, handlers: Sequence[Handler]) -> None:
        """Find the next handler, which the metric of replies names."""
        following = handlers[handlers.index(self) + 1 :]
        self._following = following[0].name if following else ""

    async def start(self, runtime: Runtime) -> None:
        """Register the metrics, and serve /metrics."""
        self._clock = runtime.clock
        self._counts = QueryCounts(runtime.metrics)
        panics(runtime.metrics)
        runtime.metrics.gauge("coredns_build_info", ("version", "revision", "goversion")).set(
            1, (__version__, "", f"{platform.python_implementation()} {platform.python_version()}")
        )
        if self.runtime_metrics:
            show_runtime(runtime.metrics)
        page = MetricsPage(runtime.metrics)
        # It takes milliseconds; counts are added on the loop, so counts from other threads are added up there.
        shown = HttpPage(page, is_slow=True, prepare=runtime.metrics.fold, tls=self.tls)
        runtime.serve_http(self.address, {"/metrics": shown})

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Pass the query on, and count it with its reply."""
        reply = await next(request)
        self._counts.count(request, reply, self._clock() - request.now, self._following)
        return reply

    def count_hits(self, labels: HitLabels, protocol: str, counts: HitCounts) -> None:
        """Add what the answer table has counted."""
        self._counts.add(labels, protocol, counts, self._following)


# As of CoreDNS, which writes all names with underscores.
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"


class MetricsPage:
    """The page /metrics."""

    def __init__(self, metrics: Registry) -> None:
        self._metrics = metrics

    def __call__(self, path: str) -> tuple[int, str, bytes]:
        """Return all metrics of the process, those of the kernel last."""
        from prometheus_client import (  # noqa: PLC0415 - 45 ms that only a scrape needs
            CollectorRegistry,
            ProcessCollector,
            generate_latest,
        )

        kernel = CollectorRegistry()
        ProcessCollector(registry=kernel)
        return 200, CONTENT_TYPE, self._metrics.to_text() + generate_latest(kernel)


def panics(metrics: Registry) -> Counter:
    """Return the counter of exceptions in handlers that the server has caught."""
    return metrics.counter("coredns_panics_total")


def enable(metrics: Registry, chains: Mapping[tuple[str, str, str], Sequence[str]]) -> None:
    """Export the handlers of each chain: (server, zone, view) -> names.

    Called with all blocks that have `prometheus`, again after a reload; replaces the previous values.
    """
    gauge = metrics.gauge("coredns_plugin_enabled", (*_SERVER, "name"))
    gauge.values = {(*block, name): 1 for block, names in chains.items() for name in names}
