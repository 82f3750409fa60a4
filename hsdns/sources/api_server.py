"""The API server as a source: the scopes to watch, and when all of them are synced.

Path: plugins/kubernetes makes it if the block names no other source -> a watcher for each scope -> deliver.
Rule 1: services, endpointslices, namespaces and, if enabled, pods and serviceimports are watched cluster-wide, as in
        CoreDNS.  If that is forbidden and `namespaces` is given, each is watched in those namespaces instead.  For that
        a command gives `within`: what it may not list there either is left out, and unread() says so.
Rule 2: an exception while an event is handled is logged and drops that event only; the watch continues.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

import msgspec

from hsdns import memory
from hsdns.apiserver.reflector import MAX_PAGE_LEN, Key, Reflector
from hsdns.apiserver.resource import (
    ENDPOINT_SLICES,
    NAMESPACES,
    PODS,
    SERVICE_IMPORTS,
    SERVICES,
    Resource,
    Scope,
)
from hsdns.apiserver.transport import Obstacles, Transport, Unreachable, read_body
from hsdns.apiserver.watch_event import MalformedEvent, Page, decode_page, decode_status
from hsdns.apiserver.watcher import (
    MAX_ERROR_LEN,
    Contact,
    Returning,
    ScopeObserver,
    Watcher,
    WatchMetrics,
)
from hsdns.cluster.controllers.kinds import PodManifest, Workload
from hsdns.cluster.objects import (
    IMPORT_NAME_LABEL,
    SERVICE_NAME_LABEL,
    EndpointSlice,
    Event,
    Namespace,
    Object,
    ObjectMeta,
    Service,
    Synced,
    Upserted,
    labels_text,
)
from hsdns.cluster.source import (
    MAX_PODS,
    OTHER_PODS,
    Deliver,
    Fault,
    Lead,
    PodReading,
    PodUnreadable,
    Reading,
    Report,
    Surroundings,
)
from hsdns.corefile.tree import did_you_mean
from hsdns.sources.api_access import WatchOptions

if TYPE_CHECKING:
    from hsdns.causes.view import View

# Reads the objects for a question from the API server: a few bounded lists.
#
# Rule 1: only lists are requested, with a selector for one name: the roles of the stock manifests do not allow `get`.
# Rule 2: selectors of the kubernetes block are not applied, so that the objects that they exclude are seen.
# Rule 3: responses are awaited until DEADLINE only.
# Source: Kubernetes API concepts; all lists have the field selector `metadata.name`, pods also `status.podIP`.


T = TypeVar("T")
DEADLINE: Final = 1.0  # seconds for all lists
SLICES_PAGE: Final = 100  # slices on a page: each has up to 1000 endpoints
MAX_SERVICES: Final = 4  # Services for one question
_LABEL: Final = re.compile(rb"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # RFC 1123, as in the API


async def get_body(
    transport: Transport, scope: Scope, query: dict[str, str], seconds: float = DEADLINE
) -> bytes:
    """The octets of a page, after at most `seconds` without data; raise Unreachable."""
    plural = scope.resource.plural
    async with transport.get(scope.path, query) as answer:
        if answer.status != 200:
            text = await answer.text(MAX_ERROR_LEN)
            status = decode_status(text, answer.status)
            said = transport.redact(status.message[:200] or status.reason)
            verb = "may not be read" if answer.status in (401, 403) else "could not be read"
            raise Unreachable(f"{plural} {verb}: {said or 'no reason given'} ({answer.status})")
        body = await read_body(answer, MAX_PAGE_LEN, seconds)
    if len(body) > MAX_PAGE_LEN:
        raise Unreachable(f"{plural} could not be read: a page is too long")
    return body


async def get_page(
    transport: Transport, scope: Scope, query: dict[str, str], seconds: float = DEADLINE
) -> Page:
    """A page; raise Unreachable."""
    body = await get_body(transport, scope, query, seconds)
    try:
        return decode_page(body, scope.resource)
    except MalformedEvent as error:
        sentence = transport.redact(str(error))
        raise Unreachable(f"{scope.resource.plural} could not be read: {sentence}") from None


async def read_objects(transport: Transport, lead: Lead, seconds: float = DEADLINE) -> Reading:
    """Read the objects for a question, for at most `seconds`."""
    reader = _Reader(transport)
    named = {*lead.namespaces, *(namespace for namespace, _ in lead.services)}
    spaces = [each.decode() for each in sorted(named) if _LABEL.fullmatch(each)]
    coros = [reader.namespace(each) for each in spaces]
    for key in lead.services[:MAX_SERVICES]:
        if all(_LABEL.fullmatch(each) for each in key):
            namespace, name = (each.decode() for each in key)
            coros.append(reader.service(namespace, name, lead.shared))
    if lead.address:
        coros.append(reader.address(lead.address))
    if _LABEL.fullmatch(lead.pod.encode()):
        coros.append(reader.pod(lead.pod, spaces))
        coros.append(reader.pod(f"{lead.pod}-0", spaces))  # of a StatefulSet
        coros += [reader.deployed(each, lead.pod) for each in spaces]
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
            self._list(Scope(ENDPOINT_SLICES, namespace, f"{label}={name}"), limit=SLICES_PAGE),
        )
        for each in found:
            if isinstance(each, Service) and each.spec.selector:
                await self._pods(namespace, each.spec.selector, parts)

    async def address(self, address: str) -> None:
        """Read the pods with an address, and the slices in their namespaces that contain it."""
        pods = await self._list(Scope(PODS), fields=f"status.podIP={address}", limit=SLICES_PAGE)
        for namespace in sorted({each.metadata.namespace for each in pods})[:MAX_SERVICES]:
            parts = await self._list(
                Scope(ENDPOINT_SLICES, namespace), limit=SLICES_PAGE, keep=False
            )
            self.objects += [
                each
                for each in parts
                if isinstance(each, EndpointSlice)
                and any(address in (one.addresses or ()) for one in each.endpoints or ())
            ]

    async def pod(self, name: str, namespaces: Sequence[str]) -> None:
        """Read the pods with a name in all namespaces, else in some; those that may not be read are not missed."""
        for scope in (Scope(PODS), *(Scope(PODS, each) for each in namespaces)):
            if await self._list(
                scope, fields=f"metadata.name={name}", limit=MAX_SERVICES, is_needed=False
            ):
                return

    async def deployed(self, namespace: str, name: str) -> None:
        """Read a pod of a Deployment; what may not be read is not missed."""
        scope = Scope(Resource("Deployment", "deployments", "/apis/apps/v1", Service), namespace)
        query = {"limit": "1", "fieldSelector": f"metadata.name={name}"}
        with suppress(Unreachable, msgspec.MsgspecError):
            page = await list_page(self._transport, scope, query, ListOf[Workload])
            for each in page.items or ():
                labels = labels_text(each.spec.template.metadata.labels or {})
                await self._list(
                    Scope(PODS, namespace, labels), limit=MAX_SERVICES, is_needed=False
                )

    async def _pods(
        self, namespace: str, selector: dict[str, str], parts: Sequence[Object]
    ) -> None:
        words = labels_text(selector)
        found = await self._list(Scope(PODS, namespace, words), limit=MAX_PODS)
        has_endpoints = any(isinstance(each, EndpointSlice) and each.endpoints for each in parts)
        if not found and not has_endpoints:
            await self._list(Scope(PODS, namespace), limit=OTHER_PODS)

    async def _named(self, resource: Resource, namespace: str, name: str) -> list[Object]:
        return await self._list(Scope(resource, namespace), fields=f"metadata.name={name}")

    async def _list(
        self,
        scope: Scope,
        *,
        fields: str = "",
        limit: int = 1,
        keep: bool = True,
        is_needed: bool = True,
    ) -> list[Object]:
        """List one page of a scope; a failure is a fault, and so are further pages, unless only one page is wanted."""
        resource = scope.resource
        query = {**scope.query, "limit": str(limit)}
        if fields:
            query["fieldSelector"] = ",".join(filter(None, (query.get("fieldSelector"), fields)))
        self._pending.append(resource)
        try:
            page = await get_page(self._transport, scope, query)
            found = [each.object for each in page.events if isinstance(each.object, resource.type)]
            is_cut = bool(page.following)
        except Unreachable as fault:
            if is_needed:
                self._faults.append(Fault(str(fault), resource.kind))
            found, is_cut = [], False
        self._pending.remove(resource)
        if is_cut and limit in (SLICES_PAGE, MAX_PODS):
            sentence = f"only the first {len(found)} of the {scope} were read"
            self._faults.append(Fault(sentence, resource.kind))
        if keep:
            self.objects += found
        return found


# Reads one pod with its DNS settings from the API server; the watches have no such pods.
#
# Rule: the request is a list with a selector for one name: the roles of the stock manifests do not allow `get`.


# RFC 1123: a namespace is a label, the name of a pod may have several.
_PATH: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-.a-z0-9]{0,251}[a-z0-9])?")  # fmt: skip


class _Meta(msgspec.Struct, frozen=True):
    """metav1.ListMeta."""

    continue_: str = msgspec.field(name="continue", default="")


class ListOf(msgspec.Struct, Generic[T]):
    """A page of a list, with its objects as they are decoded from manifests."""

    items: list[T] | None = None
    metadata: _Meta = _Meta()


async def list_page(
    transport: Transport, scope: Scope, query: dict[str, str], page: type[ListOf[T]]
) -> ListOf[T]:
    """A page; raise Unreachable or msgspec.MsgspecError."""
    return msgspec.json.decode(await get_body(transport, scope, query), type=page)


async def read_pod(
    transport: Transport, namespace: str, name: str, seconds: float = DEADLINE
) -> PodReading:
    """Read a pod, even one that has ended, in at most `seconds`; raise PodUnreadable."""
    from hsdns.sources.client_pod import pod_reading, read_surroundings  # noqa: PLC0415 - only explanations need it

    path = f"{namespace}/{name}"
    if not _PATH.fullmatch(path):
        raise PodUnreadable(f'"{path}" is not the name of a namespace and of a pod')
    around = asyncio.ensure_future(read_surroundings(transport, namespace, 0.8 * seconds))
    try:
        async with asyncio.timeout(seconds):
            selector = {"limit": "1", "fieldSelector": f"metadata.name={name}"}
            pods = await pods_page(transport, namespace, selector)
            surroundings = await around
            if not pods:
                others = await pods_page(transport, namespace, {"limit": str(OTHER_PODS)})
                names = [f"{namespace}/{each.metadata.name}" for each in others]
                raise PodUnreadable(f"the cluster has no pod {path}{did_you_mean(path, names)}")
    except Unreachable as fault:
        raise PodUnreadable(str(fault)) from None
    except TimeoutError:
        raise PodUnreadable(
            f"pods could not be read: {transport.server} did not answer within {seconds:g} s"
        ) from None
    except msgspec.MsgspecError as error:
        said = transport.redact(str(error))
        raise PodUnreadable(f"the pod {path} could not be read: {said}") from None
    finally:
        around.cancel()
    status = pods[0].status
    addresses = [each.ip for each in status.pod_ips or ()] or [status.pod_ip or ""]
    return pod_reading(pods[0], tuple(filter(None, addresses)), surroundings)


async def pods_page(
    transport: Transport, namespace: str | None, query: dict[str, str]
) -> list[PodManifest]:
    """A page of the pods of a namespace, or of all."""
    return (
        await list_page(transport, Scope(PODS, namespace), query, ListOf[PodManifest])
    ).items or []


REFUSED: Final = 60.0  # seconds in which a kind that may not be read is not asked for again
FORBIDDEN: Final = "(403)"  # the end of get_body()'s sentence
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
    its requests fail, for rules of `fault`.  `within`, of a command, are the namespaces to read in place of a cluster
    that its user may not list.
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
        self.within: tuple[str, ...] | None = None
        self.connect = connect
        self.options = options
        self._settle = settle or memory.keep
        self._contact: Contact | None = None
        self._transport: Transport | None = None
        self._clock: Callable[[], float] = lambda: 0.0
        # By namespace and plural, until when and why.
        self._unreadable: dict[tuple[str, str], tuple[float, str]] = {}
        self._reflectors: dict[Scope, Reflector] = {}
        self._refused: set[tuple[Resource, str | None]] = (
            set()
        )  # with a namespace, or None for the whole cluster
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
        self._transport, self._contact, self._clock = transport, contact, around.clock
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
        if self._refused and not self._has_services:
            return 0.0  # waiting does not help
        return self._contact.silence(now) if self._contact is not None else float("inf")

    @property
    def _has_services(self) -> bool:
        return any(each.resource is SERVICES for each in list(self._reflectors))

    def unread(self, namespace: str = "") -> str:
        """Why the content of a namespace, or else of the cluster, is not known, as far as that is; "" if it is."""
        places = self._places
        if not self._refused or (namespace and self.options.namespaces and namespace not in places):
            return ""
        if self.options.namespaces and not namespace:
            return next(filter(None, map(self.unread, places)), "")
        is_tried = namespace in places
        lacking = [
            scope.plural
            for scope in (SERVICES, ENDPOINT_SLICES, PODS, SERVICE_IMPORTS, NAMESPACES)
            if (scope, namespace if is_tried else None) in self._refused
        ]
        if lacking[1:] or is_tried:  # a namespace with Services is there
            lacking = [each for each in lacking if each != NAMESPACES.plural]
        right = f"no right to list {' and '.join(lacking)}"
        if not lacking:
            return ""
        if namespace:
            where = "it" if is_tried else "the whole cluster"
            return f"namespace {namespace} is not known: {right} in {where} (403)"
        known = [each for each in places if not self.unread(each)]
        if known:
            return f"{right} in the whole cluster (403), so only {_namespaces(known)} is known"
        where = f" or in {_namespaces(places)}" if places else ""
        rest = ", so which names are missing is not known" if self._has_services else ""
        return f"{right} in the whole cluster{where} (403){rest}"

    @property
    def _places(self) -> tuple[str, ...]:
        """The namespaces to read where the whole cluster may not be."""
        return self.options.namespaces or self.within or ()

    async def read(self, lead: Lead) -> Reading:
        """Read the objects for a question, on the connection of the watches."""
        if self._transport is None:
            return Reading((), (Fault("the API server has not been contacted yet"),))
        return await read_objects(self._transport, lead)

    async def read_view(self, namespace: str, selector: Mapping[str, str]) -> View:
        """Read what may stand behind a Service, on the connection of the watches."""
        if self._transport is None:
            from hsdns.causes.view import View  # noqa: PLC0415 - as above

            return View((), {PODS.plural: "the API server has not been contacted yet"})
        from hsdns.sources.client_pod import read_view  # noqa: PLC0415 - as above

        now = self._clock()
        refused = {
            plural: why
            for (place, plural), (until, why) in self._unreadable.items()
            if place == namespace and until > now
        }
        view = await read_view(self._transport, namespace, selector, refused=refused)
        self._unreadable |= {
            (namespace, each): (now + REFUSED, why)
            for each, why in view.unknown.items()
            if FORBIDDEN in why and each not in refused
        }
        return view

    async def read_pod(self, namespace: str, name: str) -> PodReading:
        """Read a pod, on the connection of the watches; raise PodUnreadable."""
        if self._transport is None:
            raise PodUnreadable("the API server has not been contacted yet")
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
        if self._synced or not all(found.synced for found in self._reflectors.values()):
            return
        if self._refused:
            if not self._has_services:
                return
            deliver([Upserted(Namespace(ObjectMeta(name=each))) for each in self._assumed()])
        self._synced = True
        deliver([Synced()])
        self._settle()

    def _assumed(self) -> set[str]:
        """The namespaces that may not be listed, but whose Services may, or that have Services."""
        if (NAMESPACES, None) not in self._refused:
            return set()
        services = [each for scope, each in self._reflectors.items() if scope.resource is SERVICES]
        scopes = {each.scope.namespace for each in services} - {None}
        return {*filter(None, scopes), *(key[0] for each in services for key in each.known)}

    def _replacements(
        self, reflector: Reflector, report: Report, deliver: Deliver
    ) -> list[Scope] | None:
        """Return the scopes to watch instead of a forbidden one; None if there is no alternative."""
        scope, namespaces = reflector.scope, self._places
        if (
            not reflector.forbidden
            or reflector.synced
            or not (namespaces or self.within is not None)
        ):
            return None
        if self.within is not None:
            self._refused.add((scope.resource, scope.namespace))
            if scope.namespace is not None:
                return []
        elif scope.namespace is None:
            report(
                logging.INFO,
                f"this account may not watch {scope} in the whole cluster; "
                f"watching namespaces {' '.join(namespaces)} instead",
            )
        if scope.namespace is None:
            return [scope._replace(namespace=name) for name in namespaces]
        if scope.resource is not NAMESPACES:
            return None
        report(
            logging.INFO,
            f"this account may not watch namespace {scope.namespace}; assuming that it exists",
        )
        deliver([Upserted(Namespace(ObjectMeta(name=scope.namespace)))])
        return []


def _namespaces(names: Sequence[str]) -> str:
    return f"namespace{'s' * (len(names) > 1)} {' and '.join(names)}"


def _deliver_singly(events: Sequence[Event], deliver: Deliver) -> None:
    """Deliver the events one by one; log and drop those that fail."""
    for event in events:
        try:
            deliver([event])
        except Exception:
            meta = getattr(getattr(event, "object", None), "metadata", None)
            subject = f"{meta.namespace}/{meta.name}" if meta is not None else "an event"
            log.exception("cannot handle %s; it is ignored", subject)
