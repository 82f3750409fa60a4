"""The fake API server as a process, for change rates that a kube-apiserver on a small machine cannot reach.

Path: loadtest/watch/api_servers.py starts it -> FakeApi on loopback; `/_control/` beside the API says what changes.

    python -m loadtest.apiserver PORT [protobuf]

serves until SIGTERM.  Services are headless, with one EndpointSlice each, all as objects.py names them; with what an
API server adds, a slice of 5 endpoints is about 2.7 KB of JSON.  With `protobuf`, those who accept that get it.

    POST /_control/load     {"services": N, "endpoints": M}     more Services, of M endpoints each
    POST /_control/changes  {"rate": R, "seconds": S,           begin a stream of changes: R a second, for S seconds
                             "among": N}                        (0: to the end), to the first N Services (0: all);
                                                                forgets the changes before it; -> {"before":
                                                                {SERVICE: [ADDRESS, ...]}} of those N Services
    GET  /_control/changes?from=K                               -> {"running", "count", "changes": [[TIME, NAMESPACE,
                                                                SERVICE, OLD, NEW], ...]} from change K; -1: the latest
    POST /_control/change   {"index": I}                        one change, of Service I; -> {"time", "namespace",
                                                                "service", "old", "new"}

Rule 1: a change is a MODIFIED event of one slice with one address replaced, the first of it in turn; the new address
        is used nowhere else, and never was.  The slice says when it was changed, as its controller does.
Rule 2: TIME is CLOCK_MONOTONIC in seconds, so that another process can subtract it, taken when the change is in the
        history and before any watch or reply is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import signal
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop
from aiohttp import web

from hsdns.cluster.objects import CHANGE_TIME
from loadtest.apiserver import objects
from loadtest.apiserver.fake_api import FakeApi
from loadtest.apiserver.fake_cluster import FakeCluster
from loadtest.apiserver.objects import Change
from loadtest.apiserver.watch_cache import Key
from loadtest.pressure.machine import avoid_pauses

_CHANGED_AT: Final = re.compile(rb'(?<="%b":")[^"]*' % re.escape(CHANGE_TIME.encode()))
TICK: Final = 0.001  # minimum of seconds between two batches of a stream
# What the server adds to the metadata of an object of a controller, by its kind.
_STORED: Final = json.loads(Path(__file__).with_name("stored.json").read_text())


class LoadedCluster:
    """The cluster of the benchmark, its changes, and the answers to requests for them."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.changes: list[Change] = []  # of the last stream
        self._slices: list[tuple[Key, str, list[str]]] = []  # key, Service, addresses
        self._changed = 0
        self._stream: asyncio.Task[None] | None = None

    @property
    def routes(self) -> list[web.RouteDef]:
        """The routes of `/_control/`, for FakeApi.start."""
        return [
            web.post("/_control/load", self._load),
            web.post("/_control/changes", self._start),
            web.get("/_control/changes", self._list),
            web.post("/_control/change", self._change_one),
        ]

    def add(self, services: int, endpoints: int) -> None:
        """Add Services with their slices, and the Namespaces that they need."""
        first, last = len(self._slices), len(self._slices) + services
        for made in objects.namespaces(first, last) if services else ():
            self._put(made.manifest)
        for index in range(first, last):
            self._put(objects.service(index).manifest)
            manifest = objects.endpoint_slice(index, endpoints).manifest
            key = self._put(manifest)
            addresses = [each["addresses"][0] for each in manifest["endpoints"]]
            self._slices.append((key, f"web-{index}", addresses))
        self.cluster.wake()

    def change(self, index: int | None = None, among: int = 0) -> Change:
        """Replace an address of one slice: of Service `index`, or in turn; the caller calls wake()."""
        number, self._changed = self._changed, self._changed + 1
        place = (number if index is None else index) % (among or len(self._slices))
        key, service, addresses = self._slices[place]
        old, new = addresses.pop(0), objects.changed_address(number)
        addresses.append(new)
        stored = self.cluster.caches["EndpointSlice"].objects[key]
        data = stored.data.replace(b'"%b"' % old.encode(), b'"%b"' % new.encode(), 1)
        data = _CHANGED_AT.sub(objects.trigger_time(time.time()).encode(), data, 1)
        was = b'"resourceVersion":"%d"' % stored.version
        self.cluster.put_encoded(
            "EndpointSlice",
            key,
            lambda version: data.replace(was, b'"resourceVersion":"%d"' % version, 1),
        )
        return Change(time.monotonic(), key[0], service, old, new)

    async def end_stream(self) -> None:
        """End the stream of changes."""
        task, self._stream = self._stream, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    def _put(self, manifest: dict[str, Any]) -> Key:
        kind, metadata = manifest["kind"], manifest["metadata"]
        metadata |= _STORED[kind]
        key = metadata.get("namespace", "default"), metadata["name"]

        def encode(version: int) -> bytes:
            metadata["uid"] = f"00000000-0000-4000-8000-{version:012d}"
            metadata["resourceVersion"] = str(version)
            return msgspec.json.encode(manifest)

        self.cluster.put_encoded(kind, key, encode)
        return key

    async def _run(self, rate: float, seconds: float, among: int) -> None:
        began, total = time.monotonic(), round(rate * seconds)
        cache = self.cluster.caches["EndpointSlice"]
        made = 0
        while not total or made < total:
            due = int((time.monotonic() - began) * rate) + 1
            due = min(due, total) if total else due
            while made < due:
                self.changes.append(self.change(among=among))
                made += 1
            self.cluster.wake(cache)
            await asyncio.sleep(max(began + made / rate - time.monotonic(), TICK))

    # Requests.

    async def _load(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.add(asked["services"], asked["endpoints"])
        avoid_pauses()
        return _json({})

    async def _start(self, request: web.Request) -> web.Response:
        asked = await request.json()
        among = asked["among"]
        await self.end_stream()
        before = {service: list(addresses) for _, service, addresses in self._slices[:among]}
        self.changes = []
        self._stream = asyncio.create_task(self._run(asked["rate"], asked["seconds"], among))
        return _json({"before": before})

    async def _list(self, request: web.Request) -> web.Response:
        changes, stream = self.changes[int(request.query["from"]) :], self._stream
        running = stream is not None and not stream.done()
        return _json({"running": running, "count": len(self.changes), "changes": changes})

    async def _change_one(self, request: web.Request) -> web.Response:
        changed = self.change((await request.json())["index"])
        self.cluster.wake()
        return _json(changed._asdict())


def _json(found: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(found), content_type="application/json")


async def serve(port: int, *, protobuf: bool) -> None:
    """Serve until SIGTERM or SIGINT."""
    cluster = FakeCluster(history=20_000, protobuf=protobuf)
    api, loaded = FakeApi(cluster, port=port), LoadedCluster(cluster)
    avoid_pauses()
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    await api.start(*loaded.routes)
    try:
        await over.wait()
    finally:
        await loaded.end_stream()
        await api.stop()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), protobuf="protobuf" in sys.argv[2:]))
