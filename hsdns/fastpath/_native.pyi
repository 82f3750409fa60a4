"""The compiled twin of the fast path (native/, Rust): the same as `_python`, and worker threads.

Path: step 2.  `pip install .` builds it if cargo is available; hsdns/fastpath/__init__.py chooses the twin.
Rule 1: names, parameters and results are those of `_python`, beside Worker, MissQueue and WorkerStatistics.
Rule 2: everything may be called from any thread.
Rule 3: the owner of a file descriptor keeps it open for as long as a Batch or Worker uses it.
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
    """A query that is left to the chain, with socket address and control data as the kernel gave them."""

    query: bytes
    address: bytes
    control: bytes

class LogRecord(NamedTuple):
    """A hit of a logging block: the query as received, the client's socket address as the kernel gave it.

    `flags` are the second 16 bits of the reply's header as sent.  `size` is the reply's length without compression and
    OPT, `answers` its records in the answer section, both before any were cut.  `seconds` is the duration of its batch,
    over TCP of its look-up.
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
        """Return the value of a counter."""

@final
class ClusterNames:
    """The namespaces and Services of a cluster, and the SOA serial of its zones.

    Absence means NXDOMAIN only while `open` is set, that is once everything was listed.  Labels are in lower case.
    """

    open: bool
    serial: int

    def __new__(cls) -> ClusterNames: ...
    def add_namespace(self, label: bytes) -> None:
        """Add a namespace."""

    def remove_namespace(self, label: bytes) -> None:
        """Remove a namespace; its Services stay until they are removed themselves."""

    def add_service(self, namespace: bytes, name: bytes) -> None:
        """Add a Service."""

    def remove_service(self, namespace: bytes, name: bytes) -> None:
        """Remove a Service."""

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
        dependencies: Sequence[tuple[int, int]],
        group: int,
        *,
        size: int,
        rotate: bool,
        names: ClusterNames | None,
        mark_ttl: int,
        log: bool = False,
        max_payload: int = 65535,
    ) -> bool:
        """Store the reply to a query; False if it cannot be stored.

        `dependencies` are the counters that were read before the reply was computed, as (index, value); `group` is the
        number under which take_counts() counts hits.  `size` is the reply's length without compression and without OPT.
        `rotate`: its addresses rotate.  `names` has the serial of its SOA records.  `mark_ttl` says how `cache` counts
        hits: an entry is marked when it is stored, and a hit counts as a hit of `cache` within so many seconds of a
        mark, else as a miss that marks the entry again; 0: each hit is a miss of `cache`; -1: `cache` counts nothing.
        `log`: hits are put into the log ring.  `max_payload`: larger payload sizes of queries are lowered to it, in the
        reply's OPT and as limit of its length over UDP; 512 to 65,507, or 65,535 for no limit.

        Raise OverflowError for numbers that do not fit, ValueError for another `max_payload`.
        """

    def add_negative_zone(
        self,
        zone: bytes,
        names: ClusterNames,
        exclusions: Sequence[bytes],
        groups: Mapping[int, int],
        mark_ttl: int,
        log: bool = False,
        max_payload: int = 65535,
    ) -> int:
        """Answer absent names below a zone, once set_template() was called; return the negative zone's number.

        `zone` and `exclusions` are lower-case wire names; `groups` maps each type that is answered to its group.
        `mark_ttl` is 0 or -1, as in store(); raise ValueError for others.  `log`, `max_payload` as in store().
        """

    def set_template(self, negative_zone: int, query: bytes, reply: bytes, size: int) -> bool:
        """Make a template of an NXDOMAIN reply of the chain to a name in a negative zone; False if it cannot be one.

        Raise IndexError if there is no such negative zone.
        """

    def lookup(self, query: bytes, *, client: bytes, limit: int, now: float) -> bytes | None:
        """Answer a query that came over TCP, in at most `limit` octets; `now` in monotonic seconds.

        `client` is the client's socket address.
        """

    def clear(self) -> None:
        """Drop all entries; negative zones and their templates stay."""

    def take_counts(self) -> list[tuple[int, bool, list[int]]]:
        """What was counted since the last call: (group, whether over TCP, cells); hit_counts.py names the 55 cells."""

    def take_log(self, most: int) -> list[LogRecord]:
        """Take the oldest records out of the log ring, at most so many; it holds 65,536 and 16 MiB of queries."""

    @property
    def log_drops(self) -> int:
        """How many hits were not logged because the log ring was full."""

    def statistics(self) -> AnswerTableStatistics:
        """What the table holds and what it has done so far."""

@final
class Batch:
    """One bound UDP socket, served by the thread that calls.

    `wildcard`: the socket is bound to all addresses and receives IP_PKTINFO or IPV6_PKTINFO.
    """

    def __new__(cls, fd: int, wildcard: bool) -> Batch: ...
    def serve(self, table: AnswerTable | None) -> list[Miss]:
        """Receive up to 64 datagrams without waiting, answer the hits of the table, return the misses.

        Raise OSError if the socket is closed, RuntimeError while another thread is in this call.
        """

    def send(self, replies: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Send replies to misses: (reply, address, control data) each, the last two as received with the query."""

    def statistics(self) -> BatchStatistics:
        """What was received and sent so far."""

@final
class MissQueue:
    """Misses of the workers, bounded in number and in octets (512 for each)."""

    def __new__(cls, capacity: int = 16384) -> MissQueue: ...
    def fileno(self) -> int:
        """Return a file descriptor that is readable while the queue is not empty."""

    def take(self, most: int) -> list[tuple[int, bytes, bytes, bytes]]:
        """Take the oldest: (index of the worker, query, address, control data) each."""

    @property
    def dropped(self) -> int:
        """How many were dropped because the queue was full."""

@final
class Worker:
    """One bound UDP socket, served by a thread that calls run()."""

    def __new__(cls, fd: int, wildcard: bool, queue: MissQueue, index: int) -> Worker: ...
    def exchange(self, table: AnswerTable | None) -> None:
        """Use another table from the next batch on; without one every query is a miss."""

    def run(self) -> None:
        """Serve until stop() is called, without the GIL; raise OSError if the socket is closed."""

    def stop(self) -> None:
        """Make run() return within 0.2 s, now and whenever it is called again."""

    def send(self, replies: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Send replies to misses, as in Batch."""

    def statistics(self) -> WorkerStatistics:
        """What was received and sent so far."""
