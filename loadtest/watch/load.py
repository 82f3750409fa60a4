"""Creates a cluster in an API server: many objects over many persistent connections.

Path: plan.py -> here -> the API server.
Rule 1: Namespaces are created first, then Services and slices, in any order.
Rule 2: existing objects are left unchanged, so that a cluster can grow from size to size.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator

import aiohttp

from loadtest.apiserver.objects import Created, endpoint_slice, namespaces, service
from loadtest.bench import Progress
from loadtest.process import BenchmarkError
from loadtest.watch.access import TIMEOUT, Access

CONNECTIONS = 64
_CONFLICT = 409  # it exists
_HEADERS = {
    "Content-Type": "application/json",
    # The response need not hold the whole object.
    "Accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1, application/json",
}


def create_up_to(access: Access, first: int, last: int, endpoints: int, progress: Progress) -> None:
    """Create Services first to last-1 with their slices; raise BenchmarkError."""
    if first >= last:
        return
    progress.log(f"creating Services {first:,} to {last:,} with {endpoints} endpoints each")
    try:
        asyncio.run(_Loader(access, progress).run(first, last, endpoints))
    except* BenchmarkError as errors:
        raise BenchmarkError(str(errors.exceptions[0])) from None
    progress.log(f"{last:,} Services and EndpointSlices exist")


def _pairs(first: int, last: int, endpoints: int) -> Iterator[Created]:
    for index in range(first, last):
        yield service(index)
        yield endpoint_slice(index, endpoints)


class _Loader:
    """Sends objects; as many at a time as there are connections."""

    def __init__(self, access: Access, progress: Progress) -> None:
        self._access = access
        self._progress = progress
        self._done = 0

    async def run(self, first: int, last: int, endpoints: int) -> None:
        files = self._access.certificates
        connector = aiohttp.TCPConnector(
            limit=CONNECTIONS, ssl=True if files is None else files.context()
        )
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        async with aiohttp.ClientSession(
            self._access.url, connector=connector, timeout=timeout, headers=_HEADERS
        ) as session:
            await self._all(session, namespaces(first, last), 0)
            self._done = 0
            await self._all(session, _pairs(first, last, endpoints), 2 * (last - first))

    async def _all(
        self, session: aiohttp.ClientSession, objects: Iterable[Created], total: int
    ) -> None:
        shared = iter(objects)  # every sender takes the next one from it
        async with asyncio.TaskGroup() as senders:
            for _ in range(CONNECTIONS):
                senders.create_task(self._send(session, shared, total))

    async def _send(
        self, session: aiohttp.ClientSession, objects: Iterator[Created], total: int
    ) -> None:
        for path, manifest in objects:
            try:
                async with session.post(path, data=json.dumps(manifest)) as response:
                    text = await response.text()
            except aiohttp.ClientError as error:
                raise BenchmarkError(f"cannot create an object at {path}: {error}") from None
            if response.status // 100 != 2 and response.status != _CONFLICT:
                raise BenchmarkError(
                    f"cannot create an object at {path}: {response.status}: {text[:200]}"
                )
            self._done += 1
            if total:
                self._progress.count("objects created", self._done, total)
