"""The API server as a source: which scopes are watched, and when all of them have been read.

Path: plugins/kubernetes.py makes one where the block names no other source -> a watcher for each scope -> deliver.
Rule 1: services, endpointslices, namespaces and, where they are wanted, pods and serviceimports are watched in the
        whole cluster, as in CoreDNS.  Where that is forbidden and `namespaces` is given, each is watched in those
        namespaces instead.
Rule 2: what the handling of an event raises is logged and costs that event; the watch goes on.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from hsdns.apiserver.contact import Contact, ScopeObserver, WatchMetrics
from hsdns.apiserver.reflector import PAGE, STATE_SILENCE, Key, Reflector
from hsdns.apiserver.resource import (
    ENDPOINT_SLICES,
    NAMESPACES,
    PODS,
    SERVICE_IMPORTS,
    SERVICES,
    Scope,
)
from hsdns.apiserver.transport import Transport, Unreachable
from hsdns.apiserver.watch_event import NotAnEvent, decode_page
from hsdns.apiserver.watcher import REFUSAL_LEN, Watcher
from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    Event,
    Namespace,
    Object,
    ObjectMeta,
    Synced,
    Upserted,
)
from hsdns.cluster.source import Deliver, Report, Surroundings

log = logging.getLogger("hsdns.apiserver")


class Wanted(NamedTuple):
    """What the plugin needs to know of the cluster; selectors as text, for the API server to apply."""

    namespaces: tuple[str, ...] = ()
    labels: str = ""
    namespace_labels: str = ""
    endpoints: bool = True
    pods: bool = False
    imports: bool = False

    @property
    def scopes(self) -> list[Scope]:
        """What is watched where nothing is forbidden."""
        scopes = [Scope(SERVICES, labels=self.labels)]
        if self.endpoints:
            scopes.append(Scope(ENDPOINT_SLICES, labels=self.labels))
        elif self.imports:  # `noendpoints` does not hide the endpoints in other clusters
            labels = ",".join(filter(None, (self.labels, IMPORT_NAME_LABEL)))
            scopes.append(Scope(ENDPOINT_SLICES, labels=labels))
        scopes.append(Scope(NAMESPACES, labels=self.namespace_labels))
        if self.imports:  # which selector it is that chooses them is CoreDNS's way
            scopes.append(Scope(SERVICE_IMPORTS, labels=self.namespace_labels))
        if self.pods:
            scopes.append(Scope(PODS, labels=self.labels))
        return scopes


class Connect(Protocol):
    """How a source comes to its API server."""

    @property
    def is_in_cluster(self) -> bool:
        """Whether that is the server of the cluster that this process runs in."""

    def __call__(self, around: Surroundings, report: Report) -> Transport:
        """Make the transport; contacts nothing yet."""

    def check(self) -> list[str]:
        """Sentences about what is missing."""


class ApiServer:
    """A cluster behind an API server.

    `reject` takes kind, key and fault of objects that could not be read; `settle` is called once all has been read.
    """

    def __init__(
        self,
        connect: Connect,
        wanted: Wanted,
        settle: Callable[[], None] | None = None,
    ) -> None:
        self.reject: Callable[[str, Key, str], None] = lambda kind, key, fault: None
        self._connect = connect
        self.wanted = wanted
        self._settle = settle or _freeze
        self._contact: Contact | None = None
        self._transport: Transport | None = None
        self._reflectors: dict[Scope, Reflector] = {}
        self._synced = False

    def __str__(self) -> str:
        """Name the API server, for a snapshot to tell whether it is of the same one."""
        return str(self._connect)

    @property
    def is_in_cluster(self) -> bool:
        """Whether it is the cluster that this process runs in."""
        return self._connect.is_in_cluster

    def check(self) -> list[str]:
        """What is missing to reach the API server, as far as this host can tell."""
        return self._connect.check()

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver nothing: an API server must be waited for."""

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Watch all scopes until cancelled."""
        transport = self._connect(around, report)
        contact = Contact(
            lambda: transport.server,
            report,
            WatchMetrics(around.metrics),
            around.clock,
            around.wall,
        )
        self._transport, self._contact = transport, contact
        self._reflectors.clear()
        try:
            async with asyncio.TaskGroup() as group:

                def take(events: Sequence[Event]) -> None:
                    self._take(events, deliver)

                def start(scope: Scope) -> None:
                    observer = ScopeObserver(scope, contact.metrics, report, self.reject)
                    reflector = Reflector(scope, take, observer, around.random)
                    self._reflectors[scope] = reflector
                    watcher = Watcher(reflector, transport, contact, around.clock, gives_up)
                    group.create_task(watcher.run(), name=f"watch {scope}")

                def gives_up(reflector: Reflector) -> bool:
                    scopes = self._instead(reflector, report, deliver)
                    if scopes is None:
                        return False
                    for scope in scopes:
                        start(scope)
                    del self._reflectors[reflector.scope]
                    self._take((), deliver)
                    return True

                for scope in self.wanted.scopes:
                    start(scope)
        finally:
            await transport.close()

    def silence(self, now: float) -> float:
        """Seconds since the scope that was heard of least; infinite before all were heard of."""
        return self._contact.silence(now) if self._contact is not None else float("inf")

    async def objects(self) -> list[Object]:
        """List everything that is watched, beside the watches; raise Unreachable."""
        if self._transport is None:
            raise Unreachable("the API server is not being watched")
        found: list[Object] = []
        for scope in list(self._reflectors):
            found += await _list(self._transport, scope)
        return found

    def _take(self, events: Sequence[Event], deliver: Deliver) -> None:
        if events:
            try:
                deliver(events)
            except Exception:
                _deliver_singly(events, deliver)
        if not self._synced and all(found.synced for found in self._reflectors.values()):
            self._synced = True
            deliver([Synced()])
            self._settle()

    def _instead(
        self, reflector: Reflector, report: Report, deliver: Deliver
    ) -> list[Scope] | None:
        """What to watch instead of a scope that is forbidden; None where it must be had."""
        scope, namespaces = reflector.scope, self.wanted.namespaces
        if not reflector.forbidden or reflector.synced or not namespaces:
            return None
        if scope.namespace is None:
            names = " ".join(namespaces)
            report(
                logging.INFO,
                f"{scope} of the whole cluster are forbidden to this account; "
                f"watching those of {names} alone",
            )
            return [scope._replace(namespace=name) for name in namespaces]
        if scope.resource is not NAMESPACES:
            return None
        report(
            logging.INFO,
            f"namespace {scope.namespace} may not be watched by this account; it is taken to exist",
        )
        deliver([Upserted(Namespace(ObjectMeta(name=scope.namespace)))])
        return []


def _deliver_singly(events: Sequence[Event], deliver: Deliver) -> None:
    """Find the event that cannot be handled, and leave it out."""
    for event in events:
        try:
            deliver([event])
        except Exception:
            meta = getattr(getattr(event, "object", None), "metadata", None)
            where = f"{meta.namespace}/{meta.name}" if meta is not None else "an event"
            log.exception("%s could not be handled and is left out", where)


async def _list(transport: Transport, scope: Scope) -> list[Object]:
    """List a scope in pages."""
    found: list[Object] = []
    following = ""
    while True:
        query = {**scope.query, "limit": str(PAGE)}
        if following:
            query["continue"] = following
        async with transport.get(scope.path, query) as answer:
            if answer.status != 200:
                text = await answer.text(REFUSAL_LEN)
                raise Unreachable(f"{scope} cannot be listed: {answer.status} {text[:200]}")
            body = b"".join([chunk async for chunk in answer.chunks(lambda: STATE_SILENCE)])
        try:
            page = decode_page(body, scope.resource)
        except NotAnEvent as error:
            raise Unreachable(f"{scope} cannot be listed: {error}") from None
        found += page.objects
        following = page.following
        if not following:
            return found


def _freeze() -> None:
    """Take what was read out of the garbage collector's rounds: 70 ms for 10,000 Services each time."""
    gc.collect()
    gc.freeze()
