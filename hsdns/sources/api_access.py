"""Which API server the words of a kubernetes block mean, and the connection to it.

Path: plugins/kubernetes.py (endpoint, tls, kubeconfig) -> here -> sources/api_server.py.
Rule 1: kubeconfig overrides endpoint and tls; without any of them it is the cluster that this process runs in
        (CoreDNS 1.14.7 plugin/kubernetes/kubernetes.go getClientConfig).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from hsdns.apiserver.access import AccessSource
from hsdns.apiserver.in_cluster import SERVICE_ACCOUNT, InCluster
from hsdns.apiserver.transport import Transport
from hsdns.cluster.source import Report, Surroundings


class Words(NamedTuple):
    """What the block says; empty where it says nothing."""

    kubeconfig: tuple[str, ...] = ()  # FILE [CONTEXT]
    endpoint: tuple[str, ...] = ()  # URL...
    tls: tuple[str, ...] = ()  # CERT KEY CACERT


class ApiAccess:
    """The way to the API server that the words mean.  Raise ValueError for an endpoint that is no address."""

    def __init__(
        self,
        words: Words,
        environment: Mapping[str, str] = os.environ,
        folder: str = SERVICE_ACCOUNT,
    ) -> None:
        self._words = words
        self._environment = environment
        self._folder = folder
        self._access(time.monotonic, time.time, lambda sentence: None)

    def __str__(self) -> str:
        """The words, or the pod's own cluster."""
        words = (*self._words.kubeconfig, *self._words.endpoint[:1])
        return " ".join(words) or "in cluster"

    @property
    def is_in_cluster(self) -> bool:
        """Whether it is the cluster that this process runs in."""
        return not self._words.kubeconfig and not self._words.endpoint

    def check(self) -> list[str]:
        """Sentences about what is missing; contacts nothing."""
        return self._access(time.monotonic, time.time, lambda sentence: None).check()

    def __call__(self, around: Surroundings, report: Report) -> Transport:
        """Make the connection's client; contacts nothing yet."""
        # Only whoever has an API server to watch pays for the HTTP client.
        from hsdns.apiserver.client import ApiClient  # noqa: PLC0415

        def warn(sentence: str) -> None:
            report(logging.WARNING, sentence)

        access = self._access(around.clock, around.wall, warn)
        return ApiClient(access, around.metrics, around.clock, warn)

    def _access(
        self, now: Callable[[], float], wall: Callable[[], float], warn: Callable[[str], None]
    ) -> AccessSource:
        words = self._words
        if words.kubeconfig:
            from hsdns.apiserver.kubeconfig import Kubeconfig  # noqa: PLC0415 - no pod needs it

            file, context = (*words.kubeconfig, "")[:2]
            return Kubeconfig(file, context, now, wall, warn)
        if words.endpoint:
            from hsdns.apiserver.endpoint import Endpoint  # noqa: PLC0415 - no pod needs it

            return Endpoint(words.endpoint, *words.tls)
        return InCluster(self._environment, now, warn, self._folder)
