"""The objects and options that an answer depends on; copies are changed, and answered by the server's code.

Path: live.py -> ClusterObjects -> Scene -> smallest() and fate.py change it -> Replay answers.
Rule 1: the objects come from the source, because a store has no endpoints that are not ready.
Rule 2: a scene has only the objects that can affect the name, so that the cost does not grow with the cluster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, Final, NamedTuple

from msgspec import structs

from hsdns.cluster.address import pack_address
from hsdns.cluster.answer import ClusterAnswers
from hsdns.cluster.lookup import NoSuchName
from hsdns.cluster.objects import (
    Deleted,
    EndpointSlice,
    Identity,
    Namespace,
    Object,
    Pod,
    Service,
    ServiceImport,
    Synced,
    Upserted,
    identity,
)
from hsdns.cluster.pack import import_owner, pack_key, pack_label, slice_owner
from hsdns.cluster.schema import POD, ParsedName
from hsdns.cluster.store import Store
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.wire.message import RR, Reply
from hsdns.wire.name import Name


class ClusterObjects:
    """The objects of a question, or all objects of a small cluster."""

    def __init__(self, objects: Iterable[Object] = ()) -> None:
        self._objects: dict[Identity, Object] = {identity(each): each for each in objects}

    def __iter__(self) -> Iterator[Object]:
        return iter(self._objects.values())

    def pods(self, namespace: bytes) -> list[Pod]:
        """The pods of a namespace that are known."""
        return [
            each
            for each in self._objects.values()
            if isinstance(each, Pod) and pack_label(each.metadata.namespace) == namespace
        ]

    def of_name(self, parsed: ParsedName, *, shared: bool = False) -> list[Object]:
        """The objects that the parts of a name lead to; `shared` for one in a zone of ServiceImports."""
        key = parsed.namespace, parsed.name
        found: list[Object] = []
        for each in self._objects.values():
            meta = each.metadata
            if isinstance(each, Namespace):
                is_part = pack_label(meta.name) == parsed.namespace
            elif isinstance(each, EndpointSlice):
                is_part = (import_owner(meta) if shared else slice_owner(meta)) == key
            elif isinstance(each, ServiceImport if not shared else Service):
                is_part = False
            elif isinstance(each, Pod):
                is_part = parsed.kind == POD and pack_label(meta.namespace) == parsed.namespace
            else:
                is_part = pack_key(meta) == key
            if is_part:
                found.append(each)
        return found

    def of_address(self, address: bytes) -> list[Object]:
        """The Services with a cluster IP and the endpoints with an address, and all namespaces."""
        keys = set()
        for each in self._objects.values():
            if isinstance(each, EndpointSlice):
                hosts = (text for found in each.endpoints or () for text in found.addresses or ())
                if any(pack_address(text) == address for text in hosts):
                    keys.add(slice_owner(each.metadata))
            elif isinstance(each, Service):
                texts = [*(each.spec.cluster_ips or ()), each.spec.cluster_ip or ""]
                if any(pack_address(text) == address for text in texts):
                    keys.add(pack_key(each.metadata))
        found: list[Object] = []
        for each in self._objects.values():
            meta = each.metadata
            owner = slice_owner(meta) if isinstance(each, EndpointSlice) else pack_key(meta)
            is_kind = isinstance(each, EndpointSlice | Service)
            if isinstance(each, Namespace) or (is_kind and owner is not None and owner in keys):
                found.append(each)
        return found


class Scene(NamedTuple):
    """Objects, with options and store settings that may differ from the Corefile."""

    objects: Mapping[Identity, Object]
    options: Mapping[str, Any] = {}
    settings: Mapping[str, Any] = {}

    @classmethod
    def of(cls, objects: Iterable[Object]) -> Scene:
        """The scene with these objects."""
        return cls({identity(each): each for each in objects})

    def with_objects(self, *objects: Object) -> Scene:
        """A copy with objects added or replaced."""
        return self._replace(objects={**self.objects, **{identity(each): each for each in objects}})

    def with_options(self, **options: Any) -> Scene:
        """A copy with other options of the block."""
        return self._replace(options={**self.options, **options})

    def with_settings(self, **settings: Any) -> Scene:
        """A copy with other settings of the store."""
        return self._replace(settings={**self.settings, **settings})

    @property
    def services(self) -> list[Service]:
        """Its Services."""
        return [each for each in self.objects.values() if isinstance(each, Service)]

    @property
    def imports(self) -> list[ServiceImport]:
        """Its ServiceImports."""
        return [each for each in self.objects.values() if isinstance(each, ServiceImport)]

    @property
    def slices(self) -> list[EndpointSlice]:
        """Its EndpointSlices."""
        return [each for each in self.objects.values() if isinstance(each, EndpointSlice)]

    @property
    def namespaces(self) -> list[Namespace]:
        """Its Namespaces."""
        return [each for each in self.objects.values() if isinstance(each, Namespace)]


class Replay:
    """Answers queries for the names of a zone over any scene, with one kubernetes block's code."""

    def __init__(self, block: Kubernetes, zone: Name) -> None:
        self.block, self.zone = block, zone

    def trial(self, scene: Scene) -> Trial:
        """A store with the scene's objects, for queries with one slice after another."""
        settings = self.block.state.settings._replace(**scene.settings)
        store = Store(settings, wall=lambda: 0.0, warn=lambda sentence: None)
        store.apply([*(Upserted(each) for each in scene.objects.values()), Synced()])
        return Trial(store, self.block.answers_over(store, **scene.options), self.zone)

    def answers(self, scene: Scene) -> ClusterAnswers:
        """The code that answers over a store with the scene's objects."""
        return self.trial(scene).answers

    def exists(self, scene: Scene, qname: Name, qtype: int) -> bool:
        """Whether the name exists there."""
        return not self.answers(scene).is_missing(qname, qtype, self.zone)

    def records(self, scene: Scene, qname: Name, qtype: int) -> tuple[RR, ...]:
        """The answer section there, without what is outside the zone; empty for a name that does not exist."""
        return self.trial(scene).records(qname, qtype)


