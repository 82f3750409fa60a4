"""What is stored in the answer table.

Which blocks have their replies stored, and which of these replies.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import dns.message
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsdns.answer_table import recompute
from hsdns.answer_table.negative_zones import NEGATIVE_TYPES
from hsdns.answer_table.policy import BlockPolicy
from hsdns.answer_table.recompute import ASKED, RecomputedNames, key_of
from hsdns.answer_table.writer import CAPACITY, LEAST, STEP
from hsdns.cluster.freshness import ANYTHING
from hsdns.cluster.objects import Deleted, Upserted
from hsdns.plugins.cache import Cache
from hsdns.wire.decode import decode
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode
from hsdns.wire.iana import Rcode, type_to_text
from hsdns.wire.message import RR, TC, Reply
from tests.answer_table.corefiles import (
    CACHED,
    OBJECTS,
    PLAIN,
    STOCK,
    SUB,
    TABLES,
    assert_same,
    block,
    hosts,
    kubernetes,
    lines,
    many_endpoints,
)
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.effort import tries
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, ask
from tests.support.servers.table_over_udp import TableOverUdp
from tests.support.tables import columns, section, values


def test_writer_is_needed_where_any_block_is_cacheable(twin: ModuleType) -> None:
    memory_server = MemoryServer(
        block(KUBERNETES, "cluster.local:53") + block("whoami"), twin, OBJECTS
    )
    assert memory_server.writer.is_needed
    assert memory_server.stores("web.default.svc.cluster.local.")
    assert not memory_server.stores("example.org.")
    assert not MemoryServer(block("whoami"), twin).has_table


def test_addresses_of_pods_are_stored_when_asked_for_again(twin: ModuleType) -> None:
    """Where only some namespaces have them; else the table makes them (test_negative_zones.py)."""
    text = kubernetes("cluster.local", "pods insecure", "namespaces default")
    memory_server = MemoryServer(block(text), twin, OBJECTS)
    wire = ask("1-2-3-4.default.pod.cluster.local.")
    memory_server.from_chain(wire)
    assert memory_server.from_table(wire) is None
    assert memory_server.writer.table.statistics().entries == 0
    memory_server.from_chain(wire)
    assert memory_server.from_table(wire) == memory_server.from_chain(wire, stores=False)


SIZES = (
    block(f"bufsize 600\n{KUBERNETES}")
    + block("bufsize 900\nkubernetes sub.cluster.local", "sub.cluster.local:53")
    + block("bufsize 700\ncache\nkubernetes cached.test", "cached.test:53")
)


@pytest.mark.sockets
@pytest.mark.parametrize(("stored", "left", "most"), values(TABLES, "sizes are lowered as in the chain"))  # fmt: skip
@pytest.mark.parametrize("stored_over", ["udp", "tcp"])
def test_sizes_are_lowered_as_in_the_chain(
    twin: ModuleType, stored: str, left: str, most: int, stored_over: str
) -> None:
    """Each block has its own size, whatever the size and the transport of the query whose reply is stored."""
    memory_server = MemoryServer(SIZES, twin, [*OBJECTS, *many_endpoints(1)])
    sizes = [0, 300, 512, 513, 599, 600, 601, 899, 900, 901, 1232, 4096, 65535]
    forms = [
        Edns(size, options=options)
        for size in sizes
        for options in ((), ((10, b"12345678"),), ((3, bytes(200)), (8, b"away"), (12, bytes(99))))
    ]
    for form in (None, forms[-3]):
        memory_server.from_chain(ask(stored, edns=form), stored_over)
    with TableOverUdp(twin) as datagrams:
        for form in (None, *forms, *forms):  # the second time over UDP what is prepared
            wire = ask(f"{left}{stored}", edns=form)
            fast, slow = (
                datagrams.ask(memory_server.writer.table, wire),
                memory_server.from_chain(wire, stores=False),
            )
            assert fast == slow, form
            assert fast is not None
            assert len(fast) <= max(512, min(most, form.payload_size if form else 512))
            if form is not None and form.options == ():
                assert int.from_bytes(fast[-8:-6], "big") == min(most, form.payload_size)
            over_tcp = memory_server.from_table(wire, "tcp")
            assert over_tcp is not None
            assert over_tcp == memory_server.from_chain(wire, "tcp", stores=False)
            assert not over_tcp[2] & TC >> 8
    statistics = memory_server.writer.table.statistics()
    assert statistics.misses == 0
    assert bool(statistics.negative_hits) is bool(left)


def test_reply_that_is_too_long_is_not_stored(twin: ModuleType) -> None:
    memory_server = MemoryServer(block(KUBERNETES), twin, [*OBJECTS, *many_endpoints(6)])
    assert not memory_server.stores("db.default.svc.cluster.local.")
    assert not memory_server.stores("db.default.svc.cluster.local.", edns=Edns(4096))


@pytest.mark.parametrize(
    ("changes", "stored"),
    [
        pytest.param({}, 1, id="as-it-is"),
        pytest.param({"fresh": False}, 0, id="not-fresh"),
        pytest.param({"rcode": Rcode.SERVFAIL}, 0, id="servfail"),
        pytest.param({"rcode": Rcode.REFUSED}, 0, id="refused"),
        pytest.param({"tc": True}, 0, id="cut-upstream"),
        pytest.param({"edns": Edns(512)}, 0, id="own-opt-record"),
        pytest.param({"edns": Edns(600)}, 1, id="lowered-size"),
        pytest.param({"edns": Edns(600, do=True)}, 0, id="lowered-size-and-more"),
        pytest.param({"rd": True}, 0, id="own-rd"),
    ],
)
def test_reply_that_may_be_stored(twin: ModuleType, changes: dict[str, Any], stored: int) -> None:
    memory_server = MemoryServer(block(f"bufsize 600\n{KUBERNETES}"), twin, OBJECTS)
    wire = ask("web.default.svc.cluster.local.", edns=Edns(4096))
    query = decode(wire)
    reply = Reply(answer=(RR(query.qname, 1, 5, bytes(4)),), aa=True, fresh=True).replace(**changes)
    memory_server.writer.enqueue(
        wire, query, reply, encode(query, reply, 512), memory_server.writer.dependencies()
    )
    memory_server.writer.flush()
    assert memory_server.writer.table.statistics().entries == stored


@pytest.mark.parametrize("rotates", [False, True])
def test_addresses_take_turns_where_a_handler_says_so(twin: ModuleType, rotates: bool) -> None:
    text = f"loadbalance\n{KUBERNETES}" if rotates else KUBERNETES
    memory_server = MemoryServer(block(text), twin, OBJECTS)
    wire = ask("db.default.svc.cluster.local.")
    memory_server.from_chain(wire)
    found = [memory_server.from_table(wire) for _ in range(4)]
    assert len(set(found)) == (2 if rotates else 1)
    assert found[:2] == found[2:]


@pytest.mark.parametrize(
    ("options", "stays"),
    [((), True), (("ignore empty_service",), False)],
    ids=["stays", "may-be-hidden"],
)
def test_endpoints_do_not_invalidate_the_reply_of_a_cluster_ip(
    twin: ModuleType, options: tuple[str, ...], stays: bool
) -> None:
    slice_ = endpoint_slice("default/web-1", "web", "10.0.0.3")
    memory_server = MemoryServer(
        block(kubernetes("cluster.local", *options)), twin, [*OBJECTS, slice_]
    )
    wire = ask("web.default.svc.cluster.local.")
    reply = memory_server.from_chain(wire)
    moved = endpoint_slice("default/web-1", "web", "10.0.0.4", version="2")
    memory_server.apply(Upserted(moved))
    assert memory_server.from_table(wire) == (reply if stays else None)


def test_the_table_makes_room_for_the_caches_of_its_blocks_step_by_step(
    twin: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory_server = MemoryServer(STOCK, twin, OBJECTS)
    used, capacities = [0], []

    class Recorder:
        """A table whose capacity is recorded."""

        def set_capacity(self, octets: int) -> None:
            capacities.append(octets)

        def __getattr__(self, name: str) -> Any:
            return getattr(table, name)

    table = memory_server.writer.table
    monkeypatch.setattr(memory_server.writer, "table", Recorder())
    monkeypatch.setattr(Cache, "stored_octets", lambda self: used[0])

    def store(times: int) -> list[int]:
        for _ in range(times):
            memory_server.from_chain(ask("web.default.svc.cluster.local."))
        found, capacities[:] = [*capacities], []
        return found

    assert store(2) == []
    used[0] = 3 * STEP + 5
    assert store(5) == [CAPACITY - STEP, CAPACITY - 2 * STEP, CAPACITY - 3 * STEP]
    used[0] = CAPACITY
    assert store(200)[-1] == LEAST
    used[0] = 0
    assert store(200)[-1] == CAPACITY


EXPLAINED = Path(__file__).with_name("writer.corefile").read_text()


def test_errors_are_for_those_with_edns_and_as_new_as_the_state(twin: ModuleType) -> None:
    """One question with and without EDNS: a negative zone's template is for those without."""
    memory_server = MemoryServer(EXPLAINED, twin, OBJECTS)
    store = memory_server.plugins[0].store
    question = "nope.default.svc.cluster.local."

    def told(edns: Edns | None) -> list[str]:
        wire = ask(question, edns=edns)
        memory_server.from_chain(wire)
        memory_server.from_chain(wire)
        sent = memory_server.from_table(wire)
        assert sent == memory_server.from_chain(wire, stores=False)
        assert sent is not None
        return [str(each) for each in dns.message.from_wire(sent).options]

    missing = ["EDE 0 (Other): no such Service in the namespace"]
    assert told(Edns(1232)) == missing
    assert told(None) == []
    assert memory_server.from_table(ask("other.default.svc.cluster.local.")) is not None
    assert memory_server.from_table(ask("o.default.svc.cluster.local.", edns=Edns(1232))) is None
    store.lose("2026-01-02T03:04:05Z")
    assert memory_server.from_table(ask(question, edns=Edns(1232))) is None
    assert len(told(Edns(1232))) == 2
    store.lose("")
    assert told(Edns(1232)) == missing
    assert told(None) == []
    empty = endpoint_slice("default/nope-1", "nope", "10.0.0.1 ready=false")
    memory_server.apply(Upserted(empty), Upserted(service("default/nope")))
    assert told(Edns(1232)) == ["EDE 0 (Other): 0 of 1 endpoints ready"]


