"""A Kubernetes API server in the test process: lists, watches and streaming lists of what the tests put into it.

Path: client-go or our own client -> FakeApi (aiohttp on loopback) -> Collection, one a kind.
Rule 1: one resourceVersion counter for all kinds, as in a cluster with one etcd; every change gets the next number.
Rule 2: a watch sees the changes of its kind after its resourceVersion, in order, filtered by its own selectors;
        an object that begins to match is ADDED for it and one that ceases to match is DELETED.
Rule 3: what a test wants to go wrong it says by name: drop_watches(), compact(), hold_sync(), `streaming = False`.
Source: Kubernetes API concepts, "Efficient detection of changes" and "Streaming lists".
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from tests.support.collection import KINDS, Change, Collection, Manifest
from tests.support.selectors import Selector, parse_fields, parse_labels

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


class FakeApi:
    """The server; use it as `async with FakeApi() as api:` and hand `api.url` to the client."""

    def __init__(self, *, streaming: bool = True) -> None:
        self.streaming = streaming
        self.requests: list[str] = []  # path and query of each request, in order
        self.url = ""
        self._version = 0
        self._collections = {kind.name: Collection(kind) for kind in KINDS}
        self._sync_allowed = asyncio.Event()
        self._sync_allowed.set()
        self._drop = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> FakeApi:
        app = web.Application()
        for collection in self._collections.values():
            kind = collection.kind
            handler = self._handler(collection)
            app.router.add_get(f"{kind.prefix}/{kind.plural}", handler)
            if kind.namespaced:
                app.router.add_get(f"{kind.prefix}/namespaces/{{namespace}}/{kind.plural}", handler)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *error: object) -> None:
        self.drop_watches()
        if self._runner is not None:
            await self._runner.cleanup()

    # What a test does to the cluster.

    def apply(self, manifest: Mapping[str, Any]) -> Manifest:
        """Add the object, or replace the one of its kind, namespace and name."""
        return self._collection(manifest).put(manifest, self._next_version())

    def delete(self, manifest: Mapping[str, Any]) -> None:
        """Delete the object of this kind, namespace and name; KeyError if there is none."""
        self._collection(manifest).remove(manifest, self._next_version())

    def drop_watches(self) -> None:
        """Cut every watch that is open, as a restarted server would."""
        self._drop.set()
        for collection in self._collections.values():
            collection.wake()
        self._drop = asyncio.Event()

    def compact(self) -> None:
        """Forget the history: a watch from an older resourceVersion is answered with 410."""
        for collection in self._collections.values():
            collection.compact(self._version)

    def hold_sync(self) -> None:
        """Withhold the end of the initial events (and plain lists) until release_sync()."""
        self._sync_allowed.clear()

    def release_sync(self) -> None:
        """End what hold_sync() began."""
        self._sync_allowed.set()

    @property
    def resource_version(self) -> str:
        """The newest version handed out."""
        return str(self._version)

    # What a client sees.

    def _handler(
        self, collection: Collection
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def answer(request: web.Request) -> web.StreamResponse:
            self.requests.append(request.path_qs)
            selects = self._selector(request)
            if request.query.get("watch") in ("true", "1"):
                return await self._watch(request, collection, selects)
            await self._sync_allowed.wait()
            return self._list(request, collection, selects)

        return answer

    def _selector(self, request: web.Request) -> Selector:
        labels = parse_labels(request.query.get("labelSelector", ""))
        fields = parse_fields(request.query.get("fieldSelector", ""))
        namespace = request.match_info.get("namespace")
        return lambda manifest: (
            labels(manifest)
            and fields(manifest)
            and namespace in (None, manifest["metadata"].get("namespace"))
        )

    def _list(
        self, request: web.Request, collection: Collection, selects: Selector
    ) -> web.Response:
        items = [item for _, item in sorted(collection.objects.items()) if selects(item)]
        begin = int(request.query.get("continue") or 0)
        limit = int(request.query.get("limit") or 0) or len(items)
        metadata: Manifest = {"resourceVersion": self.resource_version}
        if begin + limit < len(items):
            metadata["continue"] = str(begin + limit)
        kind = collection.kind
        return web.json_response(
            {
                "kind": f"{kind.name}List",
                "apiVersion": kind.api_version,
                "metadata": metadata,
                "items": items[begin : begin + limit],
            }
        )

    async def _watch(
        self, request: web.Request, collection: Collection, selects: Selector
    ) -> web.StreamResponse:
        streaming = request.query.get("sendInitialEvents") == "true"
        if streaming and not self.streaming:
            return _failure(422, "Invalid", "sendInitialEvents is forbidden for watch")
        asked = request.query.get("resourceVersion", "")
        since = int(asked or 0)
        if since and since < collection.oldest:
            return _failure(410, "Expired", f"too old resource version: {since}")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        try:
            if streaming or not since:
                since = self._version
                for event in _initial(collection, selects):
                    await _write(response, event)
            if streaming:
                await self._sync_allowed.wait()
                await _write(response, _initial_events_end(collection, since))
            async for event in self._events(collection, selects, since):
                await _write(response, event)
            await response.write_eof()
        except ConnectionResetError:
            pass  # the client has left
        return response

    async def _events(
        self, collection: Collection, selects: Selector, since: int
    ) -> AsyncIterator[Manifest]:
        """Yield the changes after a version until the watch is dropped."""
        drop = self._drop
        while not drop.is_set():
            changed = collection.changed
            for change in list(collection.history):
                if change.version > since:
                    since = change.version
                    event = _seen(change, selects)
                    if event is not None:
                        yield event
            await changed.wait()

    def _collection(self, manifest: Mapping[str, Any]) -> Collection:
        return self._collections[manifest["kind"]]

    def _next_version(self) -> int:
        self._version += 1
        return self._version


async def _write(response: web.StreamResponse, event: Manifest) -> None:
    await response.write(json.dumps(event).encode() + b"\n")


def _initial(collection: Collection, selects: Selector) -> list[Manifest]:
    return [
        {"type": "ADDED", "object": item}
        for _, item in sorted(collection.objects.items())
        if selects(item)
    ]


def _initial_events_end(collection: Collection, version: int) -> Manifest:
    metadata = {"resourceVersion": str(version), "annotations": {INITIAL_EVENTS_END: "true"}}
    kind = collection.kind
    return {
        "type": "BOOKMARK",
        "object": {"kind": kind.name, "apiVersion": kind.api_version, "metadata": metadata},
    }


def _seen(change: Change, selects: Selector) -> Manifest | None:
    """Make of a change the event that a watch with this selector gets, None if it gets none."""
    before = change.before is not None and selects(change.before)
    if change.after is not None and selects(change.after):
        return {"type": "MODIFIED" if before else "ADDED", "object": change.after}
    if not before or change.before is None:
        return None
    last = copy.deepcopy(change.before)
    last["metadata"]["resourceVersion"] = str(change.version)
    return {"type": "DELETED", "object": last}


def _failure(code: int, reason: str, message: str) -> web.Response:
    return web.json_response(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": reason,
            "message": message,
            "code": code,
        },
        status=code,
    )
