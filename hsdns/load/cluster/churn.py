"""Changes a simulated cluster at a rate, in the API that the servers under test watch and in verify/truth.py's store.

Path: cli/load.py (-churn, -api) -> here, with the changes of changes.py -> the truth's own store, then api.py.
Rule 1: the seed determines the changes; a change is written when it is due, late ones at once.
Rule 2: verify/truth.py has a change before any server can see it: there is one clock, and no answer is early.
Rule 3: a change counts as written when the API has it, which is after verify/truth.py has it.

A namespace that a load test creates in a real cluster, changes and deletes:
Rule 1: the namespace is new and has a unique name.  Nothing outside it is written, and it is deleted at the end, also
        after Ctrl-C and after an error.
Rule 2: Services have no selector, and this module writes the EndpointSlices, so no controller and no pod is involved.
Rule 3: changes of one slice are written one by one; up to WRITERS slices are written at the same time.
Rule 4: a change counts as written when its request was sent: no server can have it earlier.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address
from math import inf
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import structs

from hsdns.cluster.objects import (
    SERVICE_NAME_LABEL,
    Endpoint,
    EndpointPort,
    EndpointSlice,
    ObjectMeta,
    Upserted,
)
from hsdns.cluster.source import Deliver
from hsdns.load.cluster.api import ClusterApi
from hsdns.load.cluster.changes import READY_CONDITIONS, Changes
from hsdns.load.cluster.history import ApiHistory
from hsdns.load.cluster.job import ApiWriter, message_of
from hsdns.load.errors import LoadError
from hsdns.sources.synthetic import Shape, SyntheticCluster

TICK: Final = 0.002  # minimum seconds between two batches of changes
LONGEST: Final = 1.0  # maximum
Written = Callable[[str, float], None]


# Changes per second: always so many, or so many for some seconds, one after the other, of which the last has no end.
Rates = Sequence[tuple[float, float]]


async def due_changes(rates: Rates, clock: Callable[[], float]) -> AsyncIterator[int]:
    """The number of changes that are due, again and again; `rates` has seconds of `clock`, and changes a second."""
    end = clock()
    for at, (seconds, rate) in enumerate(rates, 1):
        begin, made = end, 0
        end = inf if at == len(rates) else begin + seconds
        while (now := clock()) < end:
            due = begin + (made + 1) / rate if rate else end
            await asyncio.sleep(min(max(TICK, due - now), end - now, LONGEST))
            count = max(0, int((min(clock(), end) - begin) * rate) - made)
            made += count
            yield count


@dataclass(eq=False)
class Churn:
    """A cluster of a shape; `deliver` takes events for verify/truth.py, which already has the same cluster.

    `written` takes the resourceVersion of each change, and when it was written.
    """

    shape: Shape
    kinds: Mapping[str, int]
    seed: int
    deliver: Deliver
    clock: Callable[[], float]
    written: Written = lambda version, time: None

    def __post_init__(self) -> None:
        self.history = ApiHistory()
        self._cluster = SyntheticCluster(self.shape)
        self._slices: list[EndpointSlice] = []
        for found in self._cluster.objects():
            self.history.put(found)
            if isinstance(found, EndpointSlice) and found.address_type == "IPv4":
                self._slices.append(found)

    def apply(self, found: EndpointSlice) -> str:
        """Make one change and return its resourceVersion."""
        # The store ignores an object with the version that it already has.
        version = str(self.history.version + 1)
        metadata = structs.replace(found.metadata, resource_version=version)
        changed = structs.replace(found, metadata=metadata)
        self.deliver([Upserted(changed)])
        self.history.put(changed)
        return version

    @cached_property
    def changes(self) -> Changes:
        """The changes to make; raise LoadError if there is nothing to change."""
        return Changes(self._slices, self.kinds, self.seed, self._cluster.unused_addresses())

    async def run(self, api: ClusterApi, rates: Rates) -> None:
        """Make changes until cancelled."""
        changes = self.changes  # this takes a while, so before the first change is due
        async for count in due_changes(rates, self.clock):
            changed = [self.apply(changes.next()) for _ in range(count)]
            now = self.clock()
            for version in changed:
                self.written(version, now)
            if changed:
                api.changed()


WRITERS: Final = 16
PORT: Final = 8080
NAMESPACE: Final = "hsdns-load"  # the prefix of the namespace's name
OWNER: Final = "app.kubernetes.io/managed-by"
# Addresses for documentation and benchmarks (RFC 5737, RFC 2544): nothing in the cluster has one.
_FIRST: Final = int(IPv4Address("198.18.0.0"))
_SPARES: Final = 65_536
_SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"
_SERVICES: Final = "/api/v1/namespaces/{}/services"
_NAMESPACES: Final = "/api/v1/namespaces"


class Size(NamedTuple):
    """The number of Services, of which every second is headless, and the number of endpoints of each."""

    services: int = 20
    endpoints: int = 5


@dataclass
class OwnNamespace:
    """A namespace with Services; `name` is unique, `written` as in churn.Churn."""

    writer: ApiWriter
    name: str
    size: Size
    kinds: Mapping[str, int]
    seed: int
    clock: Callable[[], float]
    written: Written = lambda version, time: None
    _exists: bool = False

    def __post_init__(self) -> None:
        total = self.size.services * self.size.endpoints
        self._addresses = [str(IPv4Address(_FIRST + each)) for each in range(total + _SPARES)]

    async def make(self) -> None:
        """Create the namespace, its Services and their slices; raise LoadError."""
        try:
            await self._post(_NAMESPACES, _manifest("v1", "Namespace", self.name))
            self._exists = True
            for number in range(self.size.services):
                await self._post(_SERVICES.format(self.name), self._service(number))
            for each in self._slices():
                await self._post(_SLICES.format(self.name), _body(each))
        except BaseException:
            await self.remove()
            raise

    async def remove(self) -> None:
        """Delete the namespace; raise LoadError if it remains."""
        if not self._exists:
            return
        for path in (_SLICES, _SERVICES):
            await self.writer.send("DELETE", path.format(self.name))
        status, text = await self.writer.send("DELETE", f"{_NAMESPACES}/{self.name}")
        if status not in (200, 202, 404):
            raise LoadError(
                f"--churn-api: the namespace {self.name} cannot be removed ({status} {text}); "
                f"remove it with kubectl delete namespace {self.name}"
            )
        self._exists = False

    async def run(self, rates: Rates) -> None:
        """Make changes until cancelled; raise LoadError if one is refused."""
        spare = self._addresses[self.size.services * self.size.endpoints :]
        changes = Changes(self._slices(), self.kinds, self.seed, spare)
        locks: dict[str, asyncio.Lock] = {}
        free = asyncio.Semaphore(WRITERS)
        async with asyncio.TaskGroup() as group:
            async for count in due_changes(rates, self.clock):
                for _ in range(count):
                    changed = changes.next()
                    lock = locks.setdefault(changed.metadata.name, asyncio.Lock())
                    await free.acquire()
                    group.create_task(self._write(changed, lock, free))

    async def _write(
        self, changed: EndpointSlice, lock: asyncio.Lock, free: asyncio.Semaphore
    ) -> None:
        path = f"{_SLICES.format(self.name)}/{changed.metadata.name}"
        try:
            async with lock:  # in the order in which they were made
                began = self.clock()
                status, text = await self.writer.send("PUT", path, _body(changed))
            if status != 200:
                raise LoadError(
                    f"--churn-api: {path} cannot be written: {status} {message_of(text)}"
                )
            self.written(msgspec.json.decode(text)["metadata"]["resourceVersion"], began)
        finally:
            free.release()

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        status, text = await self.writer.send("POST", path, body)
        if status != 201:
            told = message_of(text)
            raise LoadError(
                f"--churn-api: {body['kind']} {body['metadata']['name']} cannot be made: {status} {told}; this account "
                "needs the rights to create and delete namespaces, and to write services and endpointslices in them"
            )

    def _service(self, number: int) -> dict[str, Any]:
        found = _manifest("v1", "Service", f"svc-{number}")
        found["spec"] = {"ports": [{"name": "http", "port": 80, "targetPort": PORT}]}
        if number % 2:
            found["spec"]["clusterIP"] = "None"
        return found

    def _slices(self) -> Iterator[EndpointSlice]:
        addresses = iter(self._addresses)
        for number in range(self.size.services):
            meta = ObjectMeta(
                name=f"svc-{number}-load",
                namespace=self.name,
                labels={SERVICE_NAME_LABEL: f"svc-{number}", **_LABELS},
            )
            endpoints = [
                Endpoint(
                    [next(addresses)],
                    READY_CONDITIONS,
                    f"svc-{number}-{each}" if number % 2 else None,
                )
                for each in range(self.size.endpoints)
            ]
            ports = [EndpointPort("http", "TCP", PORT)]
            yield EndpointSlice(meta, "IPv4", endpoints, ports)


_LABELS: Final = {"endpointslice.kubernetes.io/managed-by": "hsdns-load", OWNER: "hsdns-load"}


def _manifest(api_version: str, kind: str, name: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": {OWNER: "hsdns-load"}}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _body(found: EndpointSlice) -> dict[str, Any]:
    """The slice as the API accepts it: without unset fields."""
    body = _without_none(msgspec.to_builtins(found))
    kept = ("name", "namespace", "labels")
    body["metadata"] = {name: body["metadata"][name] for name in kept}
    return {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **body}


def _without_none(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _without_none(value) for name, value in found.items() if value is not None}
    return [_without_none(each) for each in found] if isinstance(found, list) else found
