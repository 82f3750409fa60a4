"""Answer the names of a Kubernetes cluster.

Path: step 5, behind cache and hosts, in front of forward: what it does not know may go upstream.
Rule 1: a question is answered from one Service value; only an ExternalName that points outside the zone waits.
Rule 2: a missing name falls through before it is asked whether the cluster was read (CoreDNS handler.go); only then
        SERVFAIL (not synced) or NXDOMAIN.
Rule 3: what follows the cluster (following.py) is inherited at a reload by a block that says the same.
Cacheable: yes, its replies depend on the question and the store alone, and the store tells what changed.  What a zone
        of `multicluster` does not have is not stored: its serial is not the one that the table writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Final, Self

from hsdns.authority.outgoing import ZoneTransfer
from hsdns.chain import Next, Request
from hsdns.cluster.answer import ClusterAnswers, NoSuchName
from hsdns.cluster.pods import client_pod
from hsdns.cluster.reverse import is_reverse
from hsdns.cluster.source import Source
from hsdns.cluster.store import Store
from hsdns.cluster.transfer import has_records, zone_records
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
from hsdns.corefile.tree import CorefileError, Directive, Position
from hsdns.fastpath import ClusterNames
from hsdns.plugin import Block, Plugin, Runtime
from hsdns.plugins.kubernetes.following import Following
from hsdns.plugins.kubernetes.metadata import client_values, question_values
from hsdns.plugins.kubernetes.options import (
    IGNORABLE,
    api_server,
    check_together,
    named_source,
    read_ignore,
    read_selector,
    read_zones,
)
from hsdns.sources.api_server import ApiServer
from hsdns.sources.snapshot_file import SnapshotFile
from hsdns.upstream.resolv_conf import RESOLV_CONF, read_search_list
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import Query, Reply, nxdomain
from hsdns.wire.name import ROOT, Name

log = logging.getLogger("hsdns.plugin.kubernetes")

DEFAULT_TTL: Final = 5  # seconds; kubeadm's Corefile says 30
NO_CLUSTER: Final = (
    '{}; to serve a cluster from files add "source manifests PATH" to the kubernetes block, or start with '
    '"hsdns serve -conf COREFILE -source manifests PATH"'
)
_SVC: Final = Name.from_text("svc.")


class Kubernetes(Plugin):
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
        "namespace_labels": Property(read_selector, syntax="EXPRESSION"),
        "labels": Property(read_selector, syntax="EXPRESSION"),
        "pods": Property(
            one(choice("disabled", "insecure", "verified")), default="disabled", syntax="MODE"
        ),
        "endpoint_pod_names": Property(flag, default=False),
        "ttl": Property(one(integer(0, 3600)), default=DEFAULT_TTL, syntax="SECONDS"),
        "noendpoints": Property(flag, default=False),
        "ignore": Property(read_ignore, default=False, syntax=IGNORABLE),
        "fallthrough": Property(
            lambda line: zones_from_args(line.args) or (ROOT,), default=(), syntax="[ZONE...]"
        ),
        "zonal": Property(flag, default=False),
        "multicluster": Property(read_zones, default=(), syntax="ZONE..."),
        "startup_timeout": Property(one(duration()), default=5.0, syntax="DURATION"),
        "apiserver_qps": Property(one(number(0)), syntax="NUMBER"),
        "apiserver_burst": Property(one(integer(0)), syntax="NUMBER"),
        "apiserver_max_inflight": Property(one(integer(0)), syntax="NUMBER"),
    }

    def __init__(
        self, zones: tuple[Name, ...], options: dict[str, Any], servers: tuple[str, ...] = ()
    ) -> None:
        """Take zones in lower case, the first forward one first in importance, and values for all PROPERTIES."""
        self.zones = zones
        store = Store(
            lambda: 0.0,
            lambda sentence: log.warning("plugin/kubernetes: %s", sentence),
            pod_names=options["endpoint_pod_names"],
            endpoints=not options["noendpoints"],
            labels=options["labels"],
            namespace_labels=options["namespace_labels"],
            zonal=options["zonal"],
            multicluster=bool(options["multicluster"]),
            pod_labels=options.get("pod_labels", False),
        )
        source: Source = options["source"]
        path: str | None = options["snapshot"]
        # A snapshot of another cluster, or of fewer names, would deny names that exist.
        settings = {
            **store.settings,
            "namespaces": " ".join(sorted(options["namespaces"])),
            "pods": options["pods"],
            "source": str(source),
        }
        snapshot = None if path is None else SnapshotFile(path, settings)
        self._following = Following(source, store, snapshot)
        self._shares = False  # whether it has a share of what follows the cluster
        self._options = options
        self.answers = self._answers()
        self._max_silence: float | None = options["max_silence"]
        self.may_relapse = self._max_silence is not None
        self._fallthrough: tuple[Name, ...] = options["fallthrough"]
        self._startup_timeout: float = options["startup_timeout"]
        self._servers = servers
        self._search: tuple[Name, ...] = ()
        self._runtime: Runtime | None = None
        self._position: Position = options.get("position", Position("", 0, 0))
        self._words: tuple[object, ...] | None = options.get("words")

    @classmethod
    def setup(cls, directives: Sequence[Directive], block: Block) -> Self:
        """Read the directive; the cluster is not touched."""
        directive = only_once(directives)
        options = read_properties(directives, cls.PROPERTIES)
        zones = zones_from_args(directive.args) or block.zones
        check_together(directive, zones, options, block)
        source = named_source(options["source"], block)
        if source is None:
            source = api_server(directive, options, block)
        options["source"] = source
        options["position"] = directive.name.position
        options["pod_labels"] = "metadata" in block.plugins and options["pods"] == "verified"
        options["words"] = _words(directive, zones, block)
        return cls(zones, options, block.servers)

    @property
    def source(self) -> Source:
        """Where the cluster comes from."""
        return self._following.source

    @property
    def store(self) -> Store:
        """The cluster's state."""
        return self._following.store

    @property
    def names(self) -> ClusterNames:
        """The namespaces and Services that exist, for the answer table."""
        return self._following.names

    def inherit(self, old: Plugin) -> bool:
        """Go on with the store and the watches of a block that said the same, word for word."""
        if not isinstance(old, Kubernetes) or self._words is None or old._words != self._words:
            return False
        if not old._following.is_running:
            return False
        self._following = old._following
        self.answers = self._answers()
        return True

    async def start(self, runtime: Runtime) -> None:
        """Load the cluster and watch it; wait for it at most `startup_timeout` seconds."""
        source = self.source
        if (
            isinstance(source, ApiServer)
            and source.is_in_cluster
            and not self._following.is_running
        ):
            for sentence in source.check():
                raise CorefileError(self._position, NO_CLUSTER.format(sentence))
        self._runtime = runtime
        self.answers.serve_at(runtime.local_addresses(self._servers))
        if self._options["pods"] == "verified":
            self._search = read_search_list(RESOLV_CONF)
        self._shares = True
        self._following.start(runtime)
        if not self.store.serves and self._startup_timeout:
            log.info("plugin/kubernetes: waiting for the cluster before serving")
            if not await runtime.wait_until(lambda: self.store.serves, self._startup_timeout):
                log.warning(
                    "plugin/kubernetes: serving before the cluster has been read; its names are SERVFAIL"
                )

    async def stop(self) -> None:
        """Leave the cluster to the instance that has inherited it, or follow it no more."""
        if self._shares:
            self._shares = False
            self._following.stop()

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
        shared = self.answers.is_multicluster(zone)
        try:
            reply = await self.answers.answer(
                query.qname, query.qtype, zone, partial(self.look_up, request), request.dependencies
            )
        except NoSuchName:
            pass
        else:
            if shared and request.dependencies is not None and _shows_serial(query, reply):
                request.dependencies.mark_uncacheable()
            return reply
        if any(query.qname.is_at_or_below(through) for through in self._fallthrough):
            reply = await next(request)
            # A cache in front keeps it only as long as the cluster does not know the name either.
            still_missing = partial(self.answers.is_missing, query.qname, query.qtype, zone)
            return reply.held(still_missing)
        if shared and request.dependencies is not None:
            request.dependencies.mark_uncacheable()
        soa = self.answers.soa(zone)
        if not self.store.serves:
            return Reply(rcode=Rcode.SERVFAIL, authority=(soa,), aa=True, fresh=True)
        return nxdomain(soa).replace(fresh=True)

    def tells_absence(self, zone: Name) -> bool:
        """Whether the names of a zone that are not those of a namespace or Service do not exist."""
        falls_through = any(
            zone.is_at_or_below(through) or through.is_at_or_below(zone)
            for through in self._fallthrough
        )
        return not falls_through and not self.answers.is_multicluster(zone)

    def transfer(self, zone: Name) -> ZoneTransfer | None:
        """All of a forward zone, as of now."""
        if zone not in self.zones or not has_records(zone):
            return None
        if not self.store.serves:
            raise LookupError(f"zone {zone.to_text()}: the cluster has not been read yet")
        return ZoneTransfer(self.answers.soa(zone), zone_records(self.answers, zone))

    def search_path(self, request: Request) -> tuple[Name, ...] | None:
        """The search list of the pod that asks, for `autopath`; None where that pod, or its namespace, is not known."""
        zone = self._zone_of(request.query.qname)
        if zone is None or self._options["pods"] != "verified":
            return None
        pod = client_pod(self.store, request.client.address)
        if pod is None:
            return None
        svc = Name(_SVC.wire[:-1] + zone.lower)
        namespace = Name(bytes((len(pod[0]),)) + pod[0] + svc.lower)
        return (namespace, svc, zone, *self._search, ROOT)

    def metadata(self, request: Request) -> Mapping[str, Callable[[], str]]:
        """What it knows of a query and of the pod that asks."""
        found = {}
        if self._options["pods"] == "verified":
            found = client_values(self.store, request.client.address)
        zone = self._zone_of(request.query.qname)
        if zone is not None:
            shared = self.answers.is_multicluster(zone)
            asked = self.answers.parse(request.query.qname, zone)
            found |= question_values(asked, zonal=self._options["zonal"], multicluster=shared)
        return found

    def _zone_of(self, qname: Name) -> Name | None:
        """The longest of the plugin's zones that holds a name."""
        best = None
        for zone in self.zones:
            if qname.is_at_or_below(zone) and (best is None or len(zone.lower) > len(best.lower)):
                best = zone
        return best

    async def look_up(self, request: Request, qname: Name, qtype: int) -> Reply:
        """Ask this server for a name outside the zone, with the client's own EDNS."""
        assert self._runtime is not None, "started"
        return await self._runtime.resolve(request.nested(qname, qtype))

    def _answers(self) -> ClusterAnswers:
        options = self._options
        return ClusterAnswers(
            self.store,
            primary_zone=next((zone for zone in self.zones if not is_reverse(zone)), self.zones[0]),
            ttl=options["ttl"],
            namespaces=frozenset(name.encode().lower() for name in options["namespaces"]),
            pods=options["pods"],
            ignore_empty=options["ignore"],
            zonal=options["zonal"],
            multicluster=options["multicluster"],
        )


def _shows_serial(query: Query, reply: Reply) -> bool:
    return bool(reply.authority) or query.qtype == RRType.SOA


def _words(directive: Directive, zones: tuple[Name, ...], block: Block) -> tuple[object, ...]:
    """All that a block says of a cluster: two that say the same follow the same."""
    return (
        zones,
        tuple(token.text for token in directive.args),
        tuple((line.name.text, *(token.text for token in line.args)) for line in directive.lines),
        tuple(token.text for token in block.source or ()),
        block.corefile_dir,
        "metadata" in block.plugins,
    )