@pytest.mark.parametrize(("text", "reason"), columns(TABLES, "what keeps a block from the table"))
def test_reason(text: str, reason: str) -> None:
    memory_server = MemoryServer(block(lines(text)), None)
    (listener,) = memory_server.configuration.listeners
    (found,) = listener.zones.values()
    assert BlockPolicy(found.handlers).reason == reason


@pytest.mark.parametrize(
    ("text", "stores_cached"), columns(TABLES, "blocks whose cached replies are stored")
)
def test_replies_of_cache(text: str, stores_cached: str) -> None:
    (found,) = MemoryServer(block(lines(text)), None).configuration.blocks
    policy = BlockPolicy(found.handlers)
    assert str(policy.stores_cached) == stores_cached
    assert policy.stores_any is (policy.stores_cached or not policy.reason)


# In which zones names that do not exist are answered from a template.
#
# Names of which there are any number: which the compiled table makes after the chain has made one, and which are stored.


@pytest.mark.parametrize(
    ("corefile", "names"), columns(TABLES, "negative zones, names inside and outside of them")
)
def test_negative_zone(twin: ModuleType, corefile: str, names: str) -> None:
    """Inside every other name is answered once one was, outside none before the chain was asked for it."""
    inside, outside = ([] if part == "-" else part.split() for part in names.split(" | "))
    memory_server = MemoryServer(lines(corefile), twin, OBJECTS)
    for qtype in ("PTR", "A"):  # of PTR hosts passes on what it does not know
        for name in (*inside, *outside, "y.cluster.local.", "z.cluster.local."):
            memory_server.from_chain(ask(f"first-{name} {qtype}"))
            memory_server.from_chain(ask(f"first-{name} {qtype}"))
    for names_there, is_fast in ((inside, True), (outside, False)):
        for name in names_there:
            for left in ("", "a.", "b.c."):
                assert_same(memory_server, f"{left}{name}", is_fast=is_fast)


