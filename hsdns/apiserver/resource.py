"""What is listed and watched, and where the API server has it.

Path: sources/api_server.py chooses scopes -> reflector.py asks for them.
Rule 1: list and watch on services, endpointslices, namespaces and pods is all that is ever asked for; the roles of
        stock manifests grant no more.  Only the option `multicluster` asks for serviceimports too.
Source: Kubernetes API reference; CoreDNS 1.14.7 plugin/kubernetes/controller.go for the field selector of pods.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hsdns.cluster.objects import EndpointSlice, Namespace, Object, Pod, Service, ServiceImport


class Resource(NamedTuple):
    """A kind of object in the API; `fields` is a field selector that is always sent."""

    kind: str
    plural: str
    prefix: str
    type: type[Object]
    fields: str = ""


SERVICES: Final = Resource("Service", "services", "/api/v1", Service)
ENDPOINT_SLICES: Final = Resource(
    "EndpointSlice", "endpointslices", "/apis/discovery.k8s.io/v1", EndpointSlice
)
NAMESPACES: Final = Resource("Namespace", "namespaces", "/api/v1", Namespace)
# Pods that have ended have no address; the server need not send them.
PODS: Final = Resource(
    "Pod",
    "pods",
    "/api/v1",
    Pod,
    "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown",
)
SERVICE_IMPORTS: Final = Resource(
    "ServiceImport", "serviceimports", "/apis/multicluster.x-k8s.io/v1alpha1", ServiceImport
)


class Scope(NamedTuple):
    """Which objects of a resource: those of one namespace, or of all; those that a label selector matches, or all."""

    resource: Resource
    namespace: str | None = None
    labels: str = ""

    @property
    def path(self) -> str:
        """The path of the collection."""
        resource, namespace = self.resource, self.namespace
        if namespace is None or resource is NAMESPACES:
            return f"{resource.prefix}/{resource.plural}"
        return f"{resource.prefix}/namespaces/{namespace}/{resource.plural}"

    @property
    def query(self) -> dict[str, str]:
        """The selectors as query parameters."""
        fields = self.resource.fields
        if self.resource is NAMESPACES and self.namespace is not None:
            fields = f"metadata.name={self.namespace}"
        selectors = {"labelSelector": self.labels, "fieldSelector": fields}
        return {name: text for name, text in selectors.items() if text}

    def __str__(self) -> str:
        """Name it in sentences: `endpointslices`, `pods in shop`."""
        plural = self.resource.plural
        return plural if self.namespace is None else f"{plural} in {self.namespace}"
