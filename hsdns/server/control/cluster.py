"""Streams what happens in a cluster: the changes in DNS (/v1/changes), and the objects and events (/v1/watch).

Path: routes.py -> here -> cluster/answer_set.py and cluster/snapshot.py.

The changes in DNS since a reader's last poll:
Rule 1: the server records nothing for readers.  Each reader compares the current states of the stores with those of its
        last poll, and costs nothing after it has disconnected.  So a record that is added and removed between two polls
        is not reported, and a slow reader gets several changes as one; the server never holds more than one old state
        for a reader.
Rule 2: after a reload, the comparison continues with the states from before.  A kubernetes block is compared with the
        previous block of the same zones; a block with new zones begins with its current state.

The last changes in DNS for /v1/top (queries.py), with the time from the write of an object to its answers:
Rule 1: they come from the ring of the store (cluster/history.py), so the first picture has those before it.
Rule 2: the time of the write is only known for EndpointSlices, because their controller records it in an annotation
        (cluster/read_object.py).

The objects of a cluster, and every event from then on:
Rule 1: the stream contains what the store received, without the fields that DNS does not use (recording/entry.py).
        An object that the block does not select is sent as deleted.
Rule 2: a reader that is too slow for the events gets the number of missed events, and then the whole state again.
Rule 3: after a reload the stream continues with the same block, and repeats the whole state if the reload reads its
        cluster again.  If the block has another configuration or is gone, the stream ends.

Records the events of a store for one reader:
Rule 1: begin() runs in the watch thread, so that the state that it returns is exactly the one before the first recorded
        event.
Rule 2: recording a batch only keeps a reference to it.  Memory is bounded: once MOST events wait for the reader,
        further ones are counted as lost until the reader calls begin() again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from hsdns import __version__
from hsdns.cluster.answer_set import Changes, noted_lines
from hsdns.cluster.history import DELETED, History, Noted
from hsdns.cluster.objects import Deleted, Event, Synced
from hsdns.cluster.read_object import read_time
from hsdns.cluster.snapshot import WholeState
from hsdns.cluster.store import Store
from hsdns.http_page import HttpRefusal, PageRequest
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.recording.entry import (
    SHAPING,
    End,
    Entry,
    Gap,
    Header,
    ObjectEvent,
    RecordedObject,
    State,
    reduced,
    to_raw,
)
from hsdns.recording.entry import to_line as entry_line
from hsdns.server.control.door import Door, in_pieces, kubernetes_blocks, time_text, to_line
from hsdns.server.instance import Instance
from hsdns.server.runtime import Turn
from hsdns.wire.name import Name

POLL: Final = 0.1  # seconds between two polls


@dataclass
class _Followed:
    """A kubernetes block and the last state of it that the reader has seen; None until the cluster has been read."""

    plugin: Kubernetes
    seen: int = -1
    changes: Changes | None = None


class ChangeFollower:
    """The last states of the kubernetes blocks that a reader has seen; none at first."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._instance: Instance | None = None
        self._followed: dict[tuple[Name, ...], _Followed] = {}

    @property
    def zones(self) -> list[str]:
        """The zones that are followed."""
        return [zone.to_text() for zones in self._followed for zone in zones]

    def follow(self) -> bool:
        """Follow the serving instance from now on; return whether it is another one."""
        instance = self._door.serving()
        if instance is self._instance:
            return False
        self._instance = instance
        self._followed = _follow(self._followed, kubernetes_blocks(instance))
        return True

    async def look(self, turn: Turn) -> AsyncGenerator[list[tuple[Name, str]], None]:
        """The changes since the last poll: zones, and lines such as `+ 10.244.0.7 web.shop.svc.cluster.local`."""
        for each in self._followed.values():
            store = each.plugin.store
            if not store.serves or store.changes == each.seen:
                continue
            each.seen = store.changes
            if each.changes is None:
                each.changes = Changes(each.plugin.answer_set())
                continue
            for piece in each.changes.pieces():
                await turn.end_if_long()
                if piece:
                    yield piece


def _follow(
    before: dict[tuple[Name, ...], _Followed], blocks: list[Kubernetes]
) -> dict[tuple[Name, ...], _Followed]:
    followed = {}
    for plugin in blocks:
        known = followed[plugin.zones] = _Followed(plugin)
        old = before.get(plugin.zones)
        if old is not None and old.changes is not None:
            known.changes = old.changes
            known.changes.follow(plugin.answer_set())
        elif plugin.store.serves:  # compared at once, so that changes after this call are found
            known.seen = plugin.store.changes
            known.changes = Changes(plugin.answer_set())
    return followed


def to_words(text: str) -> tuple[str, str, str]:
    """The parts of a line: `added` or `removed`, the name with its final dot, and the record."""
    sign, _, fact = text.partition(" ")
    record, _, name = fact.rpartition(" ")
    return "added" if sign == "+" else "removed", f"{name}.", record


