"""Millions of simulated events against the store, in memory: its state at the end, and what it keeps.

    python -m loadtest.watch.long_churn --events 20_000_000 --seconds 600

Path: hsdns/load/cluster (changes, history) -> octets of a watch -> apiserver/reflector.py -> cluster/store.py; the tool
of the tests compares.
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
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from hsdns.apiserver.reflector import Observer, Reflector
from hsdns.apiserver.resource import Scope
from hsdns.cluster.objects import EndpointSlice, Namespace, Object, Service
from hsdns.cluster.store import Store, StoreSettings
from hsdns.load.cluster.changes import KINDS, Changes
from hsdns.load.cluster.history import RESOURCES, ApiHistory
from hsdns.sources.synthetic import Shape, SyntheticCluster
from tests.support.cluster.differences import compare, empty_like

GROWTH: Final = 1.1
_BATCH: Final = 200  # events in a chunk of a watch
_PIECE: Final = 500_000  # events between two comparisons
_SEED: Final = 1
_READ: Final = (Service, EndpointSlice, Namespace)
_GONE, _SERVICE = 0.05, 0.02  # shares of events


class Model:
    """The cluster: its objects as the API serves them, and how they change."""

    def __init__(self) -> None:
        self.history = ApiHistory(2 * _BATCH)
        made = SyntheticCluster(Shape(1_000, 4, headless=1.0, seed=_SEED))
        self._services: list[Service] = []
        slices: list[EndpointSlice] = []
        for each in made.objects():
            self.history.put(each)
            if isinstance(each, Service):
                self._services.append(each)
            elif isinstance(each, EndpointSlice):
                slices.append(each)
        self._random = Random(_SEED)
        self._changes = Changes(slices, dict.fromkeys(KINDS, 1), _SEED, made.unused_addresses())
        self._gone: set[tuple[str, str]] = set()  # kind and name

    def change(self) -> None:
        """Change an object; a slice that is gone also comes back with its next change."""
        chance = self._random.random()
        if chance < _SERVICE + _GONE:
            which: Sequence[Object] = self._services if chance < _SERVICE else self._changes.slices
            self._go_or_come(self._random.choice(which))
        else:
            changed = self._changes.next()
            self._gone.discard(_name(changed))
            self.history.put(changed)

    def _go_or_come(self, found: Object) -> None:
        (self.history.put if _name(found) in self._gone else self.history.remove)(found)
        self._gone ^= {_name(found)}


def _name(found: Object) -> tuple[str, str]:
    return type(found).__name__, found.metadata.name


class Followed:
    """A store, and the reflectors that keep it up to date."""

    def __init__(self, model: Model, store: Store) -> None:
        self.store, self._history = store, model.history
        self._reflectors = {kind: self._follow(kind) for kind in _READ}
        self._version = self._history.version

    def catch_up(self) -> None:
        """Apply what has changed since the last time, as chunks of watches."""
        for kind, reflector in self._reflectors.items():
            lines = self._history.since(kind, self._version)
            if lines is None or (lines and not reflector.receive_data(b"".join(lines))):
                raise RuntimeError(f"{kind.__name__}: {reflector.failure}")
        self._version = self._history.version

    def _follow(self, kind: type[Object]) -> Reflector:
        reflector = Reflector(Scope(RESOURCES[kind]), self.store.apply, Observer(), Random(1))
        reflector.next_request()
        reflector.open(0.0)
        for line in self._history.initial(kind):
            reflector.receive_data(line)
        if not reflector.synced:
            raise RuntimeError(f"{kind.__name__}s are not synced: {reflector.failure}")
        return reflector


def make_store() -> Store:
    """An empty store, as a kubernetes block without options has it."""
    return Store(StoreSettings(), wall=lambda: 0.0, warn=lambda sentence: None)


def churn(model: Model, followed: Followed, events: int) -> None:
    """Make events, and apply them in chunks."""
    for number in range(1, events + 1):
        model.change()
        if number % _BATCH == 0 or number == events:
            followed.catch_up()


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
    model = Model()
    followed = Followed(model, make_store())
    began, done, first = time.monotonic(), 0, 0
    while done < options.events and time.monotonic() - began < options.seconds:
        events = min(_PIECE, options.events - done)
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
    made.add_argument("--seconds", type=float, default=3600.0, help="begin no piece after so long")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
