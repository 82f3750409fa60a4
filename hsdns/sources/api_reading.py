"""Reads the objects for a question from the API server: a few bounded lists.

Path: api_server.py, on the connection of the watches -> here -> cluster/reading.py.
Rule 1: only lists are requested, with a selector for one name: the roles of the stock manifests do not allow `get`.
Rule 2: selectors of the kubernetes block are not applied, so that the objects that they exclude are seen.
Rule 3: responses are awaited until DEADLINE only.
Source: Kubernetes API concepts; all lists have the field selector `metadata.name`, pods also `status.podIP`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Final

from hsdns.apiserver.reflector import MAX_PAGE_LEN
from hsdns.apiserver.resource import (
    ENDPOINT_SLICES,
    NAMESPACES,
    PODS,
    SERVICE_IMPORTS,
    SERVICES,
    Resource,
    Scope,
)
from hsdns.apiserver.transport import Transport, Unreachable
from hsdns.apiserver.watch_event import MalformedEvent, decode_page, decode_status
from hsdns.apiserver.watcher import MAX_ERROR_LEN
from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    EndpointSlice,
    Object,
    Service,
)
from hsdns.cluster.reading import MAX_PODS, OTHER_PODS, Fault, Lead, Reading

DEADLINE: Final = 1.0  # seconds for all lists
PAGE: Final = 100  # slices on a page: each has up to 1000 endpoints
MAX_SERVICES: Final = 4  # Services for one question
_LABEL: Final = re.compile(rb"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # RFC 1123, as in the API


async def get_page(transport: Transport, scope: Scope, query: dict[str, str]) -> bytes:
    """The octets of a page; raise Unreachable."""
    plural = scope.resource.plural
    async with transport.get(scope.path, query) as answer:
        if answer.status != 200:
            text = await answer.text(MAX_ERROR_LEN)
            status = decode_status(text, answer.status)
            said = transport.redact(status.message[:200] or status.reason)
            verb = "may not be read" if answer.status in (401, 403) else "could not be read"
            raise Unreachable(f"{plural} {verb}: {said or 'no reason given'} ({answer.status})")
        body = bytearray()
        async for chunk in answer.chunks(lambda: DEADLINE):
            body += chunk
            if len(body) > MAX_PAGE_LEN:
                raise Unreachable(f"{plural} could not be read: a page is too long")
    return bytes(body)


async def read_objects(transport: Transport, lead: Lead, seconds: float = DEADLINE) -> Reading:
    """Read the objects for a question, for at most `seconds`."""
    reader = _Reader(transport)
    spaces = {*lead.namespaces, *(namespace for namespace, _ in lead.services)}
    coros = [reader.namespace(each.decode()) for each in sorted(spaces) if _LABEL.fullmatch(each)]
    for key in lead.services[:MAX_SERVICES]:
        if all(_LABEL.fullmatch(each) for each in key):
            namespace, name = (each.decode() for each in key)
            coros.append(reader.service(namespace, name, lead.shared))
    if lead.address:
        coros.append(reader.address(lead.address))
    tasks = [asyncio.ensure_future(each) for each in coros]
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return Reading(tuple(reader.objects), tuple(dict.fromkeys(reader.faults(seconds))))


class _Reader:
    """Makes list requests, and collects the objects."""

    def __init__(self, transport: Transport) -> None:
        self.objects: list[Object] = []
        self._transport = transport
        self._faults: list[Fault] = []
        self._pending: list[Resource] = []

    def faults(self, seconds: float) -> list[Fault]:
        """What could not be read, including what did not arrive in time."""
        late = [
            Fault(
                f"{each.plural} could not be read: {self._transport.server} did not answer within {seconds:g} s",
                each.kind,
            )
            for each in self._pending
        ]
        return self._faults + late

    async def namespace(self, name: str) -> None:
        """Read a Namespace."""
        await self._list(Scope(NAMESPACES, name))

    async def service(self, namespace: str, name: str, shared: bool) -> None:
        """Read a Service or ServiceImport, its slices, and the pods that it selects."""
        label = IMPORT_NAME_LABEL if shared else SERVICE_NAME_LABEL
        found, parts = await asyncio.gather(
            self._named(SERVICE_IMPORTS if shared else SERVICES, namespace, name),
            self._list(Scope(ENDPOINT_SLICES, namespace, f"{label}={name}"), limit=PAGE),
        )
        for each in found:
            if isinstance(each, Service) and each.spec.selector:
                await self._pods(namespace, each.spec.selector, parts)

    async def address(self, address: str) -> None:
        """Read the pods with an address, and the slices in their namespaces that contain it."""
        pods = await self._list(Scope(PODS), fields=f"status.podIP={address}", limit=PAGE)
        for namespace in sorted({each.metadata.namespace for each in pods})[:MAX_SERVICES]:
            parts = await self._list(Scope(ENDPOINT_SLICES, namespace), limit=PAGE, keep=False)
            self.objects += [
                each
                for each in parts
                if isinstance(each, EndpointSlice)
                and any(address in (one.addresses or ()) for one in each.endpoints or ())
            ]

    async def _pods(
        self, namespace: str, selector: dict[str, str], parts: Sequence[Object]
    ) -> None:
        words = ",".join(f"{key}={value}" for key, value in selector.items())
        found = await self._list(Scope(PODS, namespace, words), limit=MAX_PODS)
        has_endpoints = any(isinstance(each, EndpointSlice) and each.endpoints for each in parts)
        if not found and not has_endpoints:
            await self._list(Scope(PODS, namespace), limit=OTHER_PODS)

    async def _named(self, resource: Resource, namespace: str, name: str) -> list[Object]:
        return await self._list(Scope(resource, namespace), fields=f"metadata.name={name}")

    async def _list(
        self, scope: Scope, *, fields: str = "", limit: int = 1, keep: bool = True
    ) -> list[Object]:
        """List one page of a scope; a failure is a fault, and so are further pages, unless only one page is wanted."""
        resource = scope.resource
        query = {**scope.query, "limit": str(limit)}
        if fields:
            query["fieldSelector"] = ",".join(filter(None, (query.get("fieldSelector"), fields)))
        self._pending.append(resource)
        try:
            found, is_cut = await self._get(scope, query)
        except Unreachable as fault:
            self._faults.append(Fault(str(fault), resource.kind))
            found, is_cut = [], False
        self._pending.remove(resource)
        if is_cut and limit in (PAGE, MAX_PODS):
            sentence = f"only the first {len(found)} of the {scope} were read"
            self._faults.append(Fault(sentence, resource.kind))
        if keep:
            self.objects += found
        return found

    async def _get(self, scope: Scope, query: dict[str, str]) -> tuple[list[Object], bool]:
        """The objects of a page, and whether there are more; raise Unreachable."""
        transport, plural = self._transport, scope.resource.plural
        body = await get_page(transport, scope, query)
        try:
            page = decode_page(body, scope.resource)
        except MalformedEvent as error:
            sentence = transport.redact(str(error))
            raise Unreachable(f"{plural} could not be read: {sentence}") from None
        return page.objects, bool(page.following)
