"""In which zones names that do not exist are answered from a template.

Names of which there are any number: which the compiled table makes after the chain has made one, and which are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsdns.answer_table.negative_zones import NEGATIVE_TYPES
from hsdns.wire.edns import Edns
from hsdns.wire.iana import type_to_text
from tests.answer_table.corefiles import (
    CACHED,
    OBJECTS,
    PLAIN,
    SUB,
    TABLES,
    assert_same,
    block,
    kubernetes,
    lines,
)
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.effort import tries
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, ask
from tests.support.tables import columns, values


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
