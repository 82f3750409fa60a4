"""Answers queries for Services, endpoints and pods of a Kubernetes cluster and for their reverse names.

Path: step 5, after cache and hosts, before forward; names outside its zones and missing names with `fallthrough` go on.
Rule 1: a query is answered from one Service value; it only waits for an ExternalName that points outside the zone.
Rule 2: a missing name falls through even before the cluster has been read (CoreDNS handler.go); without fallthrough
        it is SERVFAIL until then and NXDOMAIN afterwards.
Rule 3: events are applied in another thread.  A reply is computed again if an event changed its dependencies meanwhile,
        so that it does not mix the states of several objects.
Rule 4: blocks with the same API server share a watch, and at a reload blocks with the same configuration take it over
        (watch.py).
Rule 5: a request with `earlier` is answered from the state of that time, and compared with the answer of the current
        state.
Cacheable: yes, its replies depend only on the question and the store, and the store's counters tell when it changes.
        Negative replies of a `multicluster` zone are not cacheable: the answer table would write another zone's serial.

Extended DNS Errors, with `explain` (RFC 8914):
Rule 1: they are computed right after the answer, from state that the counters of the reply cover.
Rule 2: a reply from an outdated state of the cluster says so, after its own reason if it has one.

Metadata about a query and its client, with labels such as `kubernetes/namespace`, only in a block with `metadata`:
Source: CoreDNS 1.14.7 plugin/kubernetes/metadata.go.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from hsdns.authority.outgoing import ZoneTransfer
from hsdns.chain import NOWHERE, Earlier, Next, Request
from hsdns.cluster.address import is_reverse
from hsdns.cluster.answer import ClusterAnswers, has_records, zone_records
from hsdns.cluster.freshness import STALENESS, Dependencies, attempts
from hsdns.cluster.lookup import NameLookup, NoSuchName, PlainValues
from hsdns.cluster.schema import ParsedName
from hsdns.cluster.source import Source
from hsdns.cluster.store import ClusterView, EarlierStore, Pods, Store, StoreSettings
from hsdns.cluster.value import Key
from hsdns.corefile.keys import read_fallthrough, zones_from_args
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
from hsdns.corefile.tree import Directive, Position
from hsdns.fastpath import ClusterNames
from hsdns.plugin import Block, Plugin, Runtime, catch_up
from hsdns.plugins.kubernetes.options import (
    IGNORABLE,
    api_server,
    check_together,
    lines_of,
    named_source,
    read_ignore,
    read_selector,
    read_zones,
    words_of,
)
from hsdns.plugins.kubernetes.watch import ClusterState, ClusterWatch
from hsdns.sources.api_server import ApiServer
from hsdns.turns import another_turn
from hsdns.upstream.target import RESOLV_CONF, read_search_list
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import InfoCode, Query, Reply, nxdomain, to_option
from hsdns.wire.name import ROOT, Name

if TYPE_CHECKING:
    from hsdns.cluster.answer_set import AnswerSet

log = logging.getLogger("hsdns.plugin.kubernetes")

DEFAULT_TTL: Final = 5  # seconds; kubeadm's Corefile says 30
NO_CLUSTER: Final = (
    '{}; to serve a cluster from files add "source manifests PATH" to the kubernetes block, or start with '
    '"hsdns serve --conf COREFILE --source manifests PATH"'
)
_SVC: Final = Name.from_text("svc.")
Values = dict[str, Callable[[], str]]  # of metadata


class Kubernetes(Plugin):
    """Answers from the store of a cluster; `watch` keeps it up to date, start() makes `answers`.

    `show_changes`, set before start(), gets the DNS changes of each batch, as lines, in the watch thread.
    """

    cacheable = True
    skips_forwarded = True  # names outside of its zones
    PROPERTIES: ClassVar[dict[str, Property[Any]]] = {
        "source": Property(lambda line: line, syntax="NAME [ARGUMENT...]", repeat="once"),
        "kubeconfig": Property(many(text, at_most=2), default=(), syntax="FILE [CONTEXT]"),
        "endpoint": Property(many(text), default=(), syntax="URL..."),
        "tls": Property(many(text, at_least=3, at_most=3), default=(), syntax="CERT KEY CACERT"),
        "snapshot": Property(one(text), syntax="FILE"),
        "max_silence": Property(one(duration()), syntax="DURATION"),
        "namespaces": Property(many(text), default=(), syntax="NAMESPACE..."),
        "namespace_labels": Property(read_selector, syntax="EXPRESSION"),
        "labels": Property(read_selector, syntax="EXPRESSION"),
        "pods": Property(
            one(choice("disabled", "insecure", "verified")), default="disabled", syntax="MODE"
        ),
        "endpoint_pod_names": Property(flag, default=False),
        "ttl": Property(one(integer(0, 3600)), default=DEFAULT_TTL, syntax="SECONDS", reads=1),
        "noendpoints": Property(flag, default=False),
        "ignore": Property(read_ignore, default=False, syntax=IGNORABLE, reads=1),
        "explain": Property(flag, default=False),
        "fallthrough": Property(read_fallthrough, default=(), syntax="[ZONE...]"),
        "zonal": Property(flag, default=False),
        "multicluster": Property(read_zones, default=(), syntax="ZONE..."),
        "startup_timeout": Property(one(duration()), default=5.0, syntax="DURATION", reads=1),
        "apiserver_qps": Property(one(number(0)), syntax="NUMBER"),
        "apiserver_burst": Property(one(integer(0)), syntax="NUMBER"),
        "apiserver_max_inflight": Property(one(integer(0)), syntax="NUMBER"),
    }

    def __init__(
        self, zones: tuple[Name, ...], options: dict[str, Any], servers: tuple[str, ...] = ()
    ) -> None:
        """Take zones in lower case, the most important forward one first, and values for all PROPERTIES."""
        self.zones = zones
        source: Source = options["source"]
        self.is_read_by_filters = options.get("is_read_by_filters", False)
        is_read_whole = not isinstance(source, ApiServer)  # pods too, with their labels
        settings = StoreSettings(
            **{name: options[name] for name in StoreSettings._fields[:5]},
            multicluster=bool(options["multicluster"]),
            pod_labels=self.is_read_by_filters or (is_read_whole and not options["snapshot"]),
            pods=options["pods"] == "verified" or is_read_whole,
            not_ready=options["explain"],
        )
        path: str | None = options["snapshot"]
        # A snapshot of another cluster, or with fewer names, would deny names that exist.
        words = {
            **settings.to_texts(),
            "namespaces": " ".join(sorted(options["namespaces"])),
            "pods": options["pods"],
            "source": str(source),
        }
        self._words: tuple[object, ...] = options.get("words", ())
        self.state = ClusterState(settings)
        if path is not None:
            from hsdns.sources.snapshot_file import SnapshotFile  # noqa: PLC0415 - few blocks have one

            self.state.snapshot = SnapshotFile(path, words)
        self.watch = ClusterWatch(source, self.state, self._words)
        self.answers: ClusterAnswers
        self.show_changes: Callable[[list[str]], None] | None = None
        self._uses_watch = False
        self.options = options  # the values of all PROPERTIES
        # FILE [CONTEXT], empty if the block has none; without effect if it has another source.
        self.kubeconfig: tuple[str, ...] = options["kubeconfig"]
        # The properties in the Corefile, word by word.
        self.lines: tuple[tuple[str, ...], ...] = options.get("lines", ())
        self.explains: bool = options["explain"]
        self.has_all_namespaces = not options["namespaces"]
        self.has_all_pod_names = options["pods"] == "insecure" and self.has_all_namespaces
        self._max_silence: float | None = options["max_silence"]
        self.may_relapse = self._max_silence is not None
        self._fallthrough: tuple[Name, ...] = options["fallthrough"]
        self._startup_timeout: float = options["startup_timeout"]
        self._servers = servers
        self._search: tuple[Name, ...] = ()
        self._local_addresses: Sequence[str] = ()  # copied, as they were when it started
        self._position: Position = options.get("position", Position("", 0, 0))

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read the directive; does not contact the cluster."""
        directive = only_once(directives)
        options = read_properties(directives, cls.PROPERTIES)
        zones = zones_from_args(directive.args) or block.zones
        check_together(directive, zones, options, block)
        source = named_source(options["source"], block)
        if source is None:
            source = api_server(directive, options, block)
        options["source"] = source
        options["position"] = directive.name.position
        verified = options["pods"] == "verified"
        options["is_read_by_filters"] = verified and "metadata" in block.plugins
        options["words"] = words_of(directive, zones, block)
        options["lines"] = lines_of(directive)
        return cls(zones, options, block.servers)

    @property
    def source(self) -> Source:
        """The source of the cluster's objects."""
        return self.watch.source

    def unread(self, namespace: str = "") -> str:
        """Why the content of a namespace, or else of the cluster, is not known; "" if it is."""
        source = self.source
        found = source.unread(namespace) if isinstance(source, ApiServer) else ""
        return found or (
            "" if self.store.serves else f"the cluster has not been read from {source}"
        )

    @property
    def knows_pods(self) -> bool:
        """Whether the store has the pods of addresses."""
        return self.state.settings.pods

    @property
    def store(self) -> Store:
        """The state of the cluster; only after start()."""
        return self.state.store

    @property
    def names(self) -> ClusterNames:
        """The names that exist, for the answer table."""
        return self.state.names

    def find_peers(self, earlier: Sequence[Plugin]) -> None:
        """Share the watch of the first block over the same API server."""
        for peer in earlier:
            if isinstance(peer, Kubernetes):
                state = peer.watch.join(self.watch)
                if state is not None:
                    self.watch, self.state = peer.watch, state
                    break

    def inherit(self, old: Plugin) -> bool:
        """Take over the watch of a block, if all blocks that share it have the same configuration, word for word."""
        if not isinstance(old, Kubernetes) or not old.watch.is_running:
            return False
        if not self._words or (old._words, old.watch.words) != (self._words, self.watch.words):
            self.state.follows_live |= old.state.is_live and str(old.source) == str(self.source)
            return False
        self.watch, self.state = old.watch, old.state
        return True

    async def start(self, runtime: Runtime) -> None:
        """Load the cluster and watch it; wait for it at most `startup_timeout` seconds."""
        source = self.source
        if isinstance(source, ApiServer) and source.is_in_cluster and not self.watch.is_running:
            for sentence in source.check():
                raise self._position.error(NO_CLUSTER.format(sentence))
        self._runtime = runtime
        if self.options["pods"] == "verified":
            self._search = read_search_list(RESOLV_CONF)
        self._uses_watch = True
        await self.watch.start(runtime)
        self._local_addresses = runtime.local_addresses(self._servers)
        self.answers = self.answers_over(self.store)
        if self.show_changes is not None and self.watch.on_delivered is None:
            from hsdns.cluster.answer_set import Changes  # noqa: PLC0415 - as AnswerSet

            self.watch.on_delivered = partial(
                _show, Changes(self.answer_set()).lines, self.show_changes
            )
        if not self.store.serves and self._startup_timeout and not self.watch.reads_only:
            log.info("plugin/kubernetes: waiting for the cluster before serving")
            if not await runtime.wait_until(lambda: self.store.serves, self._startup_timeout):
                log.warning(
                    "plugin/kubernetes: serving before the cluster has been read; its names are SERVFAIL"
                )

    async def stop(self) -> None:
        """End the watch, unless another instance uses it too."""
        if self._uses_watch:
            self._uses_watch = False
            self.watch.stop()

    def ready(self) -> bool:
        """Ready after all objects that existed at the start, or a snapshot, have been read."""
        if not self.state.serves:
            return False
        if self._max_silence is None or not self.store.synced:
            return True
        return self.source.silence(self._runtime.clock()) <= self._max_silence

    def remark(self) -> str:
        """Report that a snapshot is being served."""
        saved = self.store.restored if self.state.serves else None
        if saved is None:
            return ""
        date = datetime.fromtimestamp(saved, UTC).isoformat(" ", "seconds")
        return f"serving the snapshot of {date}, the cluster has not been read yet"

    async def handle(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Answer from the store; pass on names outside the zones and those that fall through."""
        query = request.query
        zone = query.qname.longest_of(self.zones)
        if zone is None:
            return await next(request)
        await self.catch_up(request)
        return await self._handle(request, zone, next)

    async def recompute(self, request: Request, next: Next) -> Reply:  # noqa: A002 - the word of the plugin interface
        """Return what handle() returns, without waiting until the watch thread has caught up."""
        zone = request.query.qname.longest_of(self.zones)
        if zone is None:
            return await next(request)
        return await self._handle(request.replace(resolver=NOWHERE), zone, next)

    async def _handle(self, request: Request, zone: Name, following: Next) -> Reply:
        query = request.query
        shared = self.answers.lookup.is_multicluster(zone)
        answers = self.answers_for(request)
        found, errors = await self._answer(request, zone, answers)
        if found is not None:
            if shared and request.dependencies is not None and _has_serial(query, found):
                request.dependencies.mark_uncacheable()
            return found
        if query.qname.longest_of(self._fallthrough) is not None:
            reply = await following(request)
            # `cache` before this plugin stores the reply only while the name does not exist in the cluster.
            still_missing = partial(self.answers.is_missing, query.qname, query.qtype, zone)
            return reply.held(still_missing)
        if shared and request.dependencies is not None:
            request.dependencies.mark_uncacheable()
        soa = answers.soa(zone)
        denied = nxdomain(soa)
        if not self.store.serves:
            denied = denied.replace(rcode=Rcode.SERVFAIL)
        return denied.replace(fresh=True, extended_errors=errors)

    def plain_values(self) -> PlainValues | None:
        """What replies about Services are made from, if they depend on nothing else."""
        return None if self.explains else self.answers.lookup.plain_values()

    def tells_absence(self, zone: Name) -> bool:
        """Whether the answer table may deny the names of a zone that ClusterNames does not list."""
        through: tuple[Name, ...] = self._fallthrough
        above = (*through, *self.options["multicluster"])
        is_above = any(each.is_at_or_below(zone) for each in through)
        return zone.longest_of(above) is None and not is_above

    def transfer(self, zone: Name) -> ZoneTransfer | None:
        """All records of a forward zone at this moment."""
        if zone not in self.zones or not has_records(zone):
            return None
        if not self.store.serves:
            raise LookupError(f"zone {zone.to_text()}: the cluster has not been read yet")
        return ZoneTransfer(self.answers.soa(zone), zone_records(self.answers, zone))

    def registry(
        self, domain: str, services: Iterable[Key] | None = None
    ) -> dict[str, dict[str, list[str]]]:
        """What istiod tells its agents of all Services, or of some: addresses by the whole name and by label."""
        values = self.store.services.values
        return {
            f"{name.decode()}.{namespace.decode()}.svc.{domain}": values[namespace, name].told
            if (namespace, name) in values
            else {}
            for namespace, name in (values if services is None else services)
        }

    def answer_set(self) -> AnswerSet:
        """All names that it answers, with their records; only after start()."""
        from hsdns.cluster.answer_set import AnswerSet  # noqa: PLC0415 - for pages, takes 2 ms

        return AnswerSet(self.answers, self.zones)

    def search_path(self, request: Request) -> tuple[Name, ...] | None:
        """The search list of the client's pod, for `autopath`; None if the pod or its namespace is not known."""
        zone = request.query.qname.longest_of(self.zones)
        if zone is None or self.options["pods"] != "verified":
            return None
        pods = self.answers_for(request).lookup.store.pods
        pod = pods.of_client(request.client.address)
        if pod is None:
            return None
        svc = Name(_SVC.wire[:-1] + zone.lower)
        namespace = Name(bytes((len(pod[0]),)) + pod[0] + svc.lower)
        return (namespace, svc, zone, *self._search, ROOT)

    def metadata(self, request: Request) -> Mapping[str, Callable[[], str]]:
        """Labels about the query and the client's pod."""
        found = {}
        if self.options["pods"] == "verified":
            found = client_values(self.store.pods, request.client.address)
        zone = request.query.qname.longest_of(self.zones)
        if zone is not None:
            shared = self.answers.lookup.is_multicluster(zone)
            parsed = self.answers.lookup.parse(request.query.qname, zone)
            found |= question_values(parsed, zonal=self.options["zonal"], multicluster=shared)
        return found

    async def catch_up(self, request: Request) -> None:
        """Wait, before the store is read, if the watch thread is blocked."""
        if self._uses_watch:
            await catch_up(self._runtime, request.now)

    async def look_up(self, request: Request, qname: Name, qtype: int) -> Reply:
        """Resolve a name outside the zone through this server, with the EDNS options of the client."""
        return await self._runtime.resolve(request.nested(qname, qtype))

    def answers_for(self, request: Request) -> ClusterAnswers:
        """The code that answers a request, from the current state or the earlier one that the request selects."""
        if not self.has_changed_since(request.earlier):
            return self.answers
        assert request.earlier is not None, "tested"
        return self.answers_over(EarlierStore(self.store, request.earlier.time))

    def has_changed_since(self, earlier: Earlier | None) -> bool:
        """Whether the store has changed since an earlier state."""
        return earlier is not None and self.store.replaced.latest > earlier.time

    async def _answer(
        self, request: Request, zone: Name, answers: ClusterAnswers
    ) -> tuple[Reply | None, bytes]:
        """The reply for a name in a zone, None if the name does not exist, and its Extended DNS Errors."""
        query = request.query
        # An earlier state does not change, and its replies are not stored.
        kept = request.dependencies if request.earlier is None else None
        outside: dict[Name, Reply] = {}  # each name is looked up once
        reply: Reply | None = None
        errors = b""
        for dependencies in attempts(kept):
            if self.explains and dependencies is not None:
                dependencies.add(STALENESS)
            try:
                reply = await self._reply(request, zone, answers, outside, dependencies)
                if self.explains:
                    errors = _errors_of_reply(answers, query, zone, reply)
                    reply = reply.replace(extended_errors=errors)
            except NoSuchName as absent:
                reply = None
                if self.explains:
                    errors = _errors_of_absence(answers.lookup.store, absent)
        if request.earlier is not None and answers is not self.answers:
            newest: Reply | None = None
            with contextlib.suppress(NoSuchName):
                newest = await self._reply(request, zone, self.answers, outside, None)
            request.earlier.compare(reply, newest)
        return reply, errors

    async def _reply(
        self,
        request: Request,
        zone: Name,
        answers: ClusterAnswers,
        outside: dict[Name, Reply],
        dependencies: Dependencies | None,
    ) -> Reply:
        """The reply for a name in a zone; raise NoSuchName.  Names outside the zone are added to `outside`."""
        qname, qtype = request.query.qname, request.query.qtype
        while True:
            found = answers.answer(qname, qtype, zone, outside, dependencies)
            if isinstance(found, Reply):
                return found
            for reply in found.pieces:
                if reply is not None:
                    return reply
                await another_turn()
            for target in found.targets:
                outside[target] = await self.look_up(request, target, qtype)

    def answers_over(self, store: ClusterView, **changed: Any) -> ClusterAnswers:
        """The code that answers from a state, with `changed` options of the Corefile.  Only after start()."""
        options = self.options | changed
        lookup = NameLookup(
            store,
            primary_zone=next((zone for zone in self.zones if not is_reverse(zone)), self.zones[0]),
            ttl=options["ttl"],
            namespaces=frozenset(name.encode().lower() for name in options["namespaces"]),
            pods=options["pods"],
            ignore_empty=options["ignore"],
            zonal=options["zonal"],
            multicluster=options["multicluster"],
        )
        return ClusterAnswers(lookup, self._local_addresses)


def _show(changes: Callable[[], list[str]], show: Callable[[list[str]], None]) -> None:
    if lines := changes():
        show(lines)


def _has_serial(query: Query, reply: Reply) -> bool:
    """Whether a reply contains an SOA record."""
    return bool(reply.authority) or query.qtype == RRType.SOA


def _errors_of_absence(store: ClusterView, absent: NoSuchName) -> bytes:
    """The errors of a reply to a name that does not exist."""
    if not store.serves:
        return _not_ready(store)
    return to_option(InfoCode.OTHER, absent.reason) + _stale(store, InfoCode.STALE_NXDOMAIN)


def _errors_of_reply(answers: ClusterAnswers, query: Query, zone: Name, reply: Reply) -> bytes:
    """The errors of any other reply."""
    store = answers.lookup.store
    if reply.rcode == Rcode.REFUSED:
        return to_option(InfoCode.NOT_SUPPORTED, "a zone transfer needs the plugin transfer")
    if not store.serves:
        return b"" if reply.answer else _not_ready(store)
    stale = _stale(store, InfoCode.STALE_ANSWER)
    if reply.answer:
        empty = answers.lookup.nothing_behind(query.qname, zone)
        return (to_option(InfoCode.OTHER, empty) if empty else b"") + stale
    text = answers.nodata_reason(query.qname, query.qtype, zone)
    return to_option(InfoCode.OTHER, text) + stale


def _not_ready(store: ClusterView) -> bytes:
    since = f"; the API server cannot be watched since {store.lost}" if store.lost else ""
    return to_option(InfoCode.NOT_READY, f"the cluster has not been read yet{since}")


def _stale(store: ClusterView, code: int) -> bytes:
    restored, lost = store.restored, store.lost
    if restored is not None:
        date = datetime.fromtimestamp(restored, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return to_option(code, f"as of {date}, from a snapshot: the cluster has not been read yet")
    if lost:
        return to_option(code, f"as of {lost}, since when the API server cannot be watched")
    return b""


def client_values(pods: Pods, address: str) -> Values:
    """Values about the client's pod, none if it is not known; its labels if the store has them."""
    pod = pods.of_client(address)
    if pod is None:
        return {}
    namespace, name = pod
    found = {
        "kubernetes/client-namespace": _text(namespace),
        "kubernetes/client-pod-name": _constant(name),
    }
    for label, value in (pods.labels or {}).get(pod, {}).items():
        found[f"kubernetes/client-label/{label}"] = _constant(value)
    return found


def question_values(parsed: ParsedName | None, *, zonal: bool, multicluster: bool) -> Values:
    """Values about a name in one of the zones; `parsed` is None for a name that cannot exist."""
    if parsed is None:
        return {"kubernetes/parse-error": lambda: "invalid query name"}
    found = {
        "kubernetes/port-name": _text(parsed.port),
        "kubernetes/protocol": _text(parsed.protocol),
        "kubernetes/endpoint": _text(parsed.endpoint),
        "kubernetes/service": _text(parsed.name),
        "kubernetes/namespace": _text(parsed.namespace),
        "kubernetes/kind": _text(parsed.kind),
    }
    if multicluster:
        found["kubernetes/cluster"] = _text(parsed.cluster)
    if zonal:
        found["kubernetes/zone"] = _text(parsed.topology_zone)
    return found


def _constant(text: str) -> Callable[[], str]:
    return lambda: text


def _text(label: bytes) -> Callable[[], str]:
    return lambda: label.decode("utf-8", "replace")
