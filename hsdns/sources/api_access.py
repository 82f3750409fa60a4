"""Connection options of a kubernetes block: which API server it uses, and with which credentials.

Path: plugins/kubernetes (endpoint, tls, kubeconfig) -> here -> sources/api_server.py.
Rule: kubeconfig overrides endpoint and tls; without any of them the in-cluster configuration is used (CoreDNS 1.14.7
      plugin/kubernetes/kubernetes.go getClientConfig).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from hsdns.apiserver.access import SERVICE_ACCOUNT, AccessSource, InCluster
from hsdns.apiserver.resource import (
    ENDPOINT_SLICES,
    NAMESPACES,
    PODS,
    SERVICE_IMPORTS,
    SERVICES,
    Scope,
)
from hsdns.cluster.objects import IMPORT_NAME_LABEL

if TYPE_CHECKING:
    from hsdns.apiserver.transport import Transport
    from hsdns.cluster.source import Report, Surroundings


# What is watched at the API server of a cluster, and in which scopes.


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


class ConnectionOptions(NamedTuple):
    """The block's properties for the connection; empty if absent."""

    kubeconfig: tuple[str, ...] = ()  # FILE [CONTEXT]
    endpoint: tuple[str, ...] = ()  # URL...
    tls: tuple[str, ...] = ()  # CERT KEY CACERT
    runs_code: bool = True  # whether a program that the kubeconfig names may run


@dataclass(frozen=True)
class ApiAccess:
    """Makes the transport to the API server; raises ValueError for a bad URL, or if kubeconfigs cannot be read.

    `ahead` has the transports that have sent requests ahead: the first caller with the same access gets one.
    """

    ahead: ClassVar[dict[ApiAccess, Transport]] = {}

    options: ConnectionOptions
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, compare=False)
    folder: str = SERVICE_ACCOUNT

    def __post_init__(self) -> None:
        """Find a bad URL, or that kubeconfigs cannot be read."""
        self.source(time.monotonic, time.time, lambda sentence: None)

    def __str__(self) -> str:
        """Return the kubeconfig or the endpoint, else `in cluster`."""
        words = (*self.options.kubeconfig, *self.options.endpoint[:1])
        return " ".join(words) or "in cluster"

    @property
    def is_in_cluster(self) -> bool:
        """Whether the in-cluster configuration is used."""
        return not self.options.kubeconfig and not self.options.endpoint

    def check(self) -> list[str]:
        """Return a sentence for each missing part; does not contact the server."""
        return self.source(time.monotonic, time.time, lambda sentence: None).check()

    def __call__(self, around: Surroundings, report: Report) -> Transport:
        """Make the client, or take the one in `ahead`; does not contact the server yet."""
        made = self.ahead.pop(self, None)
        if made is not None:
            return made
        # The HTTP client is imported only if there is an API server to watch.
        from hsdns.apiserver.client import ApiClient  # noqa: PLC0415

        def warn(sentence: str) -> None:
            report(logging.WARNING, sentence)

        access = self.source(around.clock, around.wall, warn)
        return ApiClient(access, around.metrics, around.clock, warn)

    def source(
        self, now: Callable[[], float], wall: Callable[[], float], warn: Callable[[str], None]
    ) -> AccessSource:
        """The address and the credentials; `now` and `wall` are clocks, `warn` takes sentences."""
        options = self.options
        if options.kubeconfig:
            from hsdns.apiserver.kubeconfig import Kubeconfig  # noqa: PLC0415 - no pod needs it

            file, context = (*options.kubeconfig, "")[:2]
            return Kubeconfig(file, context, now, wall, warn, runs_code=options.runs_code)
        if options.endpoint:
            from hsdns.apiserver.access import Endpoint  # noqa: PLC0415 - no pod needs it

            return Endpoint(options.endpoint, *options.tls)
        return InCluster(self.environment, now, warn, self.folder)