def test_name_that_a_handler_answers_first_is_no_template(twin: ModuleType) -> None:
    text = f"rewrite ttl suffix .sub.cluster.local 9\n{KUBERNETES}"
    memory_server = MemoryServer(block(text), twin, OBJECTS)
    for name in (f"a.{SUB}", f"b.{SUB}"):
        assert memory_server.stores(name)
        assert_same(memory_server, name, is_fast=True)
    assert_same(memory_server, PLAIN, is_fast=False)
    assert memory_server.stores(PLAIN)
    for name, is_fast in ((f"a.{PLAIN}", True), (f"a.{SUB}", True), (f"c.{SUB}", False)):
        assert_same(memory_server, name, is_fast=is_fast)


@pytest.mark.parametrize(
    "qtype", [*map(type_to_text, NEGATIVE_TYPES), "SOA", "ANY", "DS", "TYPE65280"]
)
def test_types_of_a_negative_zone(twin: ModuleType, qtype: str) -> None:
    memory_server = MemoryServer(block(KUBERNETES), twin, OBJECTS)
    assert memory_server.stores("first.cluster.local.")
    wire = ask(f"second.cluster.local. {qtype}")
    found = memory_server.from_table(wire)
    assert (found is not None) is (qtype in map(type_to_text, NEGATIVE_TYPES))
    if found is not None:
        assert found == memory_server.from_chain(wire, stores=False)


