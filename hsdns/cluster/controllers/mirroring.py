"""EndpointSlices from Endpoints objects.

Path: simulation.py -> here -> the store.
Source: k8s.io/kubernetes pkg/controller/endpointslicemirroring, which does this for Services without a selector; hsdns
also does it for dumps that contain Endpoints but no slices or pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from hsdns.cluster.controllers.address import FAMILIES, family_of
from hsdns.cluster.controllers.endpointslice import MANAGED_BY_LABEL, named_slices
from hsdns.cluster.controllers.kinds import EndpointAddress, Endpoints, EndpointSubset
from hsdns.cluster.objects import Endpoint, EndpointConditions, EndpointPort, EndpointSlice


def mirrored_slices(endpoints: Endpoints, taken: set[str]) -> list[EndpointSlice]:
    """The slices of an Endpoints object; `taken` are the names of slices in the namespace."""
    meta = endpoints.metadata
    labels = {
        **(meta.labels or {}),
        MANAGED_BY_LABEL: "endpointslicemirroring-controller.k8s.io",
    }
    made: list[EndpointSlice] = []
    for family in FAMILIES:
        groups = [
            (list(subset.ports or ()), [_endpoint(address, ready) for address, ready in listed])
            for subset in endpoints.subsets or ()
            if (listed := list(_addresses(subset, family)))
        ]
        groups = [([_with_name(port) for port in ports], found) for ports, found in groups]
        made += named_slices(meta.namespace, meta.name, labels, family, groups, taken)
    return made


def _addresses(subset: EndpointSubset, family: str) -> Iterator[tuple[EndpointAddress, bool]]:
    for listed, ready in ((subset.addresses, True), (subset.not_ready_addresses, False)):
        for address in listed or ():
            if family_of(address.ip) == family:
                yield address, ready


def _endpoint(address: EndpointAddress, ready: bool) -> Endpoint:
    return Endpoint(
        addresses=[address.ip],
        conditions=EndpointConditions(ready=ready),
        hostname=address.hostname or None,
        target_ref=address.target_ref,
    )


def _with_name(port: EndpointPort) -> EndpointPort:
    return EndpointPort(name=port.name or "", protocol=port.protocol, port=port.port)
