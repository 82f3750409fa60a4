"""The fake API server as a separate process, for change rates that a kube-apiserver on a small machine cannot reach.

Path: loadtest/ starts it -> FakeApi on loopback; `/_control/` beside the API says what changes.

    python -m loadtest.apiserver [--port P] [--services N] [--endpoints M] [--streaming yes|no|ignored]
                                             [--history H] [--certificate FILE --key FILE]

prints one line, `ready URL`, on standard output once it listens and the cluster is loaded; SIGTERM ends it.  Services
are headless, with one EndpointSlice of M endpoints each, all as objects.py names them; with what an API
server adds, a slice of 5 endpoints is about 2.7 KB of JSON.

    POST /_control/load     {"services": N, "endpoints": M}     more Services; -> {"services", "resource_version"}
    POST /_control/changes  {"rate": R, "seconds": S,           begin a stream of changes: R a second, for S seconds
                             "among": N}                        (0: until stopped), to the first N Services (0: all);
                                                                forgets the changes before it; -> {"before":
                                                                {SERVICE: [ADDRESS, ...]}} of those N Services
    POST /_control/stop     {}                                  end the stream; -> {"count": changes made by it}
    GET  /_control/changes?from=K                               -> {"running", "count", "changes": [[TIME, NAMESPACE,
                                                                SERVICE, OLD, NEW], ...]} from change K on
    POST /_control/change   {"index": I}                        one change, of Service I or the next one in turn;
                                                                -> {"time", "namespace", "service", "old", "new"}
    GET  /_control/state                                        -> {"resource_version", "slices": {"NAMESPACE/SLICE":
                                                                [ADDRESS, ...]}, "requests": [...], "watches": W}
    POST /_control/do       {"what": WORD}                      drop, cut, compact, expire or bookmark (the watches)

Rule 1: a change is one MODIFIED event of one slice with one address replaced, the first of it in turn; the new address
        is used nowhere else, and never was.  The slice says when it was changed, as its controller does.
Rule 2: TIME is CLOCK_MONOTONIC in seconds, so that another process can subtract it, taken when the change is in the
        history and before any watch or reply is written.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import signal
import ssl
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import uvloop
from aiohttp import web

from hsdns.cluster.objects import CHANGE_TIME
from loadtest.apiserver import objects
from loadtest.apiserver.fake_api import FakeApi
from loadtest.apiserver.fake_cluster import FakeCluster
from loadtest.apiserver.watch_cache import Key
from loadtest.pressure.machine import avoid_pauses

_CHANGED_AT: Final = re.compile(rb'(?<="%b":")[^"]*' % re.escape(CHANGE_TIME.encode()))
TICK: Final = 0.001  # minimum of seconds between two batches of a stream


class Changed(NamedTuple):
    """One change; `time` is monotonic seconds."""

    time: float
    namespace: str
    service: str
    old: str
    new: str


class LoadedCluster:
    """The cluster of the benchmark, and its changes."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.changes: list[Changed] = []
        self._slices: list[tuple[Key, str, list[str]]] = []  # key, Service, addresses
        self._changed = 0

    @property
    def service_count(self) -> int:
        """The number of Services."""
        return len(self._slices)

    def add(self, services: int, endpoints: int) -> None:
        """Add Services with their slices, and the Namespaces that they need."""
        first, last = len(self._slices), len(self._slices) + services
        if first == last:
            return
        for made in objects.namespaces(first, last):
            self._put(made.manifest)
        for index in range(first, last):
            self._put(objects.service(index).manifest)
            manifest = objects.endpoint_slice(index, endpoints).manifest
            key = self._put(manifest)
            addresses = [each["addresses"][0] for each in manifest["endpoints"]]
            self._slices.append((key, f"web-{index}", addresses))
        self.cluster.wake()

    def addresses(self, among: int) -> dict[str, list[str]]:
        """The addresses of the first Services."""
        return {service: list(addresses) for _, service, addresses in self._slices[:among]}

    def change(self, index: int | None = None, among: int = 0) -> Changed:
        """Replace an address of one slice: of Service `index`, or in turn; the caller calls wake()."""
        number, self._changed = self._changed, self._changed + 1
        key, service, addresses = self._slices[
            (number if index is None else index) % (among or len(self._slices))
        ]
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
        return Changed(time.monotonic(), key[0], service, old, new)

    def _put(self, manifest: dict[str, Any]) -> Key:
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        metadata: dict[str, Any] = manifest["metadata"]
        metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
        metadata["generation"] = 1
        metadata["managedFields"] = [_managed_fields(manifest)]
        key = metadata.get("namespace", "default"), name

        def encode(version: int) -> bytes:
            metadata["uid"] = f"00000000-0000-4000-8000-{version:012d}"
            metadata["resourceVersion"] = str(version)
            return msgspec.json.encode(manifest)

        self.cluster.put_encoded(kind, key, encode)
        return key


class ChangeStream:
    """Changes at a rate; one at a time."""

    def __init__(self, loaded: LoadedCluster) -> None:
        self._loaded = loaded
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether the stream is running."""
        return self._task is not None and not self._task.done()

    async def start(self, rate: float, seconds: float, among: int = 0) -> None:
        """Start a new stream, and clear the changes."""
        await self.stop()
        self._loaded.changes = []
        self._task = asyncio.create_task(self._run(rate, seconds, among))

    async def stop(self) -> None:
        """End the stream."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _run(self, rate: float, seconds: float, among: int) -> None:
        loaded, began, total = self._loaded, time.monotonic(), round(rate * seconds)
        cache = loaded.cluster.caches["EndpointSlice"]
        made = 0
        while not total or made < total:
            due = int((time.monotonic() - began) * rate) + 1
            due = min(due, total) if total else due
            while made < due:
                loaded.changes.append(loaded.change(among=among))
                made += 1
            loaded.cluster.wake(cache)
            await asyncio.sleep(max(began + made / rate - time.monotonic(), TICK))


