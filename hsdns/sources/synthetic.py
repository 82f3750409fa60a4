"""The source `synthetic NAME=VALUE...`: a generated cluster for load tests, with a constant rate of changes.

Path: SyntheticCluster (objects) and Pace (timing) -> deliver.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address
from itertools import islice
from random import Random
from typing import Any, Final, NamedTuple, Self

from msgspec import structs

from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointConditions,
    EndpointPort,
    EndpointSlice,
    Namespace,
    Object,
    ObjectMeta,
    ObjectReference,
    Service,
    ServicePort,
    ServiceSpec,
    Synced,
    Upserted,
)
from hsdns.cluster.source import Deliver, Lead, Reading, Report, Surroundings
from hsdns.corefile.properties import integer, number
from hsdns.corefile.tree import Token
from hsdns.sources import read_settings

# Generator of a synthetic cluster: objects and changes that depend only on a seed.
#
# Rule 1: Service N is `svc-N` in namespace `ns-M`, M = N // 100; its endpoint P is `svc-N-P`.  Which Services are
#         headless or dual-stack depends on the shares alone, so a load test can derive all names.
# Rule 2: the seed determines addresses and changes.
# Rule 3: no address is used twice at the same time.


SERVICES_PER_NAMESPACE = 100
ENDPOINTS_PER_SLICE = 100  # kube-controller-manager's --max-endpoints-per-slice
PORT = 8080
_SPARES = 65_536  # unused addresses; a released one is reused after all of them
_POD_SPACE = 2**24
MAX_SERVICES = 2**20
MAX_ENDPOINTS = _POD_SPACE - _SPARES  # of all Services together
_POD_V4 = int(IPv4Address("10.0.0.0"))
_POD_V6 = int(IPv6Address("fd00:10:244::"))
_SERVICE_V4 = int(IPv4Address("172.16.0.0"))
_SERVICE_V6 = int(IPv6Address("fd00:10:96::"))


class Shape(NamedTuple):
    """The parameters of a synthetic cluster; shares are 0 to 1."""

    services: int = 1000
    endpoints: int = 10
    headless: float = 0.5
    dual_stack: float = 0.0
    seed: int = 1

    def is_headless(self, service: int) -> bool:
        """Whether a Service is headless; the headless ones are spread evenly."""
        return _is_selected(service, self.headless)

    def is_dual_stack(self, service: int) -> bool:
        """Whether a Service is dual-stack: the same share among the headless ones and the others."""
        headless_before = _whole(service, self.headless)
        nth = headless_before if self.is_headless(service) else service - headless_before
        return _is_selected(nth, self.dual_stack)

    def families(self, service: int) -> list[str]:
        """Return the address families of a Service."""
        return ["IPv4", "IPv6"] if self.is_dual_stack(service) else ["IPv4"]


class SyntheticCluster:
    """Generates the objects of a cluster and its changes."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._random = Random(shape.seed)
        # An odd step visits every address of the space once.
        self._step = self._random.randrange(1, _POD_SPACE, 2)
        self._offset = self._random.randrange(_POD_SPACE)
        self._version = 0
        # (service, endpoint) -> index in the address space
        self._moved: dict[tuple[int, int], int] = {}
        total = shape.services * shape.endpoints
        self._spares = deque(range(total, total + _SPARES))

    def objects(self) -> Iterator[Object]:
        """Yield all current objects, each with a new resource version."""
        for namespace in range(self._namespaces):
            yield Namespace(
                ObjectMeta(name=f"ns-{namespace}", resource_version=self._next_version())
            )
        for service in range(self.shape.services):
            yield from self._of_service(service)

    def find(self, lead: Lead) -> Iterator[Object]:
        """Yield the current objects for a question, without resource versions."""
        version = self._version
        for namespace in lead.namespaces:
            number = _number(namespace, b"ns-")
            if number is not None and number < self._namespaces:
                yield Namespace(ObjectMeta(name=f"ns-{number}"))
        for namespace, name in lead.services:
            service = _number(name, b"svc-")
            is_there = service is not None and service < self.shape.services
            if is_there and service is not None and _namespace(service).encode() == namespace:
                for each in self._of_service(service):
                    meta = structs.replace(each.metadata, resource_version="")
                    yield structs.replace(each, metadata=meta)
        self._version = version

    @property
    def _namespaces(self) -> int:
        return -(-self.shape.services // SERVICES_PER_NAMESPACE)

    def _of_service(self, service: int) -> Iterator[Object]:
        shape = self.shape
        yield self._service(service)
        for family in shape.families(service):
            for first in range(0, shape.endpoints, ENDPOINTS_PER_SLICE):
                yield self._slice(service, family, first)

    def change(self) -> EndpointSlice:
        """Replace one address of a slice, as if a pod had been replaced; raise ValueError without endpoints."""
        shape = self.shape
        if not shape.services or not shape.endpoints:
            raise ValueError("a cluster without endpoints has nothing to change")
        service = self._random.randrange(shape.services)
        endpoint = self._random.randrange(shape.endpoints)
        self._spares.append(self._index(service, endpoint))
        self._moved[service, endpoint] = self._spares.popleft()
        # The other address of a dual-stack pod is unchanged: one event changes one slice.
        first = endpoint - endpoint % ENDPOINTS_PER_SLICE
        return self._slice(service, "IPv4", first)

    def unused_addresses(self) -> Iterator[str]:
        """IPv4 addresses of pods that no endpoint has now."""
        return map(self._address, self._spares)

    def _service(self, service: int) -> Service:
        shape = self.shape
        families = shape.families(service)
        if shape.is_headless(service):
            cluster_ips = ["None"]
            port = ServicePort(port=PORT, name="http", protocol="TCP")
        else:
            numbers = {
                "IPv4": str(IPv4Address(_SERVICE_V4 + service)),
                "IPv6": str(IPv6Address(_SERVICE_V6 + service)),
            }
            cluster_ips = [numbers[family] for family in families]
            port = ServicePort(port=80, name="http", protocol="TCP", target_port=PORT)
        return Service(
            metadata=ObjectMeta(
                name=f"svc-{service}",
                namespace=_namespace(service),
                resource_version=self._next_version(),
            ),
            spec=ServiceSpec(
                type="ClusterIP",
                cluster_ip=cluster_ips[0],
                cluster_ips=cluster_ips,
                ip_families=families,
                ports=[port],
                selector={"app": f"svc-{service}"},
            ),
        )

    def _slice(self, service: int, family: str, first: int) -> EndpointSlice:
        last = min(first + ENDPOINTS_PER_SLICE, self.shape.endpoints)
        suffix = "v4" if family == "IPv4" else "v6"
        return EndpointSlice(
            metadata=ObjectMeta(
                name=f"svc-{service}-{suffix}-{first // ENDPOINTS_PER_SLICE}",
                namespace=_namespace(service),
                resource_version=self._next_version(),
                labels={SERVICE_NAME_LABEL: f"svc-{service}"},
            ),
            address_type=family,
            endpoints=[self._endpoint(service, family, each) for each in range(first, last)],
            ports=[EndpointPort(name="http", protocol="TCP", port=PORT)],
        )

    def _endpoint(self, service: int, family: str, endpoint: int) -> Endpoint:
        name = f"svc-{service}-{endpoint}"
        if family == "IPv4":
            address = self._address(self._index(service, endpoint))
        else:
            index = self._initial_index(service, endpoint)
            address = str(IPv6Address(_POD_V6 + 1 + self._scattered(index)))
        return Endpoint(
            addresses=[address],
            conditions=_READY,
            hostname=name if self.shape.is_headless(service) else None,
            target_ref=ObjectReference(kind="Pod", name=name, namespace=_namespace(service)),
        )

    def _address(self, index: int) -> str:
        return str(IPv4Address(_POD_V4 + self._scattered(index)))

    def _initial_index(self, service: int, endpoint: int) -> int:
        return service * self.shape.endpoints + endpoint

    def _index(self, service: int, endpoint: int) -> int:
        return self._moved.get((service, endpoint), self._initial_index(service, endpoint))

    def _scattered(self, index: int) -> int:
        return (self._offset + index * self._step) % _POD_SPACE

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)


