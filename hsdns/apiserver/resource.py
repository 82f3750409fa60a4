"""Resources and scopes: what is listed and watched, and its paths in the API.

Path: sources/api_server.py chooses scopes -> reflector.py requests them.
Rule: only services, endpointslices, namespaces and pods are listed and watched; the roles of the stock manifests allow
      no more.  The option `multicluster` adds serviceimports.
Source: Kubernetes API reference; CoreDNS 1.14.7 plugin/kubernetes/controller.go for the field selector of pods.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hsdns.cluster.objects import EndpointSlice, Namespace, Object, Pod, Service, ServiceImport


class Resource(NamedTuple):
    """A resource of the API; `fields` is a field selector that every request contains.

    With `is_custom`, a CustomResourceDefinition defines it; the API server sends such resources in JSON only.
    """

    kind: str
    plural: str
    prefix: str
    type: type[Object]
    fields: str = ""
    is_custom: bool = False


SERVICES: Final = Resource("Service", "services", "/api/v1", Service)
ENDPOINT_SLICES: Final = Resource(
    "EndpointSlice", "endpointslices", "/apis/discovery.k8s.io/v1", EndpointSlice
)
NAMESPACES: Final = Resource("Namespace", "namespaces", "/api/v1", Namespace)
# Pods that have ended have no address and are not requested.
PODS: Final = Resource(
    "Pod",
    "pods",
    "/api/v1",
    Pod,
    "status.phase!=Succeeded,status.phase!=Failed,status.phase!=Unknown",
)
SERVICE_IMPORTS: Final = Resource(
    "ServiceImport",
    "serviceimports",
    "/apis/multicluster.x-k8s.io/v1alpha1",
    ServiceImport,
    is_custom=True,
)


class Scope(NamedTuple):
    """Objects of a resource: of one namespace or all (None), optionally those that a label selector matches."""

    resource: Resource
    namespace: str | None = None
    labels: str = ""

    @property
    def path(self) -> str:
        """Return the path of the collection."""
        resource, namespace = self.resource, self.namespace
        if namespace is None or resource is NAMESPACES:
            return f"{resource.prefix}/{resource.plural}"
        return f"{resource.prefix}/namespaces/{namespace}/{resource.plural}"

    @property
    def query(self) -> dict[str, str]:
        """Return the selectors as query parameters."""
        fields = self.resource.fields
        if self.resource is NAMESPACES and self.namespace is not None:
            fields = f"metadata.name={self.namespace}"
        selectors = {"labelSelector": self.labels, "fieldSelector": fields}
        return {name: text for name, text in selectors.items() if text}

    def __str__(self) -> str:
        """The scope in messages: `endpointslices`, `pods in shop`."""
        plural = self.resource.plural
        return plural if self.namespace is None else f"{plural} in {self.namespace}"


# The media types of responses: the Accept header of a request, and the type of a response.
#
# Rule: protobuf is requested only if compiled code reads it: msgspec reads JSON faster than Python reads protobuf.
# Source: Kubernetes API concepts, "Alternate representations of resources"; docs/decisions/0030.


JSON: Final = "application/json"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


def accepted(resource: Resource, *, is_compiled: bool) -> str:
    """The Accept header of requests for a resource; `is_compiled`: whether compiled code reads protobuf."""
    return f"{PROTOBUF}, {JSON}" if is_compiled and not resource.is_custom else JSON


def is_protobuf(content_type: str) -> bool:
    """Whether a response with this Content-Type is protobuf."""
    return content_type.partition(";")[0].strip().lower() == PROTOBUF
