"""What is watched at the API server of a cluster, and in which scopes.

Path: plugins/kubernetes/options.py and ahead.py make them from the Corefile -> api_server.py.
"""

from __future__ import annotations

from typing import NamedTuple

from hsdns.apiserver.resource import (
    ENDPOINT_SLICES,
    NAMESPACES,
    PODS,
    SERVICE_IMPORTS,
    SERVICES,
    Scope,
)
from hsdns.cluster.objects import IMPORT_NAME_LABEL


class WatchOptions(NamedTuple):
    """What to watch; the selectors are text for the API server."""

    namespaces: tuple[str, ...] = ()
    labels: str = ""
    namespace_labels: str = ""
    endpoints: bool = True
    pods: bool = False
    imports: bool = False

    def union(self, other: WatchOptions) -> WatchOptions:
        """What to watch for two blocks together; each store drops what it does not select."""
        namespaces = (*self.namespaces, *other.namespaces)
        return WatchOptions(
            # If one block needs the whole cluster, there is no alternative to watching it.
            namespaces=tuple(sorted({*namespaces})) if self.namespaces and other.namespaces else (),
            labels=self.labels if self.labels == other.labels else "",
            namespace_labels=self.namespace_labels
            if self.namespace_labels == other.namespace_labels
            else "",
            endpoints=self.endpoints or other.endpoints,
            pods=self.pods or other.pods,
            imports=self.imports or other.imports,
        )

    @property
    def scopes(self) -> list[Scope]:
        """The scopes to watch if nothing is forbidden."""
        scopes = [Scope(SERVICES, labels=self.labels)]
        if self.endpoints:
            scopes.append(Scope(ENDPOINT_SLICES, labels=self.labels))
        elif self.imports:  # `noendpoints` does not hide the endpoints in other clusters
            labels = ",".join(filter(None, (self.labels, IMPORT_NAME_LABEL)))
            scopes.append(Scope(ENDPOINT_SLICES, labels=labels))
        scopes.append(Scope(NAMESPACES, labels=self.namespace_labels))
        if self.imports:  # CoreDNS also uses the selector of the namespaces
            scopes.append(Scope(SERVICE_IMPORTS, labels=self.namespace_labels))
        if self.pods:
            scopes.append(Scope(PODS, labels=self.labels))
        return scopes
