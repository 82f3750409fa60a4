"""Finds the object that a name in a cluster zone stands for, if the options of the kubernetes block expose it.

Path: answer.py and plugins/k8s_external.py -> here -> the store's values.
Rule: the counter of everything that is read is added to `dependencies` first: the reply is valid until one of them
      changes.
Source: CoreDNS 1.14.7 plugin/kubernetes (Records, namespaceExposed, Reverse).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Final, NamedTuple

from hsdns.cluster import schema
from hsdns.cluster.address import is_reverse
from hsdns.cluster.freshness import (
    Dependencies,
    address_counter,
    import_counter,
    namespace_counter,
    service_counter,
    spec_counter,
)
from hsdns.cluster.schema import POD, SVC, ParsedName
from hsdns.cluster.store import ClusterView, Store, address_in
from hsdns.cluster.value import CLUSTER_IP, EXTERNAL_NAME, Key, Node, ServiceValue
from hsdns.wire.name import Name

MOST_ALIASES: Final = 8  # that lead to each other, as a server follows them


class NoSuchName(Exception):
    """The name does not exist; `why` is the reason, or a function that makes it from what was found."""

    def __init__(self, why: str | Callable[[], str] = "") -> None:
        super().__init__()
        self._why = why

    @property
    def reason(self) -> str:
        """Why the name does not exist, in a few words (schema.py)."""
        return self._why if isinstance(self._why, str) else self._why()


class PlainValues(NamedTuple):
    """What records of Services and endpoints are made from; the dicts are those of a store, and change with it.

    `cluster_ips` and `endpoint_ips` have the owners of each address, `primary_zone` is the zone of their names.
    """

    services: dict[Key, ServiceValue]
    namespaces: dict[bytes, str]
    cluster_ips: dict[bytes, Any]
    endpoint_ips: dict[bytes, Any]
    primary_zone: Name


@dataclass(eq=False)
class NameLookup:
    """Lookups in one state of a cluster.

    `primary_zone` is the zone of the names in PTR records, `namespaces` are the exposed ones (none: all), `pods` is the
    mode of that option, `ignore_empty` hides Services with a ClusterIP and no ready endpoint.  `ttl` in seconds.
    `zonal` allows names for a topology zone; zones at or below one of `multicluster` have ServiceImports instead of
    Services.
    """

    store: ClusterView
    _: KW_ONLY
    primary_zone: Name
    ttl: int
    namespaces: frozenset[bytes] = frozenset()
    pods: str = "disabled"
    ignore_empty: bool = False
    zonal: bool = False
    multicluster: tuple[Name, ...] = ()

    def plain_values(self) -> PlainValues | None:
        """The values of the store; None if options hide some or add others, or the state is an earlier one."""
        store = self.store
        is_plain = not (self.namespaces or self.ignore_empty or self.multicluster)
        if not is_plain or not isinstance(store, Store):
            return None
        services = store.services
        return PlainValues(
            services.values,
            store.namespaces,
            services.cluster_ips.owners,
            services.endpoint_ips.owners,
            self.primary_zone,
        )

    def is_multicluster(self, zone: Name) -> bool:
        """Whether a zone has ServiceImports."""
        shared = self.multicluster
        return bool(shared) and any(zone.is_at_or_below(each) for each in shared)

    def parse(self, qname: Name, zone: Name) -> ParsedName | None:
        """The parts of a name in a zone; None for names that cannot exist."""
        return schema.parse(
            qname.below(zone), zonal=self.zonal, multicluster=self.is_multicluster(zone)
        )

    def values(self, zone: Name) -> Mapping[Key, ServiceValue]:
        """The Services of a zone, or its ServiceImports."""
        store = self.store
        return (store.imports if self.is_multicluster(zone) else store.services).values

    def is_exposed(self, namespace: bytes, dependencies: Dependencies | None) -> bool:
        """Whether names in a namespace may exist: it exists, and `namespaces` does not exclude it."""
        if dependencies is not None:
            dependencies.add(namespace_counter(namespace))
        allowed = not self.namespaces or namespace in self.namespaces
        return allowed and namespace in self.store.namespaces

    def excludes(self, name: Name, zone: Name) -> bool:
        """Whether a name belongs to a namespace that `namespaces` excludes."""
        parsed = self.parse(name, zone) if self.namespaces else None
        return parsed is not None and bool(parsed.kind) and parsed.namespace not in self.namespaces

    def hides(self, value: ServiceValue) -> bool:
        """Whether `ignore empty_service` hides a Service."""
        return self.ignore_empty and value.kind == CLUSTER_IP and not value.has_endpoints

    def may_point_to(self, namespace: bytes, dependencies: Dependencies | None) -> bool:
        """Whether PTR records may point to a namespace: any one without `namespaces`, else only an exposed one."""
        return not self.namespaces or self.is_exposed(namespace, dependencies)

    def find(
        self, qname: Name, zone: Name, dependencies: Dependencies | None
    ) -> tuple[Node, ParsedName] | bytes | None:
        """A Service's or endpoint's node, a pod's address, or None for empty non-terminals; raise NoSuchName."""
        parsed = self.parse(qname, zone)
        if parsed is None:
            raise NoSuchName(schema.NO_FORM)
        if not parsed.kind:
            return None
        if is_reverse(qname):
            raise NoSuchName(schema.NO_FORM)
        if not self.is_exposed(parsed.namespace, dependencies):
            is_filtered = self.namespaces or self.store.settings.namespace_labels is not None
            raise NoSuchName(schema.NO_SERVED_NAMESPACE if is_filtered else schema.NO_NAMESPACE)
        if parsed.kind == POD:
            return self._find_pod(parsed, dependencies)
        if not parsed.name:
            return None
        value = self._value(parsed, zone, dependencies)
        if value is None:
            is_selected = self.store.settings.labels is not None
            raise NoSuchName(schema.NO_SERVED_SERVICE if is_selected else schema.NO_SERVICE)
        # A snapshot does not contain endpoints that are not ready.
        counted = self.store.restored is None
        if self.hides(value):
            raise NoSuchName(partial(schema.readiness, value, counted=counted))
        node = schema.find(value, parsed, qname, self.ttl)
        if node is None:
            raise NoSuchName(partial(schema.absence, value, parsed, counted=counted))
        if dependencies is not None and qname.lower not in value.nodes:
            dependencies.mark_numerous()  # a topology zone without endpoints, which may be any text
        return node, parsed

    def nothing_behind(self, qname: Name, zone: Name) -> str:
        """How many endpoints are ready behind a name with a cluster IP, if none is."""
        parsed = self.parse(qname, zone)
        if parsed is None or parsed.kind != SVC or parsed.endpoint or self.is_multicluster(zone):
            return ""
        value = self.store.services.values.get((parsed.namespace, parsed.name))
        if value is None or value.kind != CLUSTER_IP or value.has_endpoints:
            return ""
        settings = self.store.settings
        if settings.noendpoints:
            return ""
        return schema.readiness(value, counted=settings.not_ready and self.store.restored is None)

    def is_dead_end(self, qname: Name, zone: Name) -> bool:
        """Whether a name that exists leads to no endpoint, to none with a port of its Service, or to no name."""
        for _ in range(MOST_ALIASES):
            if self.nothing_behind(qname, zone):
                return True
            try:
                found = self.find(qname, zone, None)
            except NoSuchName:
                return True
            if found is None or isinstance(found, bytes):
                return False
            node, parsed = found
            if not node.targets:
                value = self.store.services.values.get((parsed.namespace, parsed.name))
                return value is not None and value.kind == CLUSTER_IP and not value.has_port
            qname = node.targets[0]
            if not qname.is_at_or_below(zone):
                return False
        return True

    def pod_entries(self, address: bytes, namespace: bytes) -> int:
        """The number of entries that share the SRV weight of a pod's name: one for each pod, 1 for any address."""
        return self.store.pods.count(address, namespace) if self.pods == "verified" else 1

    def pointers(self, address: bytes, dependencies: Dependencies | None) -> list[Name]:
        """The names of an address: of the first Service with that ClusterIP, else of all endpoints."""
        services = self.store.services
        if dependencies is not None:
            dependencies.add(address_counter(address))
        # If several share it, as manifests may define, it is always the same one, in any order of events.
        for namespace, name in sorted(services.cluster_ips.lookup(address)):
            if self.may_point_to(namespace, dependencies):
                target = schema.target_name(
                    None, ParsedName(SVC, namespace, name), self.primary_zone
                )
                return [target] if target is not None else []
        found: list[Name] = []
        for owner in services.endpoint_ips.lookup(address):
            if self.may_point_to(owner[0], dependencies):
                if dependencies is not None:
                    dependencies.add(service_counter(owner[0], owner[1]))
                value = services.values.get((owner[0], owner[1]))
                if value is not None:  # None: an event is removing both
                    found += schema.pointers(value, owner, address, self.primary_zone)
        return found

    def _value(
        self, parsed: ParsedName, zone: Name, dependencies: Dependencies | None
    ) -> ServiceValue | None:
        values, key = self.values(zone), (parsed.namespace, parsed.name)
        value = values.get(key)
        if dependencies is None:
            return value
        # The value says which counter it has, and is read again once that counter has been added.
        if self.is_multicluster(zone):
            dependencies.add(import_counter(*key))
            return values.get(key)
        if not self._needs_slices(value, parsed):
            dependencies.add(spec_counter(*key))
            value = values.get(key)
            if not self._needs_slices(value, parsed):
                return value
        dependencies.add(service_counter(*key))
        return values.get(key)

    def _needs_slices(self, value: ServiceValue | None, parsed: ParsedName) -> bool:
        """Whether a name at or below a Service depends on its slices."""
        return (
            value is None
            or value.kind not in (CLUSTER_IP, EXTERNAL_NAME)
            or bool(parsed.endpoint or parsed.topology_zone)
            or self.ignore_empty
            or self.store.settings.not_ready  # an error beside a cluster IP says that nothing stands behind it
        )

    def _find_pod(self, parsed: ParsedName, dependencies: Dependencies | None) -> bytes | None:
        if self.pods == "disabled":
            raise NoSuchName(schema.PODS_DISABLED)
        if self.pods == "verified" and dependencies is not None:
            # Pods have no counters: with `verified` they change too often for their replies to be stored.
            dependencies.mark_uncacheable()
        if not parsed.name:
            return None
        if self.pods == "insecure" and dependencies is not None:
            dependencies.mark_numerous()
        if self.pods == "verified":
            address = self.store.pods.address_of(parsed.name, parsed.namespace)
        else:
            address = address_in(parsed.name)
        if address is None:
            is_verified = self.pods == "verified"
            raise NoSuchName(schema.NO_POD if is_verified else schema.NO_ADDRESS)
        return address
