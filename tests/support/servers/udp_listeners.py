"""Both kinds of UDP listener, for tests that run on each: on the event loop (pure Python), and workers."""

from __future__ import annotations

import asyncio
import importlib
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from types import ModuleType
from typing import Final
from unittest.mock import patch

import pytest

from hsdns import eager
from hsdns.answer_table import writer
from hsdns.metrics import Counter
from hsdns.plugins.kubernetes import watch
from hsdns.query import QueryProcessor
from hsdns.server import answer_tables, lifecycle
from hsdns.server.transport import listeners, udp
from hsdns.server.transport.admission import Admission, Places, Turns
from hsdns.server.transport.udp import UdpListener, UdpServer

PYTHON: Final = "hsdns.fastpath._python"
NATIVE: Final = "hsdns.fastpath._native"
NEEDS_NATIVE: Final = pytest.mark.skipif(
    find_spec(NATIVE) is None, reason=f"{NATIVE} is not built, so there are no workers"
)
KINDS: Final = [
    pytest.param("loop", id="loop"),
    pytest.param("workers", id="workers", marks=NEEDS_NATIVE),
]
# The fixture `kind` makes the servers of a test use it (serving_with()).
each_kind = pytest.mark.parametrize("kind", KINDS, indirect=True)
PLACES: Final = [  # kind of listener, event loop
    pytest.param("loop", "asyncio", id="loop-asyncio"),
    pytest.param("loop", "uvloop", id="loop-uvloop"),
    pytest.param("workers", "uvloop", id="workers", marks=NEEDS_NATIVE),
]


def twin_of(kind: str) -> ModuleType:
    """The twin of the fast path that a kind of listener uses."""
    return importlib.import_module(PYTHON if kind == "loop" else NATIVE)


def listen_udp(
    kind: str,
    sockets: Sequence[socket.socket],
    processor: QueryProcessor,
    spawn: eager.Spawn,
    clock: Callable[[], float],
) -> UdpListener:
    """Make a listener of one of the KINDS, not started; the one on the loop uses only the first socket."""
    turns = Turns(clock, lambda call: asyncio.get_running_loop().call_soon(call))
    shared = Admission(spawn, clock, Places(1), turns, Counter(""))
    if kind == "loop":
        twin = twin_of(kind)
        with patch.object(udp, "Batch", twin.Batch), patch.object(udp, "MissQueue", twin.MissQueue):
            return UdpServer(sockets[0], processor, shared)
    from hsdns.server.transport.udp import UdpWorkers  # noqa: PLC0415 - it needs the compiled module

    return UdpWorkers(sockets, processor, shared)


@contextmanager
def serving_with(kind: str) -> Iterator[None]:
    """Make servers that start in this context use one of the KINDS, and its twin."""
    twin = twin_of(kind)
    implementation = "python" if kind == "loop" else "rust"
    with ExitStack() as patches:
        for where, name in (
            (lifecycle, "Versions"), (writer, "AnswerTable"), (watch, "ClusterNames"), (udp, "Batch"),
            (udp, "MissQueue"),
        ):  # fmt: skip
            patches.enter_context(patch.object(where, name, getattr(twin, name)))
        for where in (listeners, answer_tables):
            patches.enter_context(patch.object(where, "IMPLEMENTATION", implementation))
        yield
