"""Answer the names of a Kubernetes cluster.

Path: step 5, behind cache and hosts, in front of forward: what it does not know may go upstream.
Rule 1: a question is answered from one Service value; only an ExternalName that points outside the zone waits.
Rule 2: a missing name falls through before it is asked whether the cluster was read (CoreDNS handler.go); only then
        SERVFAIL (not synced) or NXDOMAIN.
Cacheable: yes, its replies depend on the question and the store alone, and the store tells what changed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Final, Self

from hsdns.chain import Block, Handler, Next, Request, Runtime
from hsdns.cluster.answer import ClusterAnswers, NoSuchName
from hsdns.cluster.objects import Event
from hsdns.cluster.reverse import is_reverse
from hsdns.cluster.selector import Selector
from hsdns.cluster.source import Source
from hsdns.cluster.store import Store
from hsdns.corefile.keys import zones_from_args
from hsdns.corefile.properties import (
    Property,
    choice,
    duration,
    flag,
    integer,
    many,
    number,
    one,
    only_once,
    read_properties,
    text,
)
from hsdns.corefile.tree import CorefileError, Directive, Line, Position, Token
from hsdns.fastpath import ClusterNames
from hsdns.sources import source_from
from hsdns.sources.api_access import ApiAccess, Words
from hsdns.sources.api_server import ApiServer, Wanted
from hsdns.sources.snapshot_file import SnapshotFile, show_serving
from hsdns.sources.store_check import check_interval, check_store
from hsdns.wire.iana import Rcode
from hsdns.wire.message import Query, Reply, nxdomain
from hsdns.wire.name import ROOT, Name

log = logging.getLogger("hsdns.plugin.kubernetes")

DEFAULT_TTL: Final = 5  # seconds; kubeadm's Corefile says 30
IGNORABLE: Final = "empty_service"
NO_CLUSTER: Final = (
    '{}; to serve a cluster from files add "source manifests PATH" to the kubernetes block, or start with '
    '"hsdns serve -conf COREFILE -source manifests PATH"'
)
API_SERVER: Final = ("endpoint", "tls", "kubeconfig")  # properties that say which one


class Kubernetes(Handler):
    """Services, endpoints, pods and their reverse names."""

    name = "kubernetes"
    cacheable = True
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "source": Property(lambda line: line, syntax="NAME [ARGUMENT...]", repeat="once"),
        "kubeconfig": Property(many(text, at_most=2), default=(), syntax="FILE [CONTEXT]"),
        "endpoint": Property(many(text), default=(), syntax="URL..."),
        "tls": Property(many(text, at_least=3, at_most=3), default=(), syntax="CERT KEY CACERT"),
        "snapshot": Property(one(text), syntax="FILE"),
        "max_silence": Property(one(duration()), syntax="DURATION"),
        "namespaces": Property(many(text), default=(), syntax="NAMESPACE..."),
        "namespace_labels": Property(lambda line: _selector(line), syntax="EXPRESSION"),
        "labels": Property(lambda line: _selector(line), syntax="EXPRESSION"),
        "pods": Property(
            one(choice("disabled", "insecure", "verified")), default="disabled", syntax="MODE"
        ),
        "endpoint_pod_names": Property(flag, default=False),
        "ttl": Property(one(integer(0, 3600)), default=DEFAULT_TTL, syntax="SECONDS"),
        "noendpoints": Property(flag, default=False),
        "ignore": Property(lambda line: _ignore(line), default=False, syntax=IGNORABLE),
        "fallthrough": Property(
            lambda line: zones_from_args(line.args) or (ROOT,), default=(), syntax="[ZONE...]"
        ),
        "startup_timeout": Property(one(duration()), default=5.0, syntax="DURATION"),
        "apiserver_qps": Property(one(number(0)), syntax="NUMBER"),
        "apiserver_burst": Property(one(integer(0)), syntax="NUMBER"),
        "apiserver_max_inflight": Property(one(integer(0)), syntax="NUMBER"),
    }
    NOT_YET: ClassVar[frozenset[str]] = frozenset({"multicluster", "zonal"})

    def __init__(
        self, zones: tuple[Name, ...], options: dict[str, Any], servers: tuple[str, ...] = ()
    ) -> None:
        """Take zones in lower case, the first forward one first in importance, and values for all PROPERTIES."""
        self.zones = zones
        self.source: Source = options["source"]
        self.store = Store(
            lambda: 0.0,
            lambda sentence: log.warning("plugin/kubernetes: %s", sentence),
            pod_names=options["endpoint_pod_names"],
            endpoints=not options["noendpoints"],
            labels=options["labels"],
            namespace_labels=options["namespace_labels"],
        )
        self.names = ClusterNames()
        self.answers = ClusterAnswers(
            self.store,
            primary_zone=next((zone for zone in zones if not is_reverse(zone)), zones[0]),
            ttl=options["ttl"],
            namespaces=frozenset(name.encode().lower() for name in options["namespaces"]),
            pods=options["pods"],
            ignore_empty=options["ignore"],
        )
        if isinstance(self.source, ApiServer):
            self.source.reject = self._reject
        path: str | None = options["snapshot"]
        # A snapshot of another cluster, or of fewer names, would deny names that exist.
        settings = {
            **self.store.settings,
            "namespaces": " ".join(sorted(options["namespaces"])),
            "pods": options["pods"],
            "source": str(self.source),
        }
        self._snapshot = None if path is None else SnapshotFile(path, settings)
        self._max_silence: float | None = options["max_silence"]
        self.may_relapse = self._max_silence is not None
        self._fallthrough: tuple[Name, ...] = options["fallthrough"]
        self._startup_timeout: float = options["startup_timeout"]
        self._servers = servers
        self._runtime: Runtime | None = None
        self._position: Position = options.get("position", Position("", 0, 0))

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read the directive; the cluster is not touched."""
        directive = only_once(directives)
        options = read_properties(directives, cls.PROPERTIES, not_yet=cls.NOT_YET)
        zones = zones_from_args(directive.args) or block.zones
        if all(is_reverse(zone) for zone in zones):
            raise CorefileError(
                directive.name.position,
                "kubernetes needs a zone that is not a reverse zone, for the names in PTR records; "
                "add for example cluster.local",
            )
        if options["namespaces"] and options["namespace_labels"]:
            raise CorefileError(
                directive.name.position,
                '"namespaces" and "namespace_labels" of kubernetes exclude each other',
            )
        for word in ("apiserver_qps", "apiserver_burst", "apiserver_max_inflight"):
            if options[word] is not None:
                block.warn(
                    f'{directive.name.position}: "{word}" has no effect, as in CoreDNS 1.14.7'
                )
        source = _named_source(options["source"], block)
        if source is None:
            source = _api_server(directive, options, block)
        options["source"] = source
        options["position"] = directive.name.position
        return cls(zones, options, block.servers)

    async def start(self, runtime: Runtime) -> None:
        """Load the cluster and watch it; wait for it at most `startup_timeout` seconds."""
        if isinstance(self.source, ApiServer) and self.source.is_in_cluster:
            for sentence in self.source.check():
                raise CorefileError(self._position, NO_CLUSTER.format(sentence))
        self.serve_for(runtime)
        self.answers.serve_at(runtime.local_addresses(self._servers))
        self._restore(runtime)
        self.source.load(self._deliver, self._report)
        runtime.spawn(self.source.watch(self._deliver, self._report, runtime), "kubernetes source")
        if self._snapshot is not None:
            keeping = self._snapshot.keep(self.store, self._report, runtime)
            runtime.spawn(keeping, "kubernetes snapshot")
        seconds = check_interval(self._report)
        if isinstance(self.source, ApiServer) and seconds is not None:
            checking = check_store(self.source, self.store, self._report, runtime, seconds)
            runtime.spawn(checking, "kubernetes store check")
        if not self.store.serves and self._startup_timeout:
            log.info("plugin/kubernetes: waiting for the cluster before serving")
            if not await runtime.wait_until(lambda: self.store.serves, self._startup_timeout):
                log.warning(
                    "plugin/kubernetes: serving before the cluster has been read; its names are SERVFAIL"
                )

    def _restore(self, runtime: Runtime) -> None:
        """Serve the snapshot, where there is one, until the cluster has been read."""
        if self._snapshot is None:
            return
        found = self._snapshot.load(self._report)
        if found is not None:
            try:
                self.store.restore(*found)
            except (OSError, ValueError) as error:
                log.warning(
                    'plugin/kubernetes: snapshot "%s": it could be read in part only: %s',
                    self._snapshot.path,
                    error,
                )
        show_serving(runtime.metrics, self._snapshot.path, self.store)

    def serve_for(self, runtime: Runtime) -> None:
        """Take the runtime whose clock and lookups are used from now on."""
        self._runtime = runtime
        self.store.use_clock(runtime.wall)
        self.store.use_counters(runtime.counters, self.names)
        self.store.count_in(runtime.metrics)

    def ready(self) -> bool:
        """Ready once everything that existed at the start has been read, or a snapshot of it."""
        if not self.store.serves:
            return False
        if self._max_silence is None or not self.store.synced:
            return True
        assert self._runtime is not None, "started"
        return self.source.silence(self._runtime.clock()) <= self._max_silence

    def remark(self) -> str:
        """Say that it is a snapshot that is served."""
        saved = self.store.restored
        if saved is None:
            return ""
        date = datetime.fromtimestamp(saved, UTC).isoformat(" ", "seconds")
        return f"serving the snapshot of {date}, the cluster has not been read yet"

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer from the store, or pass on what is outside the zones or falls through."""
        query = request.query
        zone = self._zone_of(query.qname)
        if zone is None:
            return await next(request)
        try:
            return await self.answers.answer(
                query.qname, query.qtype, zone, partial(self._lookup, request), request.reads
            )
        except NoSuchName:
            pass
        if any(query.qname.is_at_or_below(through) for through in self._fallthrough):
            reply = await next(request)
            # A cache in front keeps it only as long as the cluster does not know the name either.
            still_missing = partial(self.answers.is_missing, query.qname, query.qtype, zone)
            return reply.replace(still_holds=still_missing)
        soa = self.answers.soa(zone)
        if not self.store.serves:
            return Reply(rcode=Rcode.SERVFAIL, authority=(soa,), aa=True, fresh=True)
        return nxdomain(soa).replace(fresh=True)

    def falls_through(self, zone: Name) -> bool:
        """Whether any name of a zone goes to the next plugin where it does not exist."""
        return any(
            zone.is_at_or_below(through) or through.is_at_or_below(zone)
            for through in self._fallthrough
        )

    def _zone_of(self, qname: Name) -> Name | None:
        """The longest of the plugin's zones that holds a name."""
        best = None
        for zone in self.zones:
            if qname.is_at_or_below(zone) and (best is None or len(zone.lower) > len(best.lower)):
                best = zone
        return best

    async def _lookup(self, request: Request, qname: Name, qtype: int) -> Reply:
        """Ask this server for a name outside the zone, with the client's own EDNS."""
        assert self._runtime is not None, "started"
        query = request.query
        if request.reads is not None:
            request.reads.spoil()  # what is outside of the zone changes without telling
        asked = Query.ask(qname, qtype, query_id=query.id, flags=query.flags, edns=query.edns)
        return await self._runtime.resolve(request.replace(query=asked, depth=request.depth + 1))

    def _deliver(self, events: Sequence[Event]) -> None:
        restored = self.store.restored
        self.store.apply(events)
        if restored is not None and self.store.restored is None:
            assert self._runtime is not None, "started"
            assert self._snapshot is not None, "what was restored came from it"
            show_serving(self._runtime.metrics, self._snapshot.path, self.store)
            log.info(
                "plugin/kubernetes: the cluster has been read; the snapshot is no longer served"
            )

    def _reject(self, kind: str, key: tuple[str, str], reason: str) -> None:
        self.store.complaints.reject(kind, *key, "form", f"it is left out: {reason}")

    def _report(self, level: int, message: str) -> None:
        log.log(level, "plugin/kubernetes: %s", message)


