"""The API server of contract tests: the fake one or a real one, behind one interface.

Path: tests/apiserver/test_contract.py -> ApiUnderTest -> FakeApi or RealApi.
Rule 1: objects that a test makes are deleted at its end, so that one real API server is enough for many tests.
Rule 2: a real one is called in threads: the event loop of the client under test goes on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from hsdns.apiserver.resource import ENDPOINT_SLICES, NAMESPACES, PODS, SERVICES
from hsdns.cluster.objects import Object
from loadtest.apiserver.fake_api import FakeApi
from loadtest.apiserver.fake_cluster import FakeCluster
from loadtest.apiserver.watch_cache import Manifest
from tests.support.apiserver.real_api import RealApi

RESOURCES: Final = (SERVICES, ENDPOINT_SLICES, NAMESPACES, PODS)
EVERYTHING: Final = tuple(resource.plural for resource in RESOURCES)


class FakeUnderTest:
    """The fake API server; a context manager."""

    authority = b""  # the PEM of its TLS; this one has none

    def __init__(self, *, protobuf: bool = False) -> None:
        self.cluster = FakeCluster(protobuf=protobuf)
        self.cluster.expired_as_event = True  # as kube-apiserver
        self.cluster.token = "first"
        self._api = FakeApi(self.cluster)
        self.port = 0

    async def __aenter__(self) -> FakeUnderTest:
        await self._api.start()
        self.port = int(self._api.url.rpartition(":")[2])
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._api.stop()

    @property
    def token(self) -> str:
        """The account's current token."""
        return self.cluster.token or ""

    async def apply(self, *manifests: Manifest) -> None:
        """Add or replace objects."""
        for manifest in manifests:
            self.cluster.apply(manifest)

    async def delete(self, *manifests: Manifest) -> None:
        """Delete objects."""
        for manifest in manifests:
            self.cluster.delete(manifest)

    async def items(self, kind: str) -> list[Any]:
        """All objects of a kind, as JSON."""
        return self.cluster.objects(kind)

    async def restart(self) -> None:
        """Kill the server and restart it on its port."""
        await self._api.stop()
        await self._api.start()

    async def forget_history(self) -> None:
        """Compact the history."""
        self.cluster.compact()

    async def refuse_streams(self) -> None:
        """Disable streaming lists."""
        self.cluster.streaming = False

    async def rotate_token(self) -> None:
        """Give the account a new token."""
        self.cluster.token = "second"
        self._api.cut_connections()

    async def grant(self, plurals: Sequence[str], namespaces: Sequence[str] = ()) -> None:
        """Allow the account to read only these resources."""
        for resource in RESOURCES:
            self.cluster.revoke(resource.plural)
            if resource.plural in plurals:
                self.cluster.grant(resource.plural, *namespaces)


class RealUnderTest:
    """A real API server for one test; a context manager."""

    def __init__(self, api: RealApi) -> None:
        self._api = api
        self._made: dict[tuple[str, str, str], Manifest] = {}
        self._spoiled = False
        self.port = api.port
        self.authority = api.authority

    async def __aenter__(self) -> RealUnderTest:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.delete(*list(self._made.values())[::-1])
        if self._spoiled:
            self._spoiled = False
            await self.grant(EVERYTHING)
            if not self._api.streams:
                await asyncio.to_thread(self._api.refuse_streams, False)

    @property
    def token(self) -> str:
        """The account's current token."""
        return self._api.token

    async def apply(self, *manifests: Manifest) -> None:
        """Add or replace objects."""
        for manifest in manifests:
            await asyncio.to_thread(self._api.apply, manifest)
            self._made[_key(manifest)] = manifest

    async def delete(self, *manifests: Manifest) -> None:
        """Delete objects."""
        for manifest in manifests:
            await asyncio.to_thread(self._api.delete, manifest)
            del self._made[_key(manifest)]

    async def items(self, kind: str) -> list[Any]:
        """All objects of a kind, as JSON."""
        return await asyncio.to_thread(self._api.items, kind)

    async def restart(self) -> None:
        """Kill the server and restart it on its port."""
        await asyncio.to_thread(self._api.restart)

    async def restart_etcd(self) -> None:
        """Kill etcd and restart it."""
        await asyncio.to_thread(self._api.restart_etcd)

    async def forget_history(self) -> None:
        """Compact the history."""
        await asyncio.to_thread(self._api.compact)

    async def refuse_streams(self) -> None:
        """Disable streaming lists."""
        self._spoiled = True
        await asyncio.to_thread(self._api.refuse_streams, True)

    async def rotate_token(self) -> None:
        """Give the account a new token."""
        await asyncio.to_thread(self._api.rotate_token)

    async def grant(self, plurals: Sequence[str], namespaces: Sequence[str] = ()) -> None:
        """Allow the account to read only these resources."""
        self._spoiled = True
        await asyncio.to_thread(self._api.grant, plurals, namespaces)


ApiUnderTest = FakeUnderTest | RealUnderTest


async def objects_of(api: ApiUnderTest) -> list[Object]:
    """Read all objects that matter for DNS; malformed ones are left out."""
    found: list[Object] = []
    for resource in RESOURCES:
        for item in await api.items(resource.kind):
            try:
                found.append(msgspec.convert(item, resource.type))
            except msgspec.ValidationError:
                continue
    return found


def _key(manifest: Manifest) -> tuple[str, str, str]:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]
