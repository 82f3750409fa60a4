"""The compiled twin of the fast path (native/, Rust): the same as `_python`, and worker threads.

Path: step 2.  `pip install .` builds it if cargo is available; hsdns/fastpath/__init__.py chooses the twin.
Rule 1: names, parameters and results are those of `_python`, whose docstrings describe them (tests/fastpath compares
        the signatures); Worker, WorkerStatistics, LoadCounts, LoadSender, MissQueue.fileno() and what reads protobuf
        (from ServiceReading on) are only here.
Rule 2: everything may be called from any thread, but Batch.serve() raises RuntimeError while another thread is in it.
Rule 3: the owner of a file descriptor keeps it open for as long as a Batch or Worker uses it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, final

from hsdns.fastpath.entry import Terms

__all__ = [
    "AnswerTable",
    "AnswerTableStatistics",
    "Batch",
    "BatchStatistics",
    "ClusterNames",
    "LoadCounts",
    "LoadSender",
    "LogRecord",
    "Miss",
    "MissQueue",
    "Peeked",
    "Tap",
    "TapRecord",
    "Versions",
    "Worker",
    "WorkerStatistics",
]

class Miss(NamedTuple):
    query: bytes
    address: bytes
    control: bytes

class LogRecord(NamedTuple):
    query: bytes
    address: bytes
    flags: int
    size: int
    answers: int
    seconds: float
    is_tcp: bool

class TapRecord(NamedTuple):
    query: bytes
    address: bytes
    source: int
    flags: int | None
    size: int
    seconds: float
    at: float
    is_tcp: bool
    is_hit: bool

class Peeked(NamedTuple):
    is_denial: bool
    stored: float | None
    expires: float | None

class AnswerTableStatistics(NamedTuple):
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
    forwarded: Sequence[tuple[int, int]]

class BatchStatistics(NamedTuple):
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
    SIZE: ClassVar[int]

    def __new__(cls) -> Versions: ...
    def bump(self, index: int) -> None: ...
    def hold(self) -> None: ...
    def held(self) -> list[int]: ...
    def release(self, *, more: bool = False) -> None: ...
    def settle(self, seconds: float) -> None: ...
    def read(self, index: int) -> int: ...
    def renew_lease(self, end: float) -> None: ...

@final
class ClusterNames:
    open: bool
    serial: int

    def __new__(cls) -> ClusterNames: ...
    def add_namespace(self, label: bytes) -> None: ...
    def remove_namespace(self, label: bytes) -> None: ...
    def add_service(self, namespace: bytes, name: bytes) -> None: ...
    def remove_service(self, namespace: bytes, name: bytes) -> None: ...
    def add_labels(self, namespace: bytes, name: bytes, labels: Sequence[bytes]) -> None: ...
    def remove_labels(self, namespace: bytes, name: bytes, labels: Sequence[bytes]) -> None: ...
    def has_namespace(self, label: bytes) -> bool: ...
    def label_count(self, namespace: bytes, name: bytes) -> int: ...
    def __len__(self) -> int: ...

@final
class Tap:
    mode: int

    def __new__(cls) -> Tap: ...
    def push(
        self,
        query: bytes,
        address: bytes,
        *,
        source: int,
        flags: int | None,
        size: int,
        seconds: float,
        at: float,
        is_tcp: bool,
    ) -> None: ...
    def take(self) -> tuple[int, list[TapRecord]]: ...

@final
class AnswerTable:
    def __new__(
        cls, versions: Versions, capacity: int, tap: Tap | None = None, source: int = 0
    ) -> AnswerTable: ...
    def store(
        self,
        query: bytes,
        reply: bytes,
        dependencies: Sequence[tuple[int, int]],
        terms: Terms,
        *,
        size: int,
        timed: tuple[float, int, float] | None = None,
        errors: bytes | None = None,
        renewed: bool = False,
    ) -> bool: ...
    def is_listed(self, query: bytes) -> bool: ...
    def uses(self, query: bytes) -> int | None: ...
    def add_negative_zone(
        self,
        zone: bytes,
        names: ClusterNames,
        exclusions: Sequence[bytes],
        groups: Mapping[int, int],
        mark_ttl: int,
        log: bool = False,
        max_payload: int = 65535,
        no_edns: bool = False,
    ) -> int: ...
    def set_template(self, negative_zone: int, query: bytes, reply: bytes, size: int) -> bool: ...
    def set_form(
        self,
        negative_zone: int,
        query: bytes,
        reply: bytes,
        size: int,
        group: int,
        mark_ttl: int,
    ) -> bool: ...
    def lookup(
        self, query: bytes, *, client: bytes, limit: int | None, now: float
    ) -> bytes | None: ...
    def answer_framed(
        self, data: bytes, at: int, client: bytes, most: int, limit: int, now: float
    ) -> tuple[bytes, int, int, bool]: ...
    def peek(self, query: bytes, *, now: float) -> Peeked | None: ...
    def set_capacity(self, octets: int) -> None: ...
    def clear(self) -> None: ...
    def take_counts(self) -> list[tuple[int, bool, list[int]]]: ...
    def take_log(self, most: int) -> list[LogRecord]: ...
    def discard_log(self) -> int: ...
    @property
    def log_drops(self) -> int: ...
    def statistics(self) -> AnswerTableStatistics: ...

@final
class Batch:
    def __new__(cls, fd: int, wildcard: bool) -> Batch: ...
    def serve(self, table: AnswerTable | None) -> list[Miss]: ...
    def send(self, replies: Sequence[tuple[bytes, bytes, bytes]]) -> None: ...
    def statistics(self) -> BatchStatistics: ...

@final
class MissQueue:
    def __new__(cls, capacity: int = 16384) -> MissQueue: ...
    def __len__(self) -> int: ...
    def fileno(self) -> int:
        """Return a file descriptor that is readable while the queue is not empty."""

    def set_capacity(self, capacity: int) -> None: ...
    def offer(self, worker: int, misses: Sequence[tuple[bytes, bytes, bytes]]) -> None: ...
    def take(self, most: int) -> list[tuple[int, bytes, bytes, bytes]]: ...
    def give_turn_back(self) -> None: ...
    @property
    def dropped(self) -> int: ...

@final
class Worker:
    """One bound UDP socket, served by a thread that calls run()."""

    def __new__(
        cls, fd: int, wildcard: bool, queue: MissQueue, index: int, first: MissQueue | None = None
    ) -> Worker:
        """Misses wait in `queue`; those for which AnswerTable.is_listed() is true in `first`, if there is one."""

    def exchange(self, table: AnswerTable | None) -> None:
        """Use another table from the next batch on; without one every query is a miss."""

    def run(self) -> None:
        """Serve until stop() is called, without the GIL; raise OSError if the socket is closed."""

    def stop(self) -> None:
        """Make run() return within 0.2 s, now and whenever it is called again."""

    def send(self, replies: Sequence[tuple[bytes, bytes, bytes]]) -> None:
        """Send replies to misses, as in Batch."""

    def close(self) -> None:
        """Send no more: the socket is about to be closed."""

    @property
    def pending(self) -> int:
        """The number of its queries that forwarders have."""

    def statistics(self) -> WorkerStatistics:
        """What was received and sent so far."""

@final
class Forwarder:
    """The queries to the upstreams of one `forward`, which workers send without Python; times in seconds."""

    def __new__(
        cls,
        upstreams: Sequence[tuple[str, int]],
        policy: str,
        *,
        source: str | None,
        expire: float,
        max_age: float,
        max_ports: int,
        timeout: float,
        most: int,
    ) -> Forwarder:
        """A query without a reply after `timeout` is handed to the chain, and so are those beyond `most`, if not 0."""

    def set_down(self, upstream: int, is_down: bool) -> None:
        """Say whether an upstream is down, so that its queries go to the chain."""

    def set_paused(self, is_paused: bool) -> None:
        """Take no queries meanwhile."""

    def set_taken(self, count: int) -> None:
        """Say how many queries of the chain wait for the same upstreams; they count for `most`."""

    @property
    def waiting(self) -> int:
        """The number of clients that wait."""

    def is_suspect(self, question: bytes) -> bool:
        """Whether a question, in lower case, is to be asked over TCP."""

    def suspect(self, question: bytes) -> None:
        """Leave a question to the chain for a minute, because of forged replies."""

    def take_counts(self) -> list[tuple[int, int, int, list[int], list[int]]]:
        """Take the counts of each upstream since the last call.

        Queries over open sockets, over new ones, forged datagrams; durations with NOERROR and with NXDOMAIN by class,
        then their sum in nanoseconds.
        """

    def serve(
        self,
        table: Any,  # compiled
        zone: bytes,
        exclusions: Sequence[bytes],
        groups: Mapping[int, Sequence[int]],
        *,
        success: tuple[int, int],
        denial: tuple[int, int],
        rotates: bool,
    ) -> None:
        """Take the misses of a table for the names of a zone but of those below `exclusions`, all in lower case.

        `groups`: for each type the groups of answers, of NODATA and of NXDOMAIN.  The bounds are those of the TTLs of
        each half of `cache`: the least and the most.
        """

    def stop(self) -> None:
        """Take no more queries; hand those that wait to the chain."""

@final
class LoadCounts:
    """Counts outcomes of a load test; arguments as of LoadSender, times in nanoseconds, those of outcome.Outcome."""

    def __new__(cls, kinds: Sequence[int], begin: int) -> LoadCounts: ...
    def add(self, question: int, flags: int, planned: int, sent: int, received: int) -> None:
        """Count an outcome; raise ValueError for a question that has no kind."""

    def take(self) -> bytes:
        """What was counted since the last time, for results.add_counts(); empty for nothing."""

class LoadWorld(Protocol):
    """The clock and the sockets of LoadSender.run_in()."""

    def clock(self) -> int: ...
    def wait(self, nanoseconds: int) -> list[int] | None: ...
    def send(self, socket: int, datagrams: list[bytes]) -> Sequence[int]: ...
    def receive(self, socket: int) -> Sequence[tuple[bytes, int]]: ...
    def dropped(self) -> int: ...
    def emit(self, messages: bytes) -> None: ...

@final
class LoadSender:
    """Sends the queries of a load test: hsdns/load/send/loop.py over udp.py, compiled; times in nanoseconds.

    `queries` have no IDs.  With `kinds`, one for each query, outcomes are counted (results.py), and told only if
    `replies` are wanted.  There are as many sockets as `first_ids`, and `window` queries may wait at once (0: as many
    as there are IDs).  With `most`, no more than that wait, and the schedule waits for room; 0: it waits for nothing.
    A query is late if it is sent more than `late_after` after it was due.
    """

    def __new__(
        cls,
        queries: Sequence[bytes],
        *,
        kinds: Sequence[int],
        first_ids: Sequence[int],
        timeout: int,
        replies: bool,
        window: int = 0,
        most: int = 0,
        late_after: int = ...,
    ) -> LoadSender: ...
    def feed(self, times: bytes, questions: bytes) -> bool:
        """Add a part of the schedule, after waiting for room; False if no more is wanted.

        Packed: array("q") of when each query is due after the begin, array("I") of the numbers of their questions.
        """

    def end_feed(self) -> None:
        """The schedule is whole."""

    def run(self, fds: Sequence[int], stop: int, pipe: int, begin: int) -> None:
        """Send everything from connected sockets, without the GIL, until `stop` is readable; write messages to `pipe`.

        Raise OSError if the pipe cannot be written.
        """

    def run_in(self, world: LoadWorld, begin: int) -> None:
        """Do the same in a world of Python; raise what that raises."""

class ServiceReading:
    """A Service, as hsdns/cluster/read_object.py takes it."""

    @property
    def key(self) -> tuple[bytes, bytes] | None:
        """Namespace and name as labels."""

    def json(self) -> bytes:
        """The fields that are read of it, as JSON."""

    def pack(
        self,
    ) -> (
        tuple[bool, tuple[bytes, ...], tuple[tuple[str | None, str | None, int | None], ...], bool]
        | None
    ):
        """Whether it is headless, ClusterIPs, ports, whether it has a selector; None for an unusual Service."""

class SliceReading:
    """An EndpointSlice, as hsdns/cluster/read_object.py takes it."""

    @property
    def meta(self) -> tuple[str | None, str | None, str | None, str | None]:
        """The labels that name its Service, its ServiceImport and the cluster of that; the time of its change."""

    @property
    def owner(self) -> tuple[bytes, bytes] | None:
        """Namespace and name of the Service that it names, as labels."""

    @property
    def changed_at(self) -> str | None:
        """When it was changed, as annotated."""

    def json(self) -> bytes:
        """The fields that are read of it, as JSON."""

    def pack(
        self, pod_names: bool, zonal: bool
    ) -> (
        tuple[
            int,
            bytes,
            bytes | None,
            tuple[tuple[str | None, str | None, int | None], ...],
            tuple[bytes, ...] | None,
            int,
        ]
        | None
    ):
        """Width, addresses, labels, ports, topology zones if wanted, the number of addresses that are not ready.

        None for an unusual slice.
        """

# Type, namespace and name, resourceVersion, and by the type: whether a bookmark ends the initial state, the JSON of a
# Status or object, a Service, a slice, or (a string) why the object is malformed.
WatchTuple = tuple[str, tuple[str, str], str, bool | bytes | str | ServiceReading | SliceReading]

class WatchFrames:
    """The events in the octets of a watch in protobuf; a frame of more than `limit` octets is skipped."""

    def __new__(cls, kind: str, limit: int) -> WatchFrames: ...
    def feed(self, data: bytes) -> tuple[list[WatchTuple], str]:
        """Take octets; return the events that they complete, and why what follows is no event ("" if it may be)."""

    def take_skipped(self) -> int:
        """How many frames were skipped since the last call."""

class HeaderDecoder:
    """Decodes the header blocks of one direction of an HTTP/2 connection; `limit` is that of their fields, in octets.

    `changes`: how often a block has changed the table; while none does, equal blocks have equal fields.
    """

    changes: int
    def __new__(cls, limit: int) -> HeaderDecoder: ...
    def decode(self, block: bytes) -> list[tuple[bytes, bytes]]:
        """Decode a whole block; raise OverflowError if its fields are too long, else ValueError."""

def read_page(body: bytes, kind: str) -> tuple[str, str, list[WatchTuple]]:
    """The resourceVersion of a page, the continue token of the next one, its objects as additions; raise ValueError."""

def read_status(body: bytes) -> bytes:
    """The JSON of a Status; raise ValueError."""

def read_time(text: str) -> float | None:
    """Seconds since the epoch from RFC 3339 in UTC; None for what is left to Python, such as times centuries away."""

def slice_change(
    old: Iterable[tuple[Any, ...]], new: Iterable[tuple[Any, ...]]
) -> tuple[list[bytes], list[bytes], list[bytes], list[bytes]]:
    """Labels that come and go if parts (PackedSlice) replace others, then addresses that go and come."""

def shorten_slice() -> bool:
    """Let this thread run soon after it wakes, beside one that computes; return whether the kernel accepted that."""

def move_addresses(
    index: dict[bytes, Any],
    gone: Iterable[bytes],
    come: Iterable[bytes],
    owner: object,
    counters: Versions,
) -> None:
    """Remove an owner of addresses from the dict of a ReverseIndex and add it to others, then bump their counters."""

class SliceStore:
    """Changes of EndpointSlices in the dicts of hsdns/cluster/services.py: values, owners of slices, reverse index.

    `make_value` is ServiceValue, `make_part` makes a PackedSlice of a tuple, `make_ports` packs ports.
    """

    def __new__(
        cls,
        values: dict[Any, Any],
        owners: dict[Any, Any],
        index: dict[bytes, Any],
        names: ClusterNames,
        versions: Versions,
        make_value: Callable[..., Any],
        make_part: Callable[[tuple[Any, ...]], Any],
        make_ports: Callable[[Any], Any],
        pod_names: bool,
        zonal: bool,
        counts_not_ready: bool,
    ) -> SliceStore: ...
    def apply(
        self, key: tuple[str, str], version: str, reading: SliceReading
    ) -> (
        tuple[
            tuple[bytes, bytes],
            tuple[bytes, bytes] | None,
            tuple[Any, ...],
            tuple[Any, ...] | None,
            list[bytes],
        ]
        | None
    ):
        """Apply a slice that was added or changed, by namespace and name; None for one that is left to Python.

        Return its Service, that of its state before, its parts before and now; no parts now if it is the same; and the
        labels below the Service that are to be removed from `names`.
        """

    def apply_first(
        self, events: Iterable[object], cluster_ips: dict[bytes, Any]
    ) -> tuple[int, list[tuple[Any, str]]]:
        """Apply what events begin with, of a cluster that nothing reads yet: slices and Services that were not known.

        Return how many, up to one that is left to Python; and the value and the time of each change that was annotated.
        """

class ServiceReplies:
    """Replies about Services, endpoints and addresses, made from the dicts of a store for names in `zones`.

    `primary_zone` is the zone of the names in PTR records.  Names are in wire form and lower case.
    """

    def __new__(
        cls,
        values: dict[Any, Any],
        namespaces: dict[bytes, Any],
        cluster_ips: dict[bytes, Any],
        endpoint_ips: dict[bytes, Any],
        versions: Versions,
        zones: list[bytes],
        primary_zone: bytes,
    ) -> ServiceReplies: ...
    def lacks(self, query: bytes) -> bool:
        """Whether only the form of the reply is not known."""

    def add_form(
        self,
        query: bytes,
        reply: bytes,
        ttl: int,
        soa: bytes,
        note: object,
        terms: Terms,
    ) -> bool:
        """Add the form of a reply; False if it would make another one.  After 8 of these, `lacks` is False.

        `ttl` is that of all records, `soa` the RDATA of the SOA record of a reply without an answer; the keywords are
        those of AnswerTable.store().
        """

    def store(self, query: bytes, table: AnswerTable) -> tuple[bytes, tuple[int, ...], Any] | None:
        """Make the reply to a query and store it, as with `renewed`; None if the chain has to, or nothing is stored.

        Return the key of the query, the counters that the reply depends on, and the note of its form.
        """