class Trial:
    """A separate store, and the code that answers over it for the names of a zone."""

    def __init__(self, store: Store, answers: ClusterAnswers, zone: Name) -> None:
        self.answers, self._store, self._zone = answers, store, zone
        self._part: EndpointSlice | None = None  # one more than the scene has
        store.services.history.is_open = False  # nothing reads it here

    def records(self, qname: Name, qtype: int) -> tuple[RR, ...]:
        """The answer section, without what is outside the zone; empty for a name that does not exist."""
        outside: dict[Name, Reply] = {}
        try:
            while True:
                found = self.answers.answer_at_once(qname, qtype, self._zone, outside)
                if isinstance(found, Reply):
                    return found.answer
                outside |= dict.fromkeys(found, Reply())
        except NoSuchName:
            return ()

    def records_with(self, part: EndpointSlice, qname: Name, qtype: int) -> tuple[RR, ...]:
        """The same with an additional slice, which replaces the slice of the previous call."""
        before = self._part
        # A store ignores an object with the version of the previous one.
        self._part = part = structs.replace(
            part, metadata=structs.replace(part.metadata, resource_version="")
        )
        if before is not None and identity(before) != identity(part):
            self._store.apply((Deleted(before),))
        self._store.apply((Upserted(part),))
        return self.records(qname, qtype)


# Finds the smallest set of changes with which the server's own code finds a missing name.
#
# Rule 1: every possible change is a candidate (candidates.py); only a set that makes the name exist is reported.
# Rule 2: the smallest such set is reported, and among sets of equal size the one with the first candidates.  A set
#         larger than MOST_TOGETHER is only minimal: it needs each of its changes.


MOST_TOGETHER: Final = 3  # changes; all sets up to this size are tried


class Change(NamedTuple):
    """One possible change: `place` is an object or the Corefile, `make` changes it in a scene.

    `todo` says what to do where that is more than what is needed.
    """

    place: str
    cause: str
    needed: str
    make: Callable[[Scene], Scene]
    todo: str = ""


class Lacking(NamedTuple):
    """The changes that a missing name needs, and the scene that they apply to."""

    scene: Scene
    changes: tuple[Change, ...] = ()


def made(scene: Scene, changes: Sequence[Change]) -> Scene:
    """The scene after some changes."""
    for change in changes:
        scene = change.make(scene)
    return scene


async def smallest(
    replay: Replay,
    scene: Scene,
    options: Iterable[Change | None],
    qname: Name,
    qtype: int,
    pause: Callable[[], Awaitable[None]],
) -> tuple[Change, ...]:
    """The smallest set of changes with which the name exists; empty if there is none.

    `pause` is awaited between two trials, and for each None in the options.
    """
    candidates: list[Change] = []
    for option in options:
        if option is None:
            await pause()
        else:
            candidates.append(option)
    if not candidates:
        return ()
    for count in range(1, min(MOST_TOGETHER, len(candidates)) + 1):
        for chosen in combinations(candidates, count):
            await pause()
            if replay.exists(made(scene, chosen), qname, qtype):
                return chosen
    if not replay.exists(made(scene, candidates), qname, qtype):
        return ()
    left = list(candidates)
    for change in reversed(candidates):
        await pause()
        without = [each for each in left if each is not change]
        if replay.exists(made(scene, without), qname, qtype):
            left = without
    return tuple(left)
