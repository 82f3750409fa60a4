"""The compiled twin of the fast path (native/, Rust): what `_python` has, and workers of its own.

Path: step 2.  Built by `pip install .` where cargo is there; hsdns/fastpath/__init__.py picks the twin.
Rule 1: names, arguments and results are those of `_python`; only Worker, MissQueue and WorkerStatistics are more.
Rule 2: everything here may be called from any thread.
Rule 3: a file descriptor stays its owner's, and must be open for as long as a Batch or Worker uses it.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple, final

__all__ = [
    "AnswerTable",
    "AnswerTableStatistics",
    "Batch",
    "BatchStatistics",
    "ClusterNames",
    "LogRecord",
    "Miss",
    "MissQueue",
    "Versions",
    "Worker",
    "WorkerStatistics",
]

class Miss(NamedTuple):
    """A query that was not answered: sockaddr and control data are as the kernel gave them."""

    query: bytes
    address: bytes
    control: bytes

class LogRecord(NamedTuple):
    """A hit of a logging block: the query as received, the sockaddr as the kernel gives it.

    `flags` are the second 16 bits of the header of the reply as sent, `size` its octets without compression and OPT,
    `answers` the records of its answer section before any were cut, `seconds` what its batch, over TCP it alone,
    counts as duration.
    """

    query: bytes
    address: bytes
    flags: int
    size: int
    answers: int
    seconds: float
    is_tcp: bool

class AnswerTableStatistics(NamedTuple):
    """What a table holds and what it has done so far.

    `misses` are plain queries that neither an entry nor a negative zone answered, `not_plain` those not looked up.
    """

    entries: int
    octets: int
    hits: int
    misses: int
    negative_hits: int
    stored: int
    refused: int
    stale: int
    evicted: int
    not_plain: int

class BatchStatistics(NamedTuple):
    """Datagrams of one socket; `send_errors` counts by errno."""

    received: int
    sent: int
    batches: int
    send_errors: dict[int, int]

class WorkerStatistics(NamedTuple):
    """Datagrams of one worker's socket; errors are counted by errno, `panics` are faults of the worker itself."""

    received: int
    sent: int
    batches: int
    send_errors: dict[int, int]
    receive_errors: dict[int, int]
    panics: int

@final
class Versions:
    """65,536 counters that only grow; an index is taken modulo that."""

    SIZE: ClassVar[int]

    def __new__(cls) -> Versions: ...
    def bump(self, index: int) -> None:
        """Make stale what depends on a counter."""

    def read(self, index: int) -> int:
        """Return where a counter stands."""

@final
class ClusterNames:
    """Which namespaces and Services a cluster has, and the serial of its zones.

    Absence means NXDOMAIN only while `open` is set, that is once everything was listed.  Labels are in lower case.
    """

    open: bool
    serial: int

    def __new__(cls) -> ClusterNames: ...
    def add_namespace(self, label: bytes) -> None:
        """Note a namespace."""

    def remove_namespace(self, label: bytes) -> None:
        """Forget a namespace; its Services stay until they are removed themselves."""

    def add_service(self, namespace: bytes, name: bytes) -> None:
        """Note a Service."""

    def remove_service(self, namespace: bytes, name: bytes) -> None:
        """Forget a Service."""

    def has_namespace(self, label: bytes) -> bool:
        """Tell whether there is such a namespace."""

    def has_service(self, namespace: bytes, name: bytes) -> bool:
        """Tell whether there is such a Service."""

    def __len__(self) -> int:
        """How many Services there are."""