class Control:
    """The handler of `/_control/`: a method for each word, with what is asked for."""

    def __init__(self, api: FakeApi, loaded: LoadedCluster) -> None:
        self._api = api
        self._loaded = loaded
        self._stream = ChangeStream(loaded)
        self._words: dict[tuple[str, str], Callable[[Any], Awaitable[Any]]] = {
            ("POST", "load"): self._add,
            ("POST", "changes"): self._start,
            ("GET", "changes"): self._list,
            ("POST", "stop"): self._stop,
            ("POST", "change"): self._change,
            ("GET", "state"): self._state,
            ("POST", "do"): self._do,
        }

    @property
    def routes(self) -> list[web.RouteDef]:
        """The routes, for FakeApi.start."""
        return [web.route("*", "/_control/{word}", self._answer)]

    async def close(self) -> None:
        """End the stream."""
        await self._stream.stop()

    async def _answer(self, request: web.Request) -> web.Response:
        answer = self._words.get((request.method, request.match_info["word"]))
        if answer is None:
            raise web.HTTPNotFound
        found = await answer(await request.json() if request.method == "POST" else request.query)
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    async def _add(self, asked: Any) -> Any:
        self._loaded.add(asked["services"], asked["endpoints"])
        avoid_pauses()
        version = self._api.resource_version
        return {"services": self._loaded.service_count, "resource_version": version}

    async def _start(self, asked: Any) -> Any:
        self._check_loaded()
        among = asked.get("among", 0)
        if not asked["rate"] > 0:
            raise web.HTTPBadRequest(text="rate must be above 0\n")
        if among > self._loaded.service_count:
            raise web.HTTPBadRequest(text="among is more than there are Services\n")
        await self._stream.stop()
        before = self._loaded.addresses(among)
        await self._stream.start(asked["rate"], asked.get("seconds", 0), among)
        return {"before": before}

    def _check_loaded(self) -> None:
        if not self._loaded.service_count:
            raise web.HTTPConflict(text="no Services are loaded\n")

    async def _stop(self, _: Any) -> Any:
        await self._stream.stop()
        return {"count": len(self._loaded.changes)}

    async def _list(self, asked: Any) -> Any:
        changes, first = self._loaded.changes, int(asked.get("from", "0"))
        is_running = self._stream.is_running
        return {"running": is_running, "count": len(changes), "changes": changes[first:]}

    async def _change(self, asked: Any) -> Any:
        self._check_loaded()
        changed = self._loaded.change(asked.get("index"))
        self._loaded.cluster.wake()
        return changed._asdict()

    async def _state(self, _: Any) -> Any:
        cluster = self._loaded.cluster
        stored = cluster.caches["EndpointSlice"].objects.items()
        slices = {
            "/".join(key): [
                text for each in part.manifest["endpoints"] for text in each["addresses"]
            ]
            for key, part in stored
        }
        return {
            "resource_version": cluster.resource_version,
            "slices": slices,
            "requests": cluster.requests,
            "watches": len(cluster.watches),
        }

    async def _do(self, asked: Any) -> Any:
        api, cluster = self._api, self._loaded.cluster
        words = {
            "drop": cluster.drop_watches,
            "cut": api.cut_connections,
            "compact": cluster.compact,
            "expire": cluster.expire_watches,
            "bookmark": cluster.bookmark,
        }
        if asked["what"] not in words:
            raise web.HTTPBadRequest(text=f"what must be one of {', '.join(words)}\n")
        words[asked["what"]]()
        return {}


async def serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT."""
    tls = None
    if options.certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(options.certificate, options.key)
    words: dict[str, bool | str] = {"yes": True, "no": False, "ignored": "ignored"}
    cluster = FakeCluster(
        streaming=words[options.streaming], history=options.history, protobuf=options.protobuf
    )
    api, loaded = FakeApi(cluster, tls=tls, port=options.port), LoadedCluster(cluster)
    control = Control(api, loaded)
    loaded.add(options.services, options.endpoints)
    avoid_pauses()
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    await api.start(*control.routes)
    try:
        sys.stdout.write(f"ready {api.url}\n")
        sys.stdout.flush()
        await over.wait()
    finally:
        await control.close()
        await api.stop()


def main(args: Sequence[str] | None = None) -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m loadtest.apiserver")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--services", type=int, default=0)
    parser.add_argument("--endpoints", type=int, default=10)
    parser.add_argument("--streaming", choices=("yes", "no", "ignored"), default="yes")
    parser.add_argument("--history", type=int, default=20_000)
    parser.add_argument("--protobuf", action="store_true")
    parser.add_argument("--certificate", default="")
    parser.add_argument("--key", default="")
    uvloop.run(serve(parser.parse_args(args)))


def _managed_fields(manifest: dict[str, Any]) -> dict[str, Any]:
    """The managedFields entry that the server adds to an object of a controller."""
    fields: dict[str, Any] = {
        f"f:{name}": {} for name in manifest if name not in ("metadata", "kind", "apiVersion")
    }
    meta = manifest["metadata"]
    fields["f:metadata"] = {
        f"f:{name}": {".": {}, **{f"f:{key}": {} for key in meta[name]}}
        for name in ("labels", "annotations")
        if name in meta
    }
    return {
        "manager": "kube-controller-manager",
        "operation": "Update",
        "apiVersion": manifest["apiVersion"],
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