def test_template_comes_from_the_block_of_the_negative_zone(twin: ModuleType) -> None:
    """Another block may say other things of the same zone."""
    corefile = block(kubernetes("cluster.local", "ttl 30")) + block(
        kubernetes("cluster.local", "ttl 7"), "sub.cluster.local:53"
    )
    memory_server = MemoryServer(corefile, twin, OBJECTS)
    for name in (SUB, f"a.{SUB}", PLAIN):
        memory_server.from_chain(ask(name))
    for name in (f"b.{PLAIN}", f"a.{PLAIN}"):
        assert_same(memory_server, name, is_fast=True)


LABELS = st.one_of(
    st.sampled_from(["10-0-0-1", "1-2-3", "2001-db8--1", "--1", "1--", "---", "10\\.0\\.0\\.1", "--ffff-1\\.2\\.3\\.4"]),
    st.sampled_from(["1-2-3-4-5", "010-0-0-1", "fe80--1%1", "a-b-c-d", "cafe", "x", "pod", "svc", "_-_-_-_", "1_0-0-0-0"]),
    st.text("019afgx-", min_size=1, max_size=12),
)  # fmt: skip


@pytest.mark.parametrize("pods", ["disabled", "insecure", "verified"])
@settings(max_examples=tries(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(
        st.tuples(
            st.lists(LABELS, max_size=3).map(lambda labels: "".join(f"{each}." for each in labels)),
            LABELS,
            st.sampled_from(["default", "kube-system", "gone"]),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_names_of_pods_are_denied_as_by_the_chain(
    twin: ModuleType, pods: str, names: Sequence[tuple[str, str, str]]
) -> None:
    """What is no address is answered by the table, all of it, also by what it prepares for names with one parent."""
    memory_server = MemoryServer(block(kubernetes("cluster.local", f"pods {pods}")), twin, OBJECTS)
    memory_server.from_chain(ask(PLAIN))
    memory_server.from_chain(ask(PLAIN))
    for _ in range(2):
        for front, label, namespace in names:
            wire = ask(f"{front}{label}.{namespace}.pod.cluster.local.")
            found = memory_server.from_table(wire)
            if found is not None:
                assert found == memory_server.from_chain(wire, stores=False)
            else:
                assert namespace != "gone"
                assert set(label) <= set("0123456789abcdef-.\\")
                assert "." in label or label.count("-") > 1


V4, V6 = "9-9-9-9.default.pod.cluster.local.", "fd00--9.default.pod.cluster.local."


def taught(text: str, twin: ModuleType) -> MemoryServer:
    """A server whose chain has answered all forms once."""
    memory_server = MemoryServer(block(text), twin, OBJECTS)
    for name in (V4, V6):
        for qtype in ("A", "AAAA"):
            memory_server.from_chain(ask(f"{name} {qtype}"))
    return memory_server


@pytest.mark.parametrize("qtype", ["A", "AAAA"])
@pytest.mark.parametrize(("left", "is_fast"), columns(TABLES, "names of pods"))
def test_name(compiled: ModuleType, left: str, qtype: str, is_fast: str) -> None:
    memory_server, question = taught(KUBERNETES, compiled), f"{left}.pod.cluster.local. {qtype}"
    for edns in (None, Edns(1232), Edns(512, do=True, options=((10, b"12345678"),))):
        assert_same(memory_server, question, is_fast=is_fast == "True", edns=edns)
    assert memory_server.writer.table.statistics().entries == 0


@pytest.mark.parametrize(
    ("text", "is_fast"), columns(TABLES, "blocks in which the table makes addresses of pods")
)
def test_block(compiled: ModuleType, text: str, is_fast: str) -> None:
    memory_server = taught(lines(text), compiled)
    for qtype in ("A", "AAAA"):
        question = f"1-2-3-4.default.pod.cluster.local. {qtype}"
        assert_same(memory_server, question, is_fast=is_fast == "True")


def test_what_cache_stores_is_not_made(compiled: ModuleType) -> None:
    """It counts each answer by itself, but no denial."""
    memory_server = taught(CACHED + KUBERNETES, compiled)
    for name, qtype, is_fast in (
        ("1-2-3-4", "A", False),
        ("1-2-3-4", "AAAA", True),
        ("fd00--7", "A", True),
        ("fd00--7", "AAAA", False),
    ):
        question = f"{name}.default.pod.cluster.local. {qtype}"
        assert_same(memory_server, question, is_fast=is_fast)


@pytest.mark.parametrize(("left", "entries"), values(TABLES, "topology zones without endpoints are stored when asked for again"))  # fmt: skip
def test_topology_zones_without_endpoints_are_stored_when_asked_for_again(
    twin: ModuleType, left: str, entries: list[int]
) -> None:
    text = kubernetes("cluster.local", "pods insecure", "zonal")
    zonal = endpoint_slice("default/zonal-1", "zonal", "10.0.0.1", "10.0.0.2")
    assert zonal.endpoints is not None
    zonal.endpoints[0] = msgspec.structs.replace(zonal.endpoints[0], zone="zone-a")
    memory_server = MemoryServer(block(text), twin, [*OBJECTS, service("default/zonal"), zonal])
    for qtype in ("A", "AAAA"):
        memory_server.from_chain(ask(f"{V4} {qtype}"))
    wire = ask(f"{left}._zone.zonal.default.svc.cluster.local.")
    found, before = [], memory_server.writer.table.statistics().entries
    for _ in range(2):
        memory_server.from_chain(wire)
        found.append(memory_server.writer.table.statistics().entries - before)
    assert found == ([0, 0] if left.endswith("pin") and "_native" in twin.__name__ else entries)
    assert memory_server.from_table(wire) == memory_server.from_chain(wire, stores=False)


POD_LABELS = st.one_of(
    st.sampled_from(["10-0-0-1", "2001-db8--1", "--1", "1--", "fd00--0", "---", "10\\.0\\.0\\.1", "--ffff-1-2"]),
    st.from_regex(r"[0-9]{1,3}(-[0-9]{1,3}){3}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{0,4}(-[0-9a-f]{0,4}){1,8}", fullmatch=True),
    st.sampled_from(["x", "pod", "svc", "default"]),
).filter(bool)  # fmt: skip


@settings(max_examples=tries(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(
        st.tuples(
            st.lists(POD_LABELS, min_size=1, max_size=4),
            st.sampled_from(["default", "gone"]),
            st.sampled_from(["A", "AAAA"]),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_any_names_are_answered_as_by_the_chain(
    twin: ModuleType, names: Sequence[tuple[Sequence[str], str, str]]
) -> None:
    memory_server = taught(KUBERNETES, twin)
    for labels, within, qtype in names:
        wire = ask(f"{'.'.join(labels)}.{within}.pod.cluster.local. {qtype}")
        found = memory_server.from_table(wire)
        assert found in (None, memory_server.from_chain(wire, stores=False))


# Replies that are made again before anybody asks: the same as those of the chain, and only where somebody has asked.

WEB, DB = "web.default.svc.cluster.local.", "db.default.svc.cluster.local."
CHANGES = {
    "another-address": Upserted(service("default/web", "10.96.0.9", version="2")),
    "endpoints": Upserted(
        endpoint_slice(
            "default/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.7 host=db-2", version="2"
        )
    ),
}


def recomputes(server: MemoryServer, wire: bytes) -> bool:
    """Recompute the reply to a query and store it, if that is possible."""
    return server.writer.recompute(wire, server.runtime.now) is not None


@pytest.mark.parametrize(
    "text", section(TABLES, "blocks whose replies are recomputed").splitlines()
)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("question", "options"),
    [
        (WEB, {}),
        (WEB, {"edns": Edns(1232, do=True)}),
        (WEB + " AAAA", {}),
        (DB, {}),
        (DB + " SRV", {"edns": Edns(4096)}),
        ("db-0." + DB, {}),
    ],
)
def test_it_is_what_the_chain_answers(
    twin: ModuleType, text: str, change: str, question: str, options: dict[str, Any]
) -> None:
    memory_server = MemoryServer(block(lines(text)), twin, OBJECTS)
    memory_server.runtime.now = time.monotonic()  # storing looks at the real clock
    wire = ask(question, **options)
    memory_server.from_chain(wire)
    assert memory_server.from_table(wire) is not None
    memory_server.apply(CHANGES[change])
    is_ended = memory_server.from_table(wire) is None
    assert is_ended is (question.startswith("web") is (change == "another-address"))
    assert recomputes(memory_server, wire)
    found, expected = (memory_server.from_table(wire), memory_server.from_chain(wire, stores=False))
    assert found is not None
    assert expected is not None
    assert found[:12] == expected[:12]
    # In any order: `loadbalance` draws lots, the table turns.
    messages = dns.message.from_wire(found), dns.message.from_wire(expected)
    assert messages[0] == messages[1]
    assert messages[0].ednsflags == messages[1].ednsflags


def test_the_first_one_who_asks_counts_as_if_the_chain_had_answered(twin: ModuleType) -> None:
    """A mark of `cache` that has ended is not set by a reply that nobody has asked for."""
    counted = []
    for is_first in (True, False):
        memory_server = MemoryServer(block(f"cache 30\n{KUBERNETES}"), twin, OBJECTS)
        memory_server.runtime.now = time.monotonic()
        if not is_first:
            memory_server.from_chain(ask(WEB))
        else:
            assert recomputes(memory_server, ask(WEB))
            assert memory_server.from_table(ask(WEB)) is not None
        for _ in range(3):
            assert memory_server.from_table(ask(WEB)) is not None
        memory_server.writer.hits.count()
        text = memory_server.runtime.metrics.to_text().decode()
        counted.append([line for line in text.splitlines() if "cache_hits" in line or "misses" in line])  # fmt: skip
    assert counted[0] == counted[1]


@pytest.mark.parametrize(
    ("text", "question", "change"),
    [
        pytest.param(KUBERNETES, WEB, Deleted(service("default/web")), id="gone"),
        pytest.param(
            KUBERNETES,
            WEB,
            Upserted(service("default/web", external="www.example.org", version="2")),
            id="leads-out",
        ),
        pytest.param(
            f"rewrite ttl {WEB} 9\n{KUBERNETES}",
            WEB,
            CHANGES["another-address"],
            id="another-handler",
        ),
        pytest.param(hosts(f"192.0.2.1 {WEB}"), WEB, CHANGES["another-address"], id="before-it"),
        pytest.param("whoami\n" + KUBERNETES, WEB, CHANGES["another-address"], id="not-stored"),
        pytest.param("forward . 192.0.2.1", "www.example.org.", None, id="no-cluster"),
    ],
)
def test_what_is_left_to_who_asks(
    twin: ModuleType, text: str, question: str, change: Upserted | Deleted | None
) -> None:
    memory_server = MemoryServer(block("cache\n" + text if "whoami" in text else text) if change else block("cache\n" + text), twin, OBJECTS)  # fmt: skip
    if change is not None:
        memory_server.apply(change)
    if memory_server.has_table:
        assert not recomputes(memory_server, ask(question))
        assert memory_server.from_table(ask(question)) is None


def test_stock_names_are_found_by_their_counters(twin: ModuleType) -> None:
    memory_server = MemoryServer(STOCK, twin, OBJECTS)
    names = memory_server.writer.recomputed
    kept = [WEB, WEB + " AAAA", DB, DB + " SRV", "1.0.96.10.in-addr.arpa. PTR"]
    others = ["cluster.local. NS", "nope.default.svc.cluster.local.", "1-2-3-4.default.pod.cluster.local."]  # fmt: skip
    for question in (*kept, *others):
        for _ in range(3):
            memory_server.from_chain(ask(question))
        assert memory_server.from_table(ask(question)) is not None
    assert sorted(names.queries()) == sorted(map(ask, kept))


QUERIES = [ask(f"{number}.example.") for number in range(6)]
KEYS = [key_of(decode(wire)) for wire in QUERIES]


def named(*counters: tuple[int, ...]) -> RecomputedNames:
    names = RecomputedNames()
    for wire, each in zip(QUERIES, counters, strict=False):
        names.add(key_of(decode(wire)), wire, each)
    return names


def test_names_end_with_any_of_their_counters() -> None:
    names = named((1, 2), (2, 3), (4,), (), (5, ANYTHING))
    assert len(names) == 3
    assert names.invalidated([]) == []
    assert names.invalidated([2]) == KEYS[:2]
    assert names.invalidated([3, 4, 2]) == [KEYS[1], KEYS[2], KEYS[0]]
    assert names.invalidated([ANYTHING]) == []
    names.forget(KEYS[1])
    names.forget(KEYS[1])
    assert names.invalidated([2, 3]) == KEYS[:1]
    assert KEYS[1] not in names.by_key


def test_asked_or_not() -> None:
    names = named((1,))

    def found(key: bytes) -> tuple[bytes, tuple[int, ...], int] | None:
        name = names.by_key.get(key)
        return None if name is None else (name.query, name.counters, name.uses)

    assert found(KEYS[0]) is None, "not taken in yet"
    assert names.invalidated([1]) == KEYS[:1]
    assert found(KEYS[0]) == (QUERIES[0], (1,), ASKED)
    names.note_recomputed(KEYS[0], (2,), 1)
    assert (names.invalidated([1]), names.invalidated([2])) == ([], KEYS[:1])
    assert found(KEYS[0]) == (QUERIES[0], (2,), 1)
    names.note_recomputed(KEYS[0], (2,), 2)
    assert found(KEYS[0]) == (QUERIES[0], (2,), 2)
    names.note_recomputed(KEYS[1], (2,), 1)
    assert names.invalidated([2]) == KEYS[:1], "unknown names stay so"
    assert found(KEYS[1]) is None


def test_the_newest_names_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recompute, "MOST", 3)
    names = named((1,), (1,), (1,), (1,))
    assert names.queries() == QUERIES[1:4]
    names.add(KEYS[1], QUERIES[1], (2,))
    names.add(KEYS[4], QUERIES[4], (1,))
    assert names.queries() == [QUERIES[3], QUERIES[1], QUERIES[4]]
    assert names.invalidated([1, 2]) == [KEYS[3], KEYS[4], KEYS[1]]
