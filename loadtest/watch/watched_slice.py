"""An EndpointSlice as stored in the API server, in which an address is to be replaced.

Path: latency.py patches one; churn.py compares all of them with the DNS answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from loadtest.dns import service_name
from loadtest.watch.access import Access

SLICES = "/apis/discovery.k8s.io/v1/endpointslices"


class WatchedSlice(NamedTuple):
    """The path and the Service of a slice, and its addresses in the order of its endpoints."""

    namespace: str
    name: str
    service: str
    addresses: tuple[str, ...]

    @classmethod
    def of(cls, manifest: dict[str, Any]) -> WatchedSlice:
        """Read one item of a list."""
        metadata = manifest["metadata"]
        return cls(
            metadata["namespace"],
            metadata["name"],
            metadata["labels"]["kubernetes.io/service-name"],
            tuple(
                address
                for endpoint in manifest["endpoints"] or ()
                for address in endpoint["addresses"]
            ),
        )

    @property
    def path(self) -> str:
        """The path for patching it."""
        group = "/apis/discovery.k8s.io/v1"
        return f"{group}/namespaces/{self.namespace}/endpointslices/{self.name}"

    @property
    def dns_name(self) -> str:
        """The name of its Service."""
        return service_name(self.namespace, self.service)


def slices(access: Access, most: int | None = None) -> Iterator[WatchedSlice]:
    """List the slices of the whole cluster, up to a limit."""
    return (WatchedSlice.of(item) for item in access.items(SLICES, most))
