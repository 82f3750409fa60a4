"""The API server as a source: the scopes to watch, and when all of them are synced.

Path: plugins/kubernetes.py makes it if the block names no other source -> a watcher for each scope -> deliver.
Rule 1: services, endpointslices, namespaces and, if enabled, pods and serviceimports are watched cluster-wide, as in
        CoreDNS.  If that is forbidden and `namespaces` is given, each is watched in those namespaces instead.
Rule 2: an exception while an event is handled is logged and drops that event only; the watch continues.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from hsdns import collector
from hsdns.apiserver.contact import Contact, ScopeObserver, WatchMetrics
from hsdns.apiserver.obstacle import Obstacles
from hsdns.apiserver.reflector import MAX_PAGE_LEN, PAGE, STATE_READ_TIMEOUT, Key, Reflector
from hsdns.apiserver.resource import NAMESPACES, Scope
from hsdns.apiserver.returning import Returning
from hsdns.apiserver.transport import Transport, Unreachable
from hsdns.apiserver.watch_event import MalformedEvent, decode_page
from hsdns.apiserver.watcher import MAX_ERROR_LEN, Watcher
from hsdns.cluster.objects import (
    Event,
    Namespace,
    Object,
    ObjectMeta,
    Synced,
    Upserted,
)
from hsdns.cluster.pod_reading import PodReading, PodUnreadable
from hsdns.cluster.reading import Fault, Lead, Reading
from hsdns.cluster.source import Deliver, Report, Surroundings
from hsdns.sources.api_pod import read_pod
from hsdns.sources.api_reading import read_objects
from hsdns.sources.watch_options import WatchOptions

log = logging.getLogger("hsdns.apiserver")


class Connect(Protocol):
    """Makes the transport of a source."""

    @property
    def is_in_cluster(self) -> bool:
        """Whether it is the API server of the cluster that this process runs in."""

    def __call__(self, around: Surroundings, report: Report) -> Transport:
        """Make the transport; does not contact the server yet."""

    def check(self) -> list[str]:
        """Return a sentence for each missing part."""


class ApiServer:
    """The objects of a cluster, watched at its API server.

    `reject` gets kind, key and error of each object that cannot be decoded, `on_lost` the time since when the server
    cannot be watched, "" once it can be watched again; `settle` is called when all scopes are synced.  `obstacles` make
    its requests fail, for rules of `fault`.
    """

    def __init__(
        self,
        connect: Connect,
        options: WatchOptions,
        settle: Callable[[], None] | None = None,
    ) -> None:
        self.reject: Callable[[str, Key, str], None] = lambda kind, key, fault: None
        self.on_lost: Callable[[str], None] = lambda since: None
        self.obstacles = Obstacles()
        self.connect = connect
        self.options = options
        self._settle = settle or collector.keep
        self._contact: Contact | None = None
        self._transport: Transport | None = None
        self._reflectors: dict[Scope, Reflector] = {}
        self._synced = False

    def __str__(self) -> str:
        """The API server; a snapshot is used only if it has the same one."""
        return str(self.connect)

    def joined(self, other: ApiServer) -> ApiServer | None:
        """One source in place of this one and another; None if their API servers or credentials differ."""
        if self.connect != other.connect:
            return None
        return ApiServer(self.connect, self.options.union(other.options), self._settle)

    @property
    def is_in_cluster(self) -> bool:
        """Whether it is the API server of the cluster that this process runs in."""
        return self.connect.is_in_cluster

    def check(self) -> list[str]:
        """Return a sentence for each missing part, as far as this host can tell."""
        return self.connect.check()

    def load(self, deliver: Deliver, report: Report) -> None:
        """Deliver nothing: objects arrive only in watch()."""

    async def watch(self, deliver: Deliver, report: Report, around: Surroundings) -> None:
        """Watch all scopes until cancelled."""
        # In a thread: it reads files, and may import the HTTP client.
        transport = await asyncio.to_thread(self.connect, around, report)

        def report_redacted(level: int, message: str) -> None:
            report(level, transport.redact(message))  # a watch may echo a credential too

        def reject(kind: str, key: Key, fault: str) -> None:
            self.reject(kind, key, transport.redact(fault))

        contact = Contact(
            lambda: transport.server,
            report_redacted,
            WatchMetrics(around.metrics),
            around.clock,
            around.wall,
        )
        contact.on_lost = self.on_lost
        contact.returning = Returning(transport.reach, around.random)
        self._transport, self._contact = transport, contact
        self._reflectors.clear()
        transport.obstacles = self.obstacles
        self.obstacles.open(transport.cut)
        try:
            async with asyncio.TaskGroup() as group:
                take = partial(self._deliver, deliver=deliver)

                def start(scope: Scope) -> None:
                    observer = ScopeObserver(scope, contact.metrics, report, reject)
                    reflector = Reflector(scope, take, observer, around.random)
                    self._reflectors[scope] = reflector
                    watcher = Watcher(reflector, transport, contact, around.clock, replace)
                    group.create_task(watcher.run(), name=f"watch {scope}")

                def replace(reflector: Reflector) -> bool:
                    scopes = self._replacements(reflector, report, deliver)
                    if scopes is None:
                        return False
                    for scope in scopes:
                        start(scope)
                    del self._reflectors[reflector.scope]
                    self._deliver((), deliver)
                    return True

                for scope in self.options.scopes:
                    start(scope)
        finally:
            self.obstacles.close()
            await transport.close()

    def silence(self, now: float) -> float:
        """Seconds since the oldest last contact of a scope; infinite until every scope had contact."""
        return self._contact.silence(now) if self._contact is not None else float("inf")

    async def objects(self) -> list[Object]:
        """List all watched scopes, independently of the watches; raise Unreachable."""
        if self._transport is None:
            raise Unreachable("the API server is not being watched")
        found: list[Object] = []
        for scope in list(self._reflectors):
            found += await _list(self._transport, scope)
        return found

    async def read(self, lead: Lead) -> Reading:
        """Read the objects for a question, on the connection of the watches."""
        if self._transport is None:
            return Reading((), (Fault("the API server has not been asked yet"),))
        return await read_objects(self._transport, lead)

    async def read_pod(self, namespace: str, name: str) -> PodReading:
        """Read a pod, on the connection of the watches; raise PodUnreadable."""
        if self._transport is None:
            raise PodUnreadable("the API server has not been asked yet")
        return await read_pod(self._transport, namespace, name)

    def outages(self) -> list[str]:
        """Sentences about what is not watched now, since when and why; callable from any thread."""
        if self._contact is None or self._transport is None:
            return []
        return [self._transport.redact(each) for each in self._contact.outages()]

    def _deliver(self, events: Sequence[Event], deliver: Deliver) -> None:
        if events:
            try:
                deliver(events)
            except Exception:
                _deliver_singly(events, deliver)
        if not self._synced and all(found.synced for found in self._reflectors.values()):
            self._synced = True
            deliver([Synced()])
            self._settle()

    def _replacements(
        self, reflector: Reflector, report: Report, deliver: Deliver
    ) -> list[Scope] | None:
        """Return the scopes to watch instead of a forbidden one; None if there is no alternative."""
        scope, namespaces = reflector.scope, self.options.namespaces
        if not reflector.forbidden or reflector.synced or not namespaces:
            return None
        if scope.namespace is None:
            names = " ".join(namespaces)
            report(
                logging.INFO,
                f"this account may not watch {scope} in the whole cluster; "
                f"watching namespaces {names} instead",
            )
            return [scope._replace(namespace=name) for name in namespaces]
        if scope.resource is not NAMESPACES:
            return None
        report(
            logging.INFO,
            f"this account may not watch namespace {scope.namespace}; assuming that it exists",
        )
        deliver([Upserted(Namespace(ObjectMeta(name=scope.namespace)))])
        return []


def _deliver_singly(events: Sequence[Event], deliver: Deliver) -> None:
    """Deliver the events one by one; log and drop those that fail."""
    for event in events:
        try:
            deliver([event])
        except Exception:
            meta = getattr(getattr(event, "object", None), "metadata", None)
            subject = f"{meta.namespace}/{meta.name}" if meta is not None else "an event"
            log.exception("cannot handle %s; it is ignored", subject)


async def _list(transport: Transport, scope: Scope) -> list[Object]:
    """List a scope page by page."""
    found: list[Object] = []
    following = ""
    while True:
        query = {**scope.query, "limit": str(PAGE)}
        if following:
            query["continue"] = following
        async with transport.get(scope.path, query) as answer:
            if answer.status != 200:
                text = await answer.text(MAX_ERROR_LEN)
                raise Unreachable(f"{scope} cannot be listed: {answer.status} {text[:200]}")
            body = bytearray()
            async for chunk in answer.chunks(lambda: STATE_READ_TIMEOUT):
                body += chunk
                if len(body) > MAX_PAGE_LEN:
                    raise Unreachable(
                        f"{scope} cannot be listed: a page has more than {MAX_PAGE_LEN} octets"
                    )
        try:
            page = decode_page(bytes(body), scope.resource)
        except MalformedEvent as error:
            sentence = transport.redact(str(error))
            raise Unreachable(f"{scope} cannot be listed: {sentence}") from None
        found += page.objects
        following = page.following
        if not following:
            return found