def _named_source(line: Line | None, block: Block) -> Source | None:
    """The source that the command line or the block names; what it misses at the moment is a warning."""
    words, base_dir = block.source, "."
    if words is None and line is not None:
        words, base_dir = line.args, block.corefile_dir
        if not words:
            raise CorefileError(
                line.name.position, '"source" needs the name of a source, for example "manifests"'
            )
    if words is None:
        return None
    source = source_from(words[0], words[1:], base_dir)
    for sentence in source.check():
        block.warn(f"{words[0].position}: {sentence}")
    return source


def _api_server(directive: Directive, options: dict[str, Any], block: Block) -> Source:
    """The API server that the block's words mean; what it misses at the moment is a warning."""
    words = Words(options["kubeconfig"], options["endpoint"], options["tls"])
    try:
        access = ApiAccess(words)
    except ValueError as error:
        raise CorefileError(_line(directive, "endpoint").position, str(error)) from None
    if not access.is_in_cluster:  # a pod's own files are looked at when it starts
        where = _line(directive, "kubeconfig" if words.kubeconfig else "endpoint").position
        for sentence in access.check():
            block.warn(f"{where}: {sentence}")
    return ApiServer(
        access,
        Wanted(
            namespaces=options["namespaces"],
            labels=str(options["labels"] or ""),
            namespace_labels=str(options["namespace_labels"] or ""),
            endpoints=not options["noendpoints"],
            pods=options["pods"] == "verified",
        ),
    )


def _line(directive: Directive, property_name: str) -> Token:
    """Where a property stands, the last one of its name; the directive itself where it has none."""
    found = [line.name for line in directive.lines if line.name.text == property_name]
    return found[-1] if found else directive.name


def _selector(line: Line) -> Selector:
    """Read a label selector from the rest of the line."""
    if not line.args:
        raise CorefileError(
            line.name.position, f'"{line.name.text}" needs a label selector, for example "app=web"'
        )
    try:
        return Selector.from_text(" ".join(token.text for token in line.args))
    except ValueError as error:
        raise CorefileError(line.args[0].position, str(error)) from None


def _ignore(line: Line) -> bool:
    """Read `ignore empty_service`; without a word it does nothing, as in CoreDNS."""
    for token in line.args:
        if token.text != IGNORABLE:
            raise CorefileError(
                token.position, f'"{token.text}" cannot be ignored; the only choice is {IGNORABLE}'
            )
    return bool(line.args)