@final
class AnswerTable:
    """The answers of one listener; `capacity` in octets."""

    def __new__(cls, versions: Versions, capacity: int) -> AnswerTable: ...
    def store(
        self,
        query: bytes,
        reply: bytes,
        pairs: Sequence[tuple[int, int]],
        group: int,
        *,
        size: int,
        rotate: bool,
        names: ClusterNames | None,
        mark_ttl: int,
        log: bool = False,
        max_payload: int = 65535,
    ) -> bool:
        """Keep the reply to a query; False where it may not be kept.

        `pairs` are the counters that were read before the reply was computed.  `size` is its length without
        compression and without OPT.  `rotate`: its addresses take turns.  `names` has the serial of its SOA records.
        `mark_ttl`: for so many seconds after a mark (set now, and anew by a hit after that) a hit counts as one of
        `cache`; 0: each hit is a miss of `cache`; -1: `cache` does not count it.  `log`: its hits go to take_log().
        `max_payload`: larger payload sizes of queries are lowered to it, in what a reply says and, over UDP, in how
        long it may be.  It is 512 to 65,507, or 65,535 where none is lowered; raise ValueError for others.
        """

    def add_negative_zone(
        self,
        zone: bytes,
        names: ClusterNames,
        holes: Sequence[bytes],
        groups: Mapping[int, int],
        mark_ttl: int,
        log: bool = False,
        max_payload: int = 65535,
    ) -> int:
        """Answer the names below a zone that do not exist, once taught; return the region's number.

        `zone` and `holes` are lower-case wire names; `groups` maps each type that is answered to its group.
        `mark_ttl` is 0 or -1, as in store(); raise ValueError for others.  `log`, `max_payload` as in store().
        """

    def set_template(self, region: int, query: bytes, reply: bytes, size: int) -> bool:
        """Take the NXDOMAIN reply of one real run as a region's template; False where it does not fit.

        Raise IndexError where there is no such region.
        """

    def lookup(self, query: bytes, *, client: bytes, limit: int, now: float) -> bytes | None:
        """Answer a query that came over TCP, in at most `limit` octets; `now` in monotonic seconds.

        `client` is the client's sockaddr.
        """

    def clear(self) -> None:
        """Drop every entry; regions and their templates stay."""

    def take_counts(self) -> list[tuple[int, bool, list[int]]]:
        """What was counted since the last call: (group, whether over TCP, 55 cells)."""

    def take_log(self, most: int) -> list[LogRecord]:
        """Take the oldest hits that are to be logged; 65,536 of them and 16 MiB of queries are kept."""

    @property
    def log_drops(self) -> int:
        """How many more there were."""

    def statistics(self) -> AnswerTableStatistics:
        """What is there and what was done."""

@final
class Batch:
    """One bound UDP socket, served by the thread that calls.

    `wildcard`: the socket is bound to all addresses and receives IP_PKTINFO or IPV6_PKTINFO.
    """

    def __new__(cls, fd: int, wildcard: bool) -> Batch: ...
    def serve(self, table: AnswerTable | None) -> list[Miss]:
        """Receive up to 64 datagrams without waiting, answer the known ones, return the others.

        Raise OSError where the socket is none any more, RuntimeError while another thread is in here.
        """

    def send(self, replies: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Send replies to misses: (reply, address, control) each, the last two as they came with the query."""

    def statistics(self) -> BatchStatistics:
        """What was received and sent."""

@final
class MissQueue:
    """Queries that no worker could answer, bounded in number and in octets (512 for each)."""

    def __new__(cls, capacity: int = 16384) -> MissQueue: ...
    def fileno(self) -> int:
        """Return a descriptor that is readable while something waits."""

    def take(self, most: int) -> list[tuple[int, bytes, bytes, bytes]]:
        """Return the oldest: (index of the worker, query, address, control) each."""

    @property
    def dropped(self) -> int:
        """How many did not fit."""

@final
class Worker:
    """One bound UDP socket, served by a thread that calls run()."""

    def __new__(cls, fd: int, wildcard: bool, queue: MissQueue, index: int) -> Worker: ...
    def exchange(self, table: AnswerTable | None) -> None:
        """Ask another table from the next batch on; without one everything is a miss."""

    def run(self) -> None:
        """Serve until stop() is called, without the GIL; raise OSError where the socket is none any more."""

    def stop(self) -> None:
        """Let run() return within 0.2 s, now and whenever it is called."""

    def send(self, replies: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Send replies to misses, as in Batch."""

    def statistics(self) -> WorkerStatistics:
        """What was received and sent."""
