"""The answer table says what the chain says, octet for octet, but for the order in which addresses take turns.

Each question is put to the table as it comes over UDP and over TCP, and to the same chain without a table, in
every state of a cluster's history, for each combination of plugins around `kubernetes`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from types import ModuleType
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hsdns.cluster.objects import Event, Synced
from hsdns.wire.decode import HEADER_LEN
from hsdns.wire.iana import RRType
from hsdns.wire.message import AA, AD, CD, QR, RA, RD, TC
from hsdns.wire.name import Name
from tests import strategies
from tests.support.effort import tries
from tests.support.servers.memory_server import MemoryServer
from tests.support.servers.table_over_udp import TableOverUdp
from tests.support.tables import section, sections

pytestmark = pytest.mark.sockets

ZONES = ("cluster.local.", "in-addr.arpa.", "ip6.arpa.")


@pytest.fixture
def datagrams(twin: ModuleType) -> Iterator[TableOverUdp]:
    """The door for UDP of the twin."""
    with TableOverUdp(twin) as found:
        yield found


# --- what the table stands in front of ---

ZONE_FILE = Path(__file__).parent / "scenarios" / "transfer" / "db.example.org"
FILE = Path(__file__).with_name("same_answers.txt")


def blocks(kind: str) -> dict[str, str]:
    """Lines of Corefiles by name; "" has none if the file says nothing else."""
    found = {"": ""}
    for each in sections(FILE):
        of, _, name = each.partition(" ")
        if of == kind:
            text = section(FILE, each).replace("{ZONE}", str(ZONE_FILE))
            found["" if name == "-" else name] = f"{text}\n"
    return found


SIZES, FRONTS, HOSTS, CACHES, KUBERNETES, SECOND_BLOCKS = map(
    blocks, ("SIZES", "FRONTS", "HOSTS", "CACHES", "KUBERNETES", "SECOND_BLOCKS")
)


class Surroundings(NamedTuple):
    """One combination, by the names above."""

    size: str
    front: str
    hosts: str
    cache: str
    kubernetes: str
    loadbalance: bool
    second_block: str

    @property
    def corefile(self) -> str:
        """The Corefile of it."""
        lines = "prometheus\n" + ("loadbalance\n" if self.loadbalance else "")
        lines += SIZES[self.size] + FRONTS[self.front] + CACHES[self.cache] + HOSTS[self.hosts]
        lines += f"kubernetes {' '.join(ZONES)} {{\n{KUBERNETES[self.kubernetes]}}}\n"
        return f".:53 {{\n{lines}}}\n{SECOND_BLOCKS[self.second_block]}"


surroundings = st.builds(
    Surroundings,
    st.sampled_from(["", *SIZES]),
    st.sampled_from(["", "", *FRONTS]),
    st.sampled_from([*HOSTS]),
    st.sampled_from([*CACHES]),
    st.sampled_from([*KUBERNETES]),
    st.booleans(),
    st.sampled_from(["", "", "", *SECOND_BLOCKS]),
)


# --- what is asked ---


def question_wire(qname: Name, qtype: int, chance: Random) -> bytes:
    """A query in one of the ways in which clients ask; a few are unusual or broken."""
    usual = chance.random() < 0.8
    flags = chance.choice([RD, RD, RD | AD, RD | CD, 0, AD | CD])
    if not usual:
        flags |= chance.choice([0, TC, AA, RA, 0x0040, 0x2000, QR])
    mixed = chance.choice([0, 0, 0.2])  # what is asked in lower case is kept prepared
    name = bytes(
        octet ^ 0x20 if 65 <= octet & 0xDF <= 90 and chance.random() < mixed else octet
        for octet in qname.wire
    )
    tail = b""
    counts = bytes((0, 1, 0, 0, 0, 0, 0))
    has_opt = chance.random() < 0.6
    if has_opt:
        size = chance.choice([0, 300, 512, 513, 600, 1232, 4096, 65535])
        do = chance.choice([0, 0x8000]) | (0 if usual else chance.choice([0, 1]))
        version = 0 if usual else chance.choice([0, 1])
        options = b"".join(
            code.to_bytes(2, "big") + length.to_bytes(2, "big") + bytes(range(length))
            for code, length in (
                (chance.choice([3, 8, 9, 10, 11, 12, 65001]), chance.choice([0, 4, 8, 40]))
                for _ in range(chance.choice([0, 0, 1, 2, 3]))
            )
        )
        if chance.random() < 0.2:  # a client's cookie alone, which goes into what is kept prepared
            options = b"\0\x0a\0\x08" + chance.randbytes(8)
        tail = b"\0\0\x29" + size.to_bytes(2, "big") + bytes((0, version)) + do.to_bytes(2, "big")
        tail += len(options).to_bytes(2, "big") + options
    tail += b"" if usual else chance.choice([b"", b"", b"\0", b"\0\0\1"])
    qclass = 1 if usual else chance.choice([1, 1, 3, 255])
    header = chance.randbytes(2) + flags.to_bytes(2, "big") + counts + bytes((has_opt,))
    return header + name + qtype.to_bytes(2, "big") + qclass.to_bytes(2, "big") + tail


# --- how replies are compared ---


def split(wire: bytes) -> tuple[bytes, list[bytes], bytes]:
    """Header and question, the records of the answer, and the rest."""
    at = HEADER_LEN
    while wire[at]:
        at += 1 + wire[at]
    start = at = at + 5
    records = []
    for _ in range(int.from_bytes(wire[6:8], "big")):
        first = at
        while wire[at] and wire[at] < 0xC0:
            at += 1 + wire[at]
        at += 2 if wire[at] else 1
        at += 10 + int.from_bytes(wire[at + 8 : at + 10], "big")
        records.append(wire[first:at])
    return wire[:start], records, wire[at:]


def assert_same(
    fast: bytes, slow: bytes | None, ask_whole: Callable[[], bytes | None], *, rotates: bool
) -> None:
    """Fail unless two replies are the same; `ask_whole` makes the second one without a limit, which few need."""
    assert slow is not None
    if fast == slow:
        return
    assert rotates, (fast.hex(), slow.hex())
    if len(fast) != len(slow) or fast[:HEADER_LEN] != slow[:HEADER_LEN]:
        raise AssertionError((fast.hex(), slow.hex()))
    # loadbalance shuffles other sections too, and the table leaves them as they were learned.
    whole = ask_whole()
    assert whole is not None
    (head, found, rest), (other_head, _, other_rest) = split(fast), split(slow)
    assert head == other_head
    assert set(found) <= set(split(whole)[1])
    assert len(set(found)) == len(found)
    assert len(rest) == len(other_rest)
    if not int.from_bytes(fast[8:10], "big") and not int.from_bytes(fast[10:12], "big"):
        assert rest == other_rest


class Seen:
    """How often which way was taken: a test in which nothing is a hit proves nothing."""

    def __init__(self) -> None:
        self.hits = self.questions = 0


def compare(
    memory_server: MemoryServer, datagrams: TableOverUdp, wire: bytes, seen: Seen, *, rotates: bool
) -> None:
    for protocol in ("udp", "tcp"):
        for is_second in (False, True):
            seen.questions += 1
            if protocol == "udp":
                fast = datagrams.ask(memory_server.writer.table, wire)
            else:
                fast = memory_server.from_table(wire, protocol)
            if fast is not None:
                seen.hits += 1
                slow = memory_server.from_chain(wire, protocol, stores=False)
                ask_whole = partial(memory_server.from_chain, wire, "tcp", stores=False)
                assert_same(fast, slow, ask_whole, rotates=rotates)
            if not is_second:
                memory_server.from_chain(wire, protocol)


def test_table_and_chain_say_the_same(twin: ModuleType, datagrams: TableOverUdp) -> None:
    seen = Seen()

    @settings(
        max_examples=tries(40),
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
    )
    @given(seed=strategies.seeds, around=surroundings, history=strategies.histories())
    def check(seed: int, around: Surroundings, history: list[Event]) -> None:
        chance = Random(seed)
        memory_server = MemoryServer(around.corefile, twin, synced=False)
        questions = strategies.questions(seed, strategies.remaining(history), ZONES, 12)
        for text in ("nope", "x.sub", "hosted", "a.nope.svc", "y.db.default.svc", "localhost.sub"):
            questions.append((Name.from_text(f"{text}.{ZONES[0]}"), chance.choice([1, 28, 16, 12])))
        questions.append((Name.from_text(ZONES[0]), RRType.SOA))
        questions.append((Name.from_text("web.apps.example.org."), chance.choice([1, 28, 16])))
        wires = [question_wire(*question, chance) for question in questions]
        step = max(1, len(history) // 4)
        for at in range(0, len(history) + 1, step):
            memory_server.apply(*history[at : at + step])
            if at + step > len(history):
                memory_server.apply(Synced())
            memory_server.runtime.now += 1.0  # the serial moves
            for wire in wires:
                compare(memory_server, datagrams, wire, seen, rotates=around.loadbalance)

    check()
    assert seen.hits * 10 > seen.questions, "most questions were not put to the table in vain"