async def changes(door: Door, _: PageRequest) -> AsyncGenerator[bytes, None]:
    """Write a line for each added or removed record; the first line, and one after each reload, has the zones."""
    turn = Turn(door.clock)
    follower = ChangeFollower(door)
    door.serving()
    while door.instance() is not None:
        if follower.follow():
            yield to_line({"time": time_text(door.wall()), "zones": follower.zones})
        async for piece in follower.look(turn):
            now = time_text(door.wall())
            yield b"".join(_line(now, zone, text) for zone, text in piece)
        await asyncio.sleep(POLL)


def _line(now: str, zone: Name, text: str) -> bytes:
    change, name, record = to_words(text)
    return to_line(
        {"time": now, "change": change, "name": name, "record": record, "zone": zone.to_text()}
    )


MOST: Final = 8192  # events


class EventFollower:
    """The events of a store since begin(); `clock` gives monotonic seconds, `lost` is a number of events."""

    def __init__(self, store: Store, clock: Callable[[], float]) -> None:
        self.store = store
        self.lost = 0
        self._clock = clock
        self._noted: deque[tuple[float, Sequence[Event]]] = deque()
        self._count = 0  # of recorded events; only the watch thread changes it
        self._taken = 0
        self._is_followed = False
        self._is_over = False

    def begin(self) -> tuple[float, WholeState]:
        """Start recording, again if events were lost; return the time and the state before the first event."""
        self._noted.clear()
        self._count = self._taken = self.lost = 0
        if not self._is_followed:
            self._is_followed = True
            self.store.follow(self._note)
        return self._clock(), WholeState.of(self.store)

    def end(self) -> None:
        """Stop recording; from any thread."""
        self._is_over = True
        self._noted.clear()

    def take(self) -> tuple[float, Sequence[Event]] | None:
        """The next batch, with its time; None if there is none."""
        if not self._noted:
            return None
        found = self._noted.popleft()
        self._taken += len(found[1])
        return found

    def _note(self, events: Sequence[Event]) -> bool:
        if self._is_over:
            return False
        if self.lost or self._count - self._taken + len(events) > MOST:
            self.lost += len(events)
        elif events:
            self._count += len(events)
            self._noted.append((self._clock(), events))
        return True


WAIT: Final = 1.5  # seconds to wait for the watch thread
PARAMETERS: Final = ("zone",)
BUSY: Final = "the cluster is being read; try again in a moment"
CHANGED: Final = "the Corefile was changed, and the kubernetes block with it"
Key = tuple[str, str, str]  # kind, namespace, name


async def watch(door: Door, asked: PageRequest) -> AsyncGenerator[bytes, None]:
    """Write the description of the server, its objects, and then each event."""
    instance: Instance | None = door.serving()
    block = _choose(kubernetes_blocks(door.serving()), asked.parameters.get("zone"))
    turn = Turn(door.clock)
    header = entry_line(_header(door, block))
    while instance is not None:
        follower = EventFollower(block.store, door.clock)
        told = Told(door, block.store)
        try:
            entries = told.state(*await _begin(instance, follower))
            yield header
            header = b""
            while door.instance() is instance or _goes_on(door, block, follower):
                async for piece in in_pieces(map(entry_line, entries), turn):
                    yield piece
                if (batch := follower.take()) is not None:
                    entries = told.events(*batch)
                elif follower.lost:
                    yield entry_line(Gap(*told.times(door.clock()), follower.lost))
                    entries = told.state(*await _begin(instance, follower))
                else:
                    entries = iter(())
                    await asyncio.sleep(POLL)
        finally:
            follower.end()
        instance = door.instance()
        if instance is not None:
            found = _same(instance, block)
            if found is None:
                yield entry_line(End(*told.times(door.clock()), CHANGED))
                return
            block = found


def _goes_on(door: Door, block: Kubernetes, follower: EventFollower) -> bool:
    """Whether the present instance has the block with the same store, as after a reload that took over the watch."""
    now = door.instance()
    found = None if now is None else _same(now, block)
    return found is not None and found.store is follower.store


def _same(instance: Instance, block: Kubernetes) -> Kubernetes | None:
    """The block of an instance that has the same zones and properties as an earlier block."""
    words = block.zones, block.lines
    return next((each for each in kubernetes_blocks(instance) if (each.zones, each.lines) == words), None)  # fmt: skip


