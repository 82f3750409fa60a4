"""Millions of simulated events against the store, in memory: its state at the end, and what it keeps.

    python -m loadtest.watch.long_churn --events 20_000_000 --seconds 600

Path: a model of a cluster -> octets of a watch -> apiserver/reflector.py -> cluster/store.py; the tool of
the tests compares.
Rule 1: events are those of the API: addresses and readiness that change, slices and Services that go and come.
Rule 2: after each piece the store must equal one that has read the cluster as it is then, and the memory of the process
        may not be more than GROWTH times that after the first piece.
Exit status: 0; 1 if a piece differs or memory grows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from hsdns.apiserver.reflector import Observer, Reflector
from hsdns.apiserver.resource import ENDPOINT_SLICES, NAMESPACES, SERVICES, Resource, Scope
from hsdns.cluster.objects import Event
from hsdns.cluster.store import Store, StoreSettings
from loadtest.apiserver.objects import changed_address, endpoint_slice, namespaces, service
from loadtest.apiserver.watch_stream import INITIAL_EVENTS_END
from tests.support.cluster.differences import compare, empty_like

GROWTH: Final = 1.1
_BATCH: Final = 200  # events in a chunk of a watch
_KINDS: Final = (SERVICES, ENDPOINT_SLICES, NAMESPACES)
_READY, _GONE, _SERVICE = 0.2, 0.05, 0.02  # shares of events
Manifest = dict[str, Any]


class Model:
    """The cluster: its objects by resource and name, and how they change."""

    def __init__(self, services: int, endpoints: int, random: Random) -> None:
        self.objects: dict[Resource, dict[str, Manifest]] = {each: {} for each in _KINDS}
        self._gone: dict[tuple[Resource, str], Manifest] = {}
        self._random = random
        self._version = 0
        self._changes = 0
        for created in namespaces(0, services):
            self._put(NAMESPACES, created.manifest)
        for index in range(services):
            self._put(SERVICES, service(index).manifest)
            self._put(ENDPOINT_SLICES, endpoint_slice(index, endpoints).manifest)
        self._names = {each: list(self.objects[each]) for each in _KINDS}

    def change(self) -> tuple[Resource, bytes]:
        """Change an object; return the event."""
        chance = self._random.random()
        if chance < _SERVICE:
            name = self._random.choice(self._names[SERVICES])
            return SERVICES, self._go_or_come(SERVICES, name)
        name = self._random.choice(self._names[ENDPOINT_SLICES])
        found = self.objects[ENDPOINT_SLICES].get(name)
        if found is None or chance < _SERVICE + _GONE:
            return ENDPOINT_SLICES, self._go_or_come(ENDPOINT_SLICES, name)
        endpoint = self._random.choice(found["endpoints"])
        if chance < _SERVICE + _GONE + _READY:
            endpoint["conditions"]["ready"] = not endpoint["conditions"]["ready"]
        else:
            self._changes = (self._changes + 1) % (1 << 19)
            endpoint["addresses"] = [changed_address(self._changes)]
        self._put(ENDPOINT_SLICES, found)
        return ENDPOINT_SLICES, _line("MODIFIED", found)

    def initial(self, resource: Resource) -> Iterator[bytes]:
        """All objects of a resource as the events of an initial state."""
        for manifest in self.objects[resource].values():
            yield _line("ADDED", manifest)
        metadata = {
            "resourceVersion": str(self._version),
            "annotations": {INITIAL_EVENTS_END: "true"},
        }
        yield _line("BOOKMARK", {"kind": resource.kind, "metadata": metadata})

    def _go_or_come(self, resource: Resource, name: str) -> bytes:
        gone = self._gone.pop((resource, name), None)
        if gone is not None:
            self._put(resource, gone)
            return _line("ADDED", gone)
        manifest = self.objects[resource].pop(name)
        self._gone[resource, name] = manifest
        self._stamp(manifest)
        return _line("DELETED", manifest)

    def _put(self, resource: Resource, manifest: Manifest) -> None:
        self._stamp(manifest)
        self.objects[resource][manifest["metadata"]["name"]] = manifest

    def _stamp(self, manifest: Manifest) -> None:
        self._version += 1
        manifest["metadata"]["resourceVersion"] = str(self._version)


class Followed:
    """A store, and the reflectors that keep it up to date."""

    def __init__(self, model: Model, store: Store) -> None:
        self.store = store
        self._reflectors = {each: self._follow(each, model) for each in _KINDS}

    def receive(self, resource: Resource, chunk: bytes) -> None:
        """Apply a chunk of a watch."""
        if not self._reflectors[resource].receive_data(chunk):
            raise RuntimeError(f"{resource.plural}: {self._reflectors[resource].failure}")

    def _follow(self, resource: Resource, model: Model) -> Reflector:
        reflector = Reflector(Scope(resource), self._apply, Observer(), Random(1))
        reflector.next_request()
        reflector.open(0.0)
        for line in model.initial(resource):
            reflector.receive_data(line)
        if not reflector.synced:
            raise RuntimeError(f"{resource.plural} are not synced: {reflector.failure}")
        return reflector

    def _apply(self, events: Sequence[Event]) -> None:
        self.store.apply(events)


def _line(kind: str, manifest: Manifest) -> bytes:
    return msgspec.json.encode({"type": kind, "object": manifest}) + b"\n"


def make_store() -> Store:
    """An empty store, as a kubernetes block without options has it."""
    return Store(StoreSettings(), wall=lambda: 0.0, warn=lambda sentence: None)


def churn(model: Model, followed: Followed, events: int) -> None:
    """Make events, and apply them in chunks, in order within a resource."""
    waiting: dict[Resource, list[bytes]] = {each: [] for each in _KINDS}
    for number in range(1, events + 1):
        resource, line = model.change()
        waiting[resource].append(line)
        if number % _BATCH == 0 or number == events:
            for each, lines in waiting.items():
                if lines:
                    followed.receive(each, b"".join(lines))
                    lines.clear()


def differences(model: Model, followed: Followed) -> list[str]:
    """How the store differs from one that has read the cluster as it is."""
    fresh = Followed(model, empty_like(followed.store))
    return compare(followed.store, fresh.store)


def resident() -> int:
    """Resident memory of this process in octets."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(words: Sequence[str]) -> int:
    """Run it; return the exit status."""
    options = _parser().parse_args(words)
    model = Model(options.services, options.endpoints, Random(options.seed))
    followed = Followed(model, make_store())
    began, done, first = time.monotonic(), 0, 0
    while done < options.events and time.monotonic() - began < options.seconds:
        events = min(options.piece, options.events - done)
        churn(model, followed, events)
        done += events
        wrong, memory = differences(model, followed), resident()
        first = first or memory
        seconds = time.monotonic() - began
        print(
            f"{done:,} events after {seconds:.0f} s ({done / seconds:,.0f} a second): "
            f"{memory / 1e6:.0f} MB, {len(wrong)} differences",
            flush=True,
        )
        if wrong or memory > GROWTH * first:
            print("\n".join(wrong[:10]) or f"memory has grown from {first / 1e6:.0f} MB")
            return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="long-churn", description=(__doc__ or "").partition("\n")[0]
    )
    made.add_argument("--events", type=int, default=20_000_000, help="in all (default 20,000,000)")
    made.add_argument("--piece", type=int, default=500_000, help="events between two comparisons")
    made.add_argument("--seconds", type=float, default=3600.0, help="begin no piece after so long")
    made.add_argument("--services", type=int, default=1_000)
    made.add_argument("--endpoints", type=int, default=4, help="of each Service")
    made.add_argument("--seed", type=int, default=1, help="another one is another history")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
