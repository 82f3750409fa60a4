"""Calls everything in the compiled twin with objects that lie about their lengths, in a process of its own.

Path: tests only; test__python.py runs it, since what goes wrong ends the process.
Rule 1: each parameter in turn is a liar while the others are good, so a name that GOOD lacks is a new parameter here.
Rule 2: an exception is right, and so is a result; a panic is not.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from hsdns.fastpath import Terms

NATIVE: Final[Any] = importlib.import_module("hsdns.fastpath._native")
# Most allocations of the middle one fail; those of the last are longer than an address can say.
CLAIMS: Final = (10**9, 2**40, sys.maxsize)
VERSIONS, NAMES, QUEUE = NATIVE.Versions(), NATIVE.ClusterNames(), NATIVE.MissQueue()
TABLE: Final = NATIVE.AnswerTable(VERSIONS, 10**6)
# Calls without a parameter that could lie, of which one serves until it is stopped.
SKIPPED: Final = {"Worker.run"}


class Liar:
    """A sequence, mapping and iterator that has as many items as it says, or a few."""

    def __init__(self, claimed: int, items: tuple[object, ...]) -> None:
        self.claimed, self.items = claimed, items

    def __len__(self) -> int:
        return self.claimed

    def __length_hint__(self) -> int:
        return self.claimed

    def __iter__(self) -> Iterator[object]:
        return iter(self.items)

    def __getitem__(self, index: object) -> object:
        raise IndexError

    def __hash__(self) -> int:
        return 1


class World:
    """What LoadSender.run_in() asks; each answer is a liar."""

    def __init__(self, liar: Liar) -> None:
        self.liar, self.waited = liar, 0

    def clock(self) -> int:
        return 1

    def wait(self, nanoseconds: int) -> Liar:
        self.waited += 1
        if self.waited > 2:
            raise StopAsyncIteration
        return self.liar

    def send(self, socket: int, datagrams: object) -> Liar:
        return self.liar

    def receive(self, socket: int) -> Liar:
        return self.liar

    def emit(self, message: bytes) -> None:
        pass


def value(**values: object) -> object:
    """A value of a store."""
    return type("Value", (), values)()


def part(labels: object = None, ports: object = ()) -> tuple[object, ...]:
    """A PackedSlice."""
    return ("s", "1", 4, bytes(4), labels, ports, (), True, None, b"", 0)


GOOD: Final[dict[str, Any]] = {
    **dict.fromkeys("query reply label namespace name zone primary_zone data body times block".split(), b"a"),
    **dict.fromkeys("address client errors soa questions".split(), b""),
    **dict.fromkeys("group size source mark_ttl negative_zone flags index limit capacity octets most".split(), 0),
    **dict.fromkeys("worker begin timeout stop pipe question planned sent received late_after".split(), 0),
    **dict.fromkeys("seconds at now ttl end expire max_age max_ports count upstream".split(), 0),
    **dict.fromkeys("rotate log no_edns renewed is_tcp wildcard more pod_names zonal counts_not_ready is_down is_paused rotates".split(), False),
    **dict.fromkeys("dependencies exclusions labels misses kinds queries zones addresses upstreams events".split(), ()),
    **{key: {} for key in "groups values namespaces cluster_ips endpoint_ips owners".split()},
    **dict.fromkeys("make_value make_part make_ports note owner old new gone come key world reading".split(), ()),
    **dict.fromkeys("tap table first timed".split()),
    "success": (5, 30), "denial": (5, 30), "policy": "random",
    "fd": -1, "fds": (-1,), "first_ids": (1,), "kind": "services", "max_payload": 1232, "names": NAMES,
    "queue": QUEUE, "terms": Terms(0, names=NAMES), "replies": (), "text": "", "version": "", "versions": VERSIONS, "window": 1,
}  # fmt: skip
OTHERWISE: Final[dict[str, dict[str, Any]]] = {
    "LoadSender": {"queries": (b"a",), "timeout": 1, "replies": False},
    "SliceStore": {"index": {}},
    "move_addresses": {"index": {}},
    "Forwarder": {"source": None},
    "Forwarder.serve": {"table": TABLE, "groups": {1: (0, 0, 0)}},
    "AnswerTable": {"capacity": 10**6},
    "WatchFrames": {"limit": 1000},
}


def liars() -> Iterator[Liar]:
    """One for each claim and kind of item."""
    for claimed in CLAIMS:
        for item in (0, b"a", (0, 0), (b"a", b"", b""), None, part()):
            yield Liar(claimed, (item, item))
        yield Liar(claimed, ())


def attempt(call: Callable[[], object]) -> Any:
    """Call; None for an exception."""
    try:
        return call()
    except Exception:
        return None


def bound(call: Callable[..., object], parameters: dict[str, object]) -> Callable[[], object]:
    """A call with parameters by name."""
    names = inspect.signature(call).parameters.values()
    places = [
        parameters[each.name]
        for each in names
        if each.kind is not each.KEYWORD_ONLY and each.name != "self"
    ]
    keywords = {
        each.name: parameters[each.name] for each in names if each.kind is each.KEYWORD_ONLY
    }
    return partial(call, *places, **keywords)


def try_all(call: Callable[..., object], name: str) -> None:
    """Let each parameter lie."""
    good = good_ones(call, name)
    for lying in good:
        for liar in liars():
            attempt(bound(call, good | {lying: liar}))


def good_ones(call: Callable[..., object], name: str) -> dict[str, object]:
    """Parameters that do not lie."""
    names = [each for each in inspect.signature(call).parameters if each != "self"]
    return {each: GOOD[each] for each in names} | OTHERWISE.get(name, {})


def try_nested() -> None:
    """What is read of the values of a store, and what a world in Python returns."""
    name = b"\1a\1n\3svc\1z\0"
    query = b"\0\0\1\0\0\1" + bytes(6) + name + b"\0\1\0\1"
    for liar in liars():
        for slices in ((part(liar),), (part(None, liar),), liar, (liar,)):
            for of in ((slices, ()), ((), slices)):
                attempt(partial(NATIVE.slice_change, *of))
            held = value(kind="headless", cluster_ips=(), ports=(), slices=slices)
            ask(query, held)
        ask(query, value(kind="cluster_ip", cluster_ips=liar, ports=((b"", b"tcp", 1),), slices=()))
        ask(query, value(kind="cluster_ip", cluster_ips=(bytes(4),), ports=liar, slices=()))
        sender = NATIVE.LoadSender((b"a" * 12,), kinds=(), first_ids=(1,), timeout=1, replies=True)
        sender.feed((1).to_bytes(8, sys.byteorder), (0).to_bytes(4, sys.byteorder))
        attempt(partial(sender.run_in, World(liar), 0))


def ask(query: bytes, held: object) -> None:
    """Let the replies about Services be made of a value."""
    made = NATIVE.ServiceReplies(
        {(b"n", b"a"): held}, {b"n": 1}, {}, {}, VERSIONS, (b"\1z\0",), b"\1z\0"
    )
    attempt(partial(made.lacks, query))


def main() -> None:
    """Try all, and say how many calls there are."""
    count = 0
    for name, found in vars(NATIVE).items():
        if name.startswith("_") or (isinstance(found, type) and issubclass(found, tuple)):
            continue
        if not isinstance(found, type):
            try_all(found, name)
            count += 1
            continue
        try_all(found, name)
        held = attempt(bound(found, good_ones(found, name)))  # None if only the module makes them
        for method in () if held is None else (each for each in dir(found) if each[0] != "_"):
            call = getattr(held, method)
            if callable(call) and f"{name}.{method}" not in SKIPPED:
                try_all(call, f"{name}.{method}")
                count += 1
    try_nested()
    sys.stdout.write(f"{count} calls\n")


if __name__ == "__main__":
    main()
