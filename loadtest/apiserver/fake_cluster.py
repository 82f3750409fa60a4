"""A Kubernetes API server without sockets: requests, and the octets of the responses.

Path: fake_api.py (sockets) or memory_api.py (none) -> FakeCluster -> WatchCache (each kind), Watch (each watch).
Rule 1: one resourceVersion counter for all kinds, as in a cluster with one etcd; every change gets the next number.
Rule 2: a watch sees the changes of its kind after its resourceVersion, in order, filtered by its own selectors;
        an object that begins to match is ADDED for it and one that ceases to match is DELETED.
Rule 3: faults have names, here or in faults.py.  Nothing waits and there is no clock: a watch returns the lines that
        are due.
Source: Kubernetes API concepts, "Efficient detection of changes", "Retrieving large results sets in chunks" and
        "Streaming lists"; k8s.io/apiserver pkg/storage/cacher.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from hsdns.apiserver.resource import PROTOBUF
from loadtest.apiserver.faults import JSON, Fault, error_line, status_body
from loadtest.apiserver.protobuf import accepts_protobuf, write_body, write_frame
from loadtest.apiserver.watch_cache import (
    HISTORY,
    KINDS,
    Key,
    Manifest,
    Selection,
    Watch,
    WatchCache,
    bookmark_line,
    event_line,
    key_of,
)

USER: Final = "system:serviceaccount:kube-system:coredns"
EVERYWHERE: Final = "*"
VERBS: Final = ("list", "watch")
_TOO_OLD_PAGE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter."
)


class Response(NamedTuple):
    """A response; the body of a watch is a stream.  `fault` applies to the body when it is sent."""

    status: int
    headers: Mapping[str, str]
    body: bytes | Watch
    fault: Fault = Fault()


class FakeCluster:
    """The objects, their history, and the permissions to read them.

    `streaming` False refuses streaming lists (422), "ignored" ignores the request for one, as servers before 1.27 do.
    `expired_as_event` chooses how a watch from an expired version gets its error: as ERROR event or as status 410.
    With `protobuf`, requests that accept protobuf get it, except for custom resources.
    """

    def __init__(
        self, *, streaming: bool | str = True, history: int = HISTORY, protobuf: bool = False
    ) -> None:
        self.protobuf = protobuf
        self.streaming = streaming
        self.expired_as_event = False
        self.requests: list[str] = []  # "PATH?QUERY" of each request, in order
        self.token: str | None = None  # the required bearer token; None: none
        self.held = False
        self.caches = {kind.name: WatchCache(kind, history) for kind in KINDS}
        self._version = 0
        self._watches: dict[Watch, None] = {}
        self.faults: list[tuple[Fault, str, bool | None]] = []
        self._grants: dict[tuple[str, str], set[str]] = {
            (verb, kind.plural): {EVERYWHERE} for verb in VERBS for kind in KINDS
        }

    # Changes by a test.

    def apply(self, manifest: Mapping[str, Any]) -> Manifest:
        """Add the object, or replace the one of its kind, namespace and name."""
        cache = self.caches[manifest["kind"]]
        stamped = cache.put(manifest, self._next_version())
        self.wake(cache)
        return stamped

    def delete(self, manifest: Mapping[str, Any]) -> None:
        """Delete the object of this kind, namespace and name; KeyError if there is none."""
        cache = self.caches[manifest["kind"]]
        cache.remove(key_of(manifest), self._next_version())
        self.wake(cache)

    def put_encoded(self, kind: str, key: Key, encode: Callable[[int], bytes]) -> int:
        """Add or replace an object whose JSON depends on its version, which is returned; the caller calls wake()."""
        version = self._next_version()
        self.caches[kind].put_encoded(key, encode(version), version)
        return version

    def wake(self, cache: WatchCache | None = None) -> None:
        """Let the watches of a kind, or all, check for lines that are due."""
        for watch in list(self._watches):
            if cache is None or watch.cache is cache:
                watch.wake()

    def objects(self, kind: str) -> list[Manifest]:
        """All current objects of a kind, in order."""
        cache = self.caches[kind]
        return [stored.manifest for _, stored in cache.snapshot(self._version)]

    @property
    def watches(self) -> list[Watch]:
        """The open watches."""
        return list(self._watches)

    # Faults and variations.

    def fail(
        self, fault: Fault, *, path: str = "", watch: bool | None = None, times: int = 1
    ) -> None:
        """Inject a fault into the next requests whose path contains a text: watches, lists, or both (None)."""
        self.faults += [(fault, path, watch)] * times

    def drop_watches(self) -> None:
        """End every open watch at once, as a restarting server does."""
        for watch in self.watches:
            watch.close()

    def compact(self) -> None:
        """Forget the history: a watch or page from an older resourceVersion is answered with 410."""
        for cache in self.caches.values():
            cache.compact(self._version)

    def bookmark(self) -> None:
        """Send a bookmark down every watch that allows them, after what is due."""
        for watch in self.watches:
            if watch.bookmarks:
                watch.add(bookmark_line(watch.cache.kind, self._version))

    def repeat(self, count: int = 1) -> None:
        """Send the last changes again down every watch that sees them, after what is due."""
        for watch in self.watches:
            cache = watch.cache
            for position in range(max(cache.begin, cache.end - count), cache.end):
                line = watch.seen(cache.change(position))
                if line is not None:
                    watch.add(line)

    def send_line(self, line: bytes) -> None:
        """Send any octets down every watch, after what is due."""
        for watch in self.watches:
            watch.add(line)

    def end_watches(self) -> None:
        """End every watch after the lines that are due, as at its timeout."""
        for watch in self.watches:
            watch.add(None)

    def hold_sync(self) -> None:
        """Withhold the end of the initial events (and, in fake_api.py, plain lists) until release_sync()."""
        self.held = True

    def release_sync(self) -> None:
        """End the effect of hold_sync()."""
        self.held = False
        self.wake()

    def revoke(self, plural: str, *verbs: str) -> None:
        """Forbid to list and watch a resource, or only one of them; open watches continue, as in a real server."""
        for verb in verbs or VERBS:
            self._grants[verb, plural] = set()

    def grant(self, plural: str, *namespaces: str) -> None:
        """Allow to list and watch a resource, everywhere or in some namespaces only (of Namespaces: by name)."""
        for verb in VERBS:
            self._grants[verb, plural] = set(namespaces) or {EVERYWHERE}

    # Requests.

    def answer(
        self, path: str, query: Mapping[str, str], token: str | None = None, accept: str = ""
    ) -> Response:
        """Answer one GET."""
        response = self._answer(path, query, token)
        is_wanted = self.protobuf and accepts_protobuf(accept) and "serviceimports" not in path
        if not is_wanted or response.headers != JSON:
            return response
        body = response.body
        if isinstance(body, Watch):
            body.encode = write_frame
            return response._replace(headers={"Content-Type": f"{PROTOBUF};stream=watch"})
        if response.fault.status or response.fault.refused:
            return response  # a proxy's error response, or none
        is_watch = response.status == 200 and query.get("watch") in ("true", "1")
        octets = write_frame(body) if is_watch else write_body(body)
        return response._replace(headers={"Content-Type": PROTOBUF}, body=octets)

    def _answer(self, path: str, query: Mapping[str, str], token: str | None) -> Response:
        words = "&".join(f"{name}={text}" for name, text in query.items())
        self.requests.append(f"{path}?{words}" if query else path)
        is_watch = query.get("watch") in ("true", "1")
        fault = self._fault(path, is_watch)
        if fault.status or fault.refused:
            return Response(fault.status, fault.headers, fault.body, fault)
        if self.token is not None and token != self.token:
            return _refusal(401, "Unauthorized", "Unauthorized")
        found = self._resolve(path)
        if found is None:
            return Response(404, {"Content-Type": "text/plain"}, b"404 page not found\n")
        cache, namespace = found
        try:
            selection = Selection(
                namespace, query.get("labelSelector", ""), query.get("fieldSelector", "")
            )
        except ValueError as error:
            return _refusal(400, "BadRequest", str(error))
        refusal = self._forbidden(cache, selection, "watch" if is_watch else "list")
        if refusal is not None:
            return refusal
        answer = self._watch if is_watch else self._list
        return answer(cache, selection, query)._replace(fault=fault)

    def _list(self, cache: WatchCache, selection: Selection, query: Mapping[str, str]) -> Response:
        asked, limit = query.get("resourceVersion", ""), int(query.get("limit") or 0)
        version, after = self._version, None
        if query.get("continue"):
            version, after = _read_token(query["continue"])
            version = version if version >= 0 else self._version
            if version < cache.oldest:
                return self._expired_page(query["continue"])
        elif asked == "0":
            limit = 0  # served from the watch cache, without pages
        elif asked and int(asked) > self._version:
            return _refusal_too_large(int(asked), self._version)
        page: list[bytes] = []
        more, last = 0, None
        plain = selection.is_all
        for key, stored in cache.snapshot(version, after):
            if not selection.matches(key, stored):
                continue
            if limit and len(page) == limit:
                more += 1
                if not plain:
                    break
                continue
            page.append(stored.data)
            last = key
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if more and last is not None:
            metadata["continue"] = _make_token(version, last)
            if plain:
                metadata["remainingItemCount"] = more
        kind = cache.kind
        head = json.dumps(
            {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": metadata}
        )
        return Response(200, JSON, b'%b,"items":[%b]}\n' % (head[:-1].encode(), b",".join(page)))

    def _watch(self, cache: WatchCache, selection: Selection, query: Mapping[str, str]) -> Response:
        wants_initial = query.get("sendInitialEvents")
        match = query.get("resourceVersionMatch", "")
        if self.streaming == "ignored":
            wants_initial, match = None, ""
        if wants_initial is not None and not self.streaming:
            return _refusal_invalid(
                "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for watch unless the WatchList "
                "feature gate is enabled"
            )
        if (wants_initial is None) != (match == ""):
            return _refusal_invalid(
                "resourceVersionMatch: Forbidden: sendInitialEvents requires resourceVersionMatch NotOlderThan"
            )
        asked = query.get("resourceVersion", "")
        since = int(asked or 0)
        streaming = wants_initial == "true"
        bookmarks = query.get("allowWatchBookmarks") in ("true", "1")
        if streaming and since > self._version:
            return _as_event(_refusal_too_large(since, self._version))
        if since and since < cache.oldest and not streaming:
            said = f"too old resource version: {since} ({cache.oldest})"
            refusal = _refusal(410, "Expired", said)
            return _as_event(refusal) if self.expired_as_event else refusal
        initial: Iterator[bytes] = iter(())
        if streaming or (not since and wants_initial is None):
            since = self._version
            initial = _initial(cache, selection, since)
        end = None
        if streaming and bookmarks:
            end = bookmark_line(cache.kind, since, ends_initial=True)
        watch = Watch(
            cache,
            selection,
            since,
            bookmarks=bookmarks,
            initial=initial,
            initial_end=end,
            is_held=lambda: streaming and self.held,
            forget=lambda closed: self._watches.pop(closed, None),
        )
        self._watches[watch] = None
        return Response(200, JSON, watch)

    def _forbidden(self, cache: WatchCache, selection: Selection, verb: str) -> Response | None:
        kind = cache.kind
        granted = self._grants[verb, kind.plural]
        wanted = selection.namespace if kind.namespaced else selection.name
        if EVERYWHERE in granted or (wanted is not None and wanted in granted):
            return None
        resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
        where = (
            f'in the namespace "{selection.namespace}"'
            if selection.namespace
            else "at the cluster scope"
        )
        return _refusal(
            403,
            "Forbidden",
            f'{resource} is forbidden: User "{USER}" cannot {verb} resource "{kind.plural}" in API group '
            f'"{kind.group}" {where}',
            details={"group": kind.group, "kind": kind.plural},
        )

    def _resolve(self, path: str) -> tuple[WatchCache, str | None] | None:
        """Find the watch cache of a path, and the namespace in the path."""
        for cache in self.caches.values():
            kind = cache.kind
            if path == f"{kind.prefix}/{kind.plural}":
                return cache, None
            head, tail = f"{kind.prefix}/namespaces/", f"/{kind.plural}"
            if kind.namespaced and path.startswith(head) and path.endswith(tail):
                return cache, path[len(head) : -len(tail)]
        return None

    def _fault(self, path: str, is_watch: bool) -> Fault:
        for at, (fault, part, watch) in enumerate(self.faults):
            if part in path and watch in (None, is_watch):
                del self.faults[at]
                return fault
        return Fault()

    def _expired_page(self, token: str) -> Response:
        """Refuse a page whose snapshot has expired, with a token to continue without one."""
        _, after = _read_token(token)
        return _refusal(410, "Expired", _TOO_OLD_PAGE, metadata={"continue": _make_token(-1, after)})  # fmt: skip

    def _next_version(self) -> int:
        self._version += 1
        return self._version


def _initial(cache: WatchCache, selection: Selection, version: int) -> Iterator[bytes]:
    found = cache.snapshot(version)
    return (event_line(b"ADDED", each.data) for key, each in found if selection.matches(key, each))


def _make_token(version: int, after: Key | None) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": after})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, Key | None]:
    found = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return found["rv"], tuple(found["start"]) if found["start"] else None


def _refusal(code: int, reason: str, message: str, **more: object) -> Response:
    return Response(code, JSON, status_body(code, reason, message, **more))


def _as_event(refusal: Response) -> Response:
    assert isinstance(refusal.body, bytes)
    return Response(200, JSON, error_line(refusal.body))


def _refusal_invalid(message: str) -> Response:
    return _refusal(422, "Invalid", f'ListOptions.meta.k8s.io "" is invalid: {message}')


def _refusal_too_large(asked: int, current: int) -> Response:
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    details = {"retryAfterSeconds": 1, "causes": [cause]}
    refusal = _refusal(504, "Timeout", message, details=details)
    return refusal._replace(headers={**JSON, "Retry-After": "1"})