_READY = EndpointConditions(ready=True, serving=True, terminating=False)


def _number(label: bytes, prefix: bytes) -> int | None:
    """The number in a label such as `svc-12`; None for other labels."""
    digits = label.removeprefix(prefix).decode("ascii", "replace")
    if not digits.isdecimal() or prefix + str(int(digits)).encode() != label:
        return None
    return int(digits)


def _namespace(service: int) -> str:
    return f"ns-{service // SERVICES_PER_NAMESPACE}"


def _whole(count: int, share: float) -> int:
    # Rounded first: 0.1 + 0.2 is slightly more than 0.3 and must not be rounded up.
    return int(round(count * share, 6))


def _is_selected(index: int, share: float) -> bool:
    return _whole(index + 1, share) > _whole(index, share)


_BATCH = 4096  # objects per delivery at the start, to limit memory
_TICK_SECONDS = 0.05  # maximum delay of a change


SETTINGS: Final[dict[str, Callable[[Token], Any]]] = {
    "services": integer(0, MAX_SERVICES),
    "endpoints": integer(0, 10_000),
    "headless": number(0, 1),
    "dual_stack": number(0, 1),
    "changes": number(0, 100_000),
    "seed": integer(0),
}


class Pace:
    """Computes how many changes are due; after a stall, at most those of one second."""

    def __init__(self, rate: float, now: float) -> None:
        self._rate = rate
        self._start = now
        self._done = 0

    def due(self, now: float) -> int:
        """Return the number of changes to make now."""
        count = int((now - self._start) * self._rate) - self._done
        most = max(1, int(self._rate))
        self._done += count
        return min(count, most)

    @property
    def pause(self) -> float:
        """Seconds until the next call of due()."""
        return max(1.0 / self._rate, _TICK_SECONDS)