class Told:
    """The objects of a store that a reader knows; makes the entries that follow."""

    def __init__(self, door: Door, store: Store) -> None:
        self._door = door
        self._store = store
        self._known: set[Key] = set()

    def state(self, at: float, state: WholeState) -> Iterator[Entry]:
        """The objects, and the State entry that ends them."""
        self._known.clear()
        count = 0
        for each in state.objects(versioned=True):
            try:
                raw = msgspec.Raw(msgspec.json.encode(each))
            except UnicodeEncodeError:
                continue  # half of a surrogate pair: JSON cannot represent it, and no API server accepts it
            meta = each["metadata"]
            self._known.add((each["kind"], meta.get("namespace", ""), meta["name"]))
            count += 1
            yield RecordedObject(raw)
        yield State(*self.times(at), count, state.serves)

    def events(self, at: float, events: Sequence[Event]) -> Iterator[Entry]:
        """The entries of a batch; none for the deletion of an object that the reader does not know."""
        times = self.times(at)
        for event in events:
            if isinstance(event, Synced):
                yield ObjectEvent(*times, "SYNCED")
                continue
            found = event.object
            meta = found.metadata
            key = type(found).__name__, meta.namespace, meta.name
            is_known = key in self._known
            if isinstance(event, Deleted) or not self._store.selects(found):
                if not is_known:
                    continue
                self._known.discard(key)
                change: Any = "DELETED"
            else:
                self._known.add(key)
                change = "MODIFIED" if is_known else "ADDED"
            try:
                yield ObjectEvent(*times, change, to_raw(reduced(found)))
            except UnicodeEncodeError:
                continue  # as above

    def times(self, at: float) -> tuple[float, str]:
        """Seconds since the start of the server, and the wall time."""
        ago = self._door.clock() - at
        return round(at - self._door.began, 6), time_text(self._door.wall() - ago)


def _choose(blocks: list[Kubernetes], zone: str | None) -> Kubernetes:
    """The block with a zone, or the only one; raise HttpRefusal."""
    if not blocks:
        raise HttpRefusal(404, "this server has no kubernetes block, so there are no objects")
    zones = [each.to_text() for block in blocks for each in block.zones]
    if zone is not None:
        wanted = zone.lower().rstrip(".") + "."
        found = [each for each in blocks if wanted in (own.to_text() for own in each.zones)]
        if not found:
            shown = ", ".join(dict.fromkeys(zones))
            raise HttpRefusal(400, f'no kubernetes block has the zone "{zone}"; there are {shown}')
        return found[0]
    if len({id(each.state) for each in blocks}) > 1:
        shown = ", ".join(dict.fromkeys(each.zones[0].to_text() for each in blocks))
        raise HttpRefusal(
            400, f"this server has several kubernetes blocks; choose one by its zone: {shown}"
        )
    return blocks[0]


async def _begin(instance: Instance, follower: EventFollower) -> tuple[float, WholeState]:
    async def begin() -> tuple[float, WholeState]:
        return follower.begin()

    try:
        return await instance.in_watch(begin(), WAIT)
    except TimeoutError:
        raise HttpRefusal(503, BUSY) from None


def _header(door: Door, block: Kubernetes) -> Header:
    return Header(
        server=__version__,
        began=time_text(door.wall()),
        source=str(block.source),
        zones=[each.to_text() for each in block.zones],
        kubernetes=[list(words) for words in block.lines if words[0] in SHAPING],
    )


MOST_CHANGES: Final = 10


class ServedChanges:
    """The last changes that the server has applied, also before the reader connected; the newest last."""

    def __init__(self, door: Door, is_wanted: Callable[[Name], bool]) -> None:
        self._door, self._is_wanted = door, is_wanted
        self._last: deque[dict[str, Any]] = deque(maxlen=MOST_CHANGES)
        self._seen: dict[History, Noted | None] = {}  # the newest change of each ring

    async def take(self, turn: Turn) -> list[dict[str, Any]]:
        """The last changes."""
        seen, self._seen = self._seen, {}
        found: list[dict[str, Any]] = []
        for block in kubernetes_blocks(self._door.serving()):
            ring = block.store.services.history
            if ring not in self._seen:
                fresh = ring.after(seen.get(ring))
                self._seen[ring] = fresh[0] if fresh else seen.get(ring)
                found += await self._rows(block, fresh, turn)
        found.sort(key=lambda row: row["time"])  # the changes of one time stay in order
        self._last.extend(found)
        return list(self._last)

    async def _rows(
        self, block: Kubernetes, fresh: Sequence[Noted], turn: Turn
    ) -> list[dict[str, Any]]:
        """The rows of the newest changes, which are the first."""
        answer_set = block.answer_set()
        exposed, found = answer_set.exposed_namespaces(), list[list[dict[str, Any]]]()
        for noted in fresh:
            if sum(map(len, found)) >= MOST_CHANGES:
                break
            if noted.service[0] in exposed:
                for zone in answer_set.forward_zones:
                    for lines in noted_lines(answer_set, zone, noted):
                        if lines:
                            rows = (self._row(line, noted) for line in lines)
                            found.append([row for row in rows if row is not None])
                        await turn.end_if_long()
        return [row for rows in reversed(found) for row in rows]

    def _row(self, line: str, noted: Noted) -> dict[str, Any] | None:
        change, name, record = to_words(line)
        if not self._is_wanted(Name.from_text(name)):
            return None
        written = read_time(noted.written) if noted.event != DELETED else None
        return {
            "time": time_text(noted.served),
            "change": change,
            "name": name,
            "record": record,
            "written": None if written is None else time_text(written),
            "served_ms": None if written is None else round((noted.served - written) * 1000, 1),
        }
