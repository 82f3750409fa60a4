"""Handles of a test for the objects of its cluster: Service, Endpoint, StatefulSet.

Path: cluster.py creates them -> here -> objects.py; when a method returns, answers show its change.
Rule 1: they hold names only; their properties show the served state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, Self

from hsdns.cluster.controllers.address import FAMILIES, family_of
from hsdns.cluster.objects import SERVICE_NAME_LABEL
from hsdns.testing.errors import ClusterError, checks_keywords, hides, unknown
from hsdns.testing.names import ZONE
from hsdns.testing.objects import Objects

__tracebackhide__ = hides

Ports = Mapping[str, int | str]  # name -> number, or "NUMBER/PROTOCOL"


class Changes(Protocol):
    """The interface of the cluster for its handles."""

    @property
    def objects(self) -> Objects:
        """The objects; raise ClusterError if the cluster has ended."""

    def changing(self) -> AbstractContextManager[Objects]:
        """Change the objects; at the end, answers show the changes.  One thread at a time."""


class Service:
    """A Service and its endpoints."""

    def __init__(self, changes: Changes, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.name = name
        self._changes = changes

    def __repr__(self) -> str:
        """Show kind, namespace and name."""
        return f"<Service {self.namespace}/{self.name}>"

    @property
    def dns_name(self) -> str:
        """The whole name, without a final dot."""
        return f"{self.name}.{self.namespace}.svc.{ZONE}"

    @property
    def addresses(self) -> list[str]:
        """The addresses of all its endpoints, ready or not."""
        endpoints = self._objects.endpoints(self.namespace, self.name)
        return list(dict.fromkeys(address for address, _ in endpoints))

    @property
    def cluster_ips(self) -> list[str]:
        """Its cluster IPs; none for a headless Service and an ExternalName."""
        found = self._objects.service(self.namespace, self.name)
        return [each for each in (found and found.spec.cluster_ips) or () if each != "None"]

    def endpoints(self, *addresses: str) -> Self:
        """Add ready endpoints, as an EndpointSlice without pods."""
        with self._changes.changing():
            self._add(*({"addresses": [str(address)]} for address in addresses))
        return self

    @checks_keywords
    def endpoint(self, address: str, *, hostname: str | None = None, ready: bool = True) -> Self:
        """Add an endpoint; with a hostname it has its own name below the name of the Service."""
        with self._changes.changing() as objects:
            self._add({"addresses": [str(address)], **({"hostname": hostname} if hostname else {})})
            objects.set_endpoint_ready((self.namespace, self.name, address), ready)
        return self

    def __getitem__(self, address: str) -> Endpoint:
        """The endpoint with an address; raise ClusterError if there is none."""
        known = self.addresses
        if address not in known:
            raise unknown(f"{self!r} has no endpoint", address, known)
        return Endpoint(self._changes, self, address)

    def ready(self) -> Self:
        """Make all endpoints ready."""
        return self._set_ready(True)

    def not_ready(self) -> Self:
        """Make no endpoint ready."""
        return self._set_ready(False)

    def delete(self) -> None:
        """Delete it with its EndpointSlices; pods of workloads stay."""
        with self._changes.changing():
            self._objects.remove("Service", self.namespace, self.name)

    @property
    def _objects(self) -> Objects:
        objects = self._changes.objects
        if objects.service(self.namespace, self.name) is None:
            raise ClusterError(f"{self!r} was deleted; make it again with cluster.service()")
        return objects

    def _set_ready(self, ready: bool) -> Self:
        with self._changes.changing() as objects:
            for address in self.addresses:
                objects.set_endpoint_ready((self.namespace, self.name, address), ready)
        return self

    def _add(self, *added: Mapping[str, Any]) -> None:
        """Add endpoints to the endpoints written by the test, or replace them; all or none."""
        objects = self._objects
        service = objects.service(self.namespace, self.name)
        if service is not None and service.spec.selector:
            raise ClusterError(
                f"{self!r} has a selector, so its endpoints are pods; leave selector out to write endpoints"
            )
        new = [address for each in added for address in each["addresses"]]
        written = [each for each in self._written() if each["addresses"][0] not in new]
        self._write([*written, *added])

    def _written(self) -> list[Mapping[str, Any]]:
        """The endpoints written by the test."""
        objects = self._objects
        return [each for family in FAMILIES for each in objects.endpoints_in(self._slice(family))]

    def _write(self, endpoints: Sequence[Mapping[str, Any]]) -> None:
        service = self._objects.service(self.namespace, self.name)
        ports = [
            {"name": each.name or "", "port": each.port, "protocol": each.protocol}
            for each in (service and service.spec.ports) or ()
        ]
        slices = []
        for family in FAMILIES:
            _, namespace, name = self._slice(family)
            labels = {SERVICE_NAME_LABEL: self.name}
            slices.append({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
                "metadata": {"name": name, "namespace": namespace, "labels": labels},
                "endpoints": [each for each in endpoints if family_of(each["addresses"][0]) == family],
                "ports": ports,
            })  # fmt: skip
        self._objects.apply_slices("endpoints()", slices)

    def _slice(self, family: str) -> tuple[str, str, str]:
        return "EndpointSlice", self.namespace, f"{self.name}-test-{family.lower()}"


class Endpoint:
    """One address of a Service."""

    def __init__(self, changes: Changes, service: Service, address: str) -> None:
        self.service = service
        self.address = address
        self._changes = changes

    def ready(self) -> Self:
        """Make it ready; if it is a pod, in each Service that selects the pod."""
        return self._set_ready(True)

    def not_ready(self) -> Self:
        """Make it not ready; if it is a pod, in each Service that selects the pod."""
        return self._set_ready(False)

    def delete(self) -> None:
        """Delete it; raise ClusterError if it was not written by endpoints() or endpoint()."""
        with self._changes.changing():
            service = self._there()
            written = service._written()
            left = [each for each in written if self.address not in each["addresses"]]
            if len(left) == len(written):
                raise ClusterError(
                    f"{self.address} of {service!r} was not written by endpoints(); "
                    "scale its workload, or make it not_ready()"
                )
            service._write(left)

    def _set_ready(self, ready: bool) -> Self:
        with self._changes.changing() as objects:
            service = self._there()
            objects.set_endpoint_ready((service.namespace, service.name, self.address), ready)
        return self

    def _there(self) -> Service:
        self.service[self.address]
        return self.service


class StatefulSet:
    """A StatefulSet and its pods, NAME-0, NAME-1 and so on."""

    def __init__(
        self,
        changes: Changes,
        namespace: str,
        name: str,
        service: Service,
        labels: Mapping[str, str],
    ) -> None:
        self.namespace = namespace
        self.name = name
        self.service = service
        self._labels = labels
        self._changes = changes

    def __repr__(self) -> str:
        """Show kind, namespace and name."""
        return f"<StatefulSet {self.namespace}/{self.name}>"

    @property
    def addresses(self) -> list[str]:
        """The IPv4 addresses of its pods, by ordinal."""
        pods = self._objects.pods()
        return [
            next(each for each in pods[self.namespace, name].addresses if family_of(each) == "IPv4")
            for name in self._pod_names(pods)
        ]

    def scale(self, replicas: int) -> Self:
        """Change the number of pods."""
        with self._changes.changing():
            self._write(self._objects, replicas)
        return self

    def ready(self, *ordinals: int) -> Self:
        """Make pods ready, all of them without ordinals."""
        return self._set_ready(ordinals, True)

    def not_ready(self, *ordinals: int) -> Self:
        """Make pods not ready, all of them without ordinals."""
        return self._set_ready(ordinals, False)

    def delete(self) -> None:
        """Delete it with its pods; its Service stays."""
        with self._changes.changing():
            self._objects.remove("StatefulSet", self.namespace, self.name)

    @property
    def _objects(self) -> Objects:
        objects = self._changes.objects
        if not objects.has("StatefulSet", self.namespace, self.name):
            raise ClusterError(f"{self!r} was deleted; make it again with cluster.statefulset()")
        return objects

    def _set_ready(self, ordinals: Sequence[int], ready: bool) -> Self:
        with self._changes.changing():
            objects = self._objects
            names = self._pod_names(objects.pods())
            chosen = [f"{self.name}-{ordinal}" for ordinal in ordinals] or names
            for name in chosen:
                if name not in names:
                    raise unknown(f"{self!r} has no pod", name, names)
            for name in chosen:
                objects.set_pod_ready((self.namespace, name), ready)
        return self

    def _pod_names(self, pods: Mapping[tuple[str, str], object]) -> list[str]:
        names: list[str] = []
        while (self.namespace, name := f"{self.name}-{len(names)}") in pods:
            names.append(name)
        return names

    def _write(self, objects: Objects, replicas: int) -> None:
        fields = {
            "apiVersion": "apps/v1", "kind": "StatefulSet",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "replicas": replicas, "serviceName": self.service.name,
                "selector": {"matchLabels": self._labels},
                "template": {"metadata": {"labels": self._labels}},
            },
        }  # fmt: skip
        objects.apply_objects("statefulset()", [fields])


def port_list(ports: Ports) -> list[dict[str, Any]]:
    """The ports of a Service as in a manifest; raise ClusterError for one that cannot be read."""
    made: list[dict[str, Any]] = []
    for name, value in ports.items():
        number, slash, protocol = str(value).partition("/")
        if not number.isdigit() or (slash and not protocol):
            raise ClusterError(
                f'port "{name}" is {value!r}; write a number, or a number and a protocol such as "53/UDP"'
            )
        made.append({"name": name, "port": int(number), "protocol": protocol or "TCP"})
    return made