class Synthetic:
    """A generated cluster; `changes` are events per second."""

    def __init__(self, shape: Shape, changes: float = 0.0) -> None:
        self.shape = shape
        self.changes = changes
        self._cluster = SyntheticCluster(shape)

    @classmethod
    def setup(cls, name: Token, args: Sequence[Token], base_dir: str) -> Self:
        """Parse the settings; raise CorefileError."""
        del base_dir  # no setting is a path
        values = read_settings(name, args, SETTINGS)
        changes: float = values.pop("changes", 0.0)
        shape = Shape(**values)
        total = shape.services * shape.endpoints
        if total > MAX_ENDPOINTS:
            raise name.error(
                f"{total} endpoints are more than the {MAX_ENDPOINTS} available addresses; lower services or endpoints"
            )
        if changes and not total:
            raise name.error(
                "without services and endpoints there is nothing to change; remove changes"
            )
        return cls(shape, changes)

    def __str__(self) -> str:
        """Return the name of the source and its settings."""
        return f"synthetic {self.shape}"

    def check(self) -> list[str]:
        """Return an empty list: nothing can be missing."""
        return []

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver the whole cluster, then Synced."""
        objects = self._cluster.objects()
        while batch := [Upserted(each) for each in islice(objects, _BATCH)]:
            deliver(batch)
        deliver([Synced()])

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Deliver changes at the configured rate, until cancelled."""
        if not self.changes:
            await asyncio.get_running_loop().create_future()  # cancelled with the task
        loop = asyncio.get_running_loop()
        pace = Pace(self.changes, loop.time())
        while True:
            await asyncio.sleep(pace.pause)
            events = [Upserted(self._cluster.change()) for _ in range(pace.due(loop.time()))]
            if events:
                deliver(events)

    async def read(self, lead: Lead) -> Reading:
        """Make the objects for a question, without pods: a synthetic cluster has none."""
        return Reading(tuple(self._cluster.find(lead)))

    def silence(self, now: float) -> float:
        """Always 0: the source generates the cluster itself."""
        return 0.0
