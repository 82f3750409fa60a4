"""The parts of the server that the pages of the control API may read.

Path: lifecycle.py makes one for the process; the pages of routes.py get it.
Rule: after each await, a page reads the instance again, because a reload may have replaced it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from hsdns.http_page import HttpRefusal
from hsdns.metrics import Registry
from hsdns.plugins.kubernetes import Kubernetes
from hsdns.server.instance import Instance
from hsdns.server.query_tap import QueryTap
from hsdns.server.runtime import Turn

if TYPE_CHECKING:
    from hsdns.server.faults import StandingFaults

NOT_SERVING = "the server is starting or stopping; try again in a moment"


@dataclass(eq=False)
class Door:
    """The server as its pages see it; `clock` gives monotonic seconds, `wall` seconds since the epoch.

    `queries` has the recent queries, `metrics` the metrics of the process.  `faults` is None if the server was not
    started with support for rules of faults.
    """

    instance: Callable[[], Instance | None]
    clock: Callable[[], float]
    wall: Callable[[], float]
    queries: QueryTap
    metrics: Registry
    faults: StandingFaults | None = None
    # The URL of the web page, "" without one.
    page: Callable[[], str] = lambda: ""
    # Held for a picture of top: each takes milliseconds of the loop.
    painting: asyncio.Lock = field(default_factory=asyncio.Lock)
    # The pictures that have readers, by their selection (queries.py).
    pictures: dict[Any, Any] = field(default_factory=dict)
    past: Any = None  # what is remembered for readers that come later (queries.py)

    def __post_init__(self) -> None:
        """Begin the time of the server."""
        self.began = self.clock()

    def serving(self) -> Instance:
        """The serving instance; raise HttpRefusal if there is none."""
        found = self.instance()
        if found is None:
            raise HttpRefusal(503, NOT_SERVING)
        return found


def kubernetes_blocks(instance: Instance) -> list[Kubernetes]:
    """The kubernetes plugins, in the order of the Corefile."""
    return [each for each in instance.configuration.plugins if isinstance(each, Kubernetes)]


def time_text(seconds: float) -> str:
    """Seconds since the epoch as RFC 3339 text, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def to_line(value: Any) -> bytes:
    """A line of JSON."""
    return msgspec.json.encode(value) + b"\n"


PIECE: Final = 16_384  # octets in one write


async def in_pieces(lines: Iterable[bytes], turn: Turn) -> AsyncGenerator[bytes, None]:
    """Join lines to pieces; after any of them, even an empty one, other tasks may run."""
    written = bytearray()
    for line in lines:
        written += line
        await turn.end_if_long()
        if len(written) >= PIECE:
            yield bytes(written)
            written.clear()
    if written:
        yield bytes(written)
