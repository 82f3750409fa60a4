"""Names of which there are any number: which the compiled table makes after the chain has made one, and which are stored."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsdns.wire.edns import Edns
from tests.answer_table.corefiles import CACHED, OBJECTS, block, kubernetes
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.effort import tries
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, ask

V4, V6 = "9-9-9-9.default.pod.cluster.local.", "fd00--9.default.pod.cluster.local."
STOCK = "cache 30 {\ndisable success cluster.local\ndisable denial cluster.local\n}\n" + KUBERNETES


def taught(text: str, twin: ModuleType) -> MemoryServer:
    """A server whose chain has answered all forms once."""
    memory_server = MemoryServer(block(text), twin, OBJECTS)
    for name in (V4, V6):
        for qtype in ("A", "AAAA"):
            memory_server.from_chain(ask(f"{name} {qtype}"))
    return memory_server


def assert_same(
    memory_server: MemoryServer, question: str, *, is_fast: bool, edns: Edns | None = None
) -> None:
    wire = ask(question, edns=edns)
    found = memory_server.from_table(wire)
    assert (found is not None) is is_fast, question
    if found is not None:
        assert found == memory_server.from_chain(wire, stores=False), question


@pytest.mark.parametrize("qtype", ["A", "AAAA"])
@pytest.mark.parametrize(
    ("left", "is_fast"),
    [
        ("1-2-3-4.default", True),
        ("255-255-255-255.kube-system", True),
        ("1-2-3-4.DEFAULT", True),
        ("2001-db8--1.default", True),
        ("2001-DB8--1.default", True),
        ("2001-db8-1-2-3-4-5-6.default", True),
        ("fd00--0.default", True),
        ("x.1-2-3-4.default", True),
        ("x.y.1-2-3-4.default", True),
        ("x.y.z.1-2-3-4.default", False),
        ("1-2-3-999.default", False),
        ("1-2-3.default", False),
        ("1\\.2\\.3\\.4.default", False),
        ("2001-0db8--1.default", False),
        ("fd00--.default", False),
        ("--1.default", False),
        ("--ffff-a00-1.default", False),
        ("default", False),
    ],
)
def test_name(compiled: ModuleType, left: str, qtype: str, is_fast: bool) -> None:
    memory_server = taught(KUBERNETES, compiled)
    for edns in (None, Edns(1232), Edns(512, do=True, options=((10, b"12345678"),))):
        assert_same(memory_server, f"{left}.pod.cluster.local. {qtype}", is_fast=is_fast, edns=edns)
    assert memory_server.writer.table.statistics().entries == 0


@pytest.mark.parametrize(
    ("text", "is_fast"),
    [
        pytest.param(KUBERNETES, True, id="plain"),
        pytest.param(STOCK, True, id="stock"),
        pytest.param(f"cache 30 example.org\n{KUBERNETES}", True, id="cache-of-another-zone"),
        pytest.param(f"cache\n{KUBERNETES}", False, id="cache-of-all"),
        pytest.param(kubernetes("cluster.local", "pods insecure", "ttl 0"), True, id="no-ttl"),
        pytest.param(kubernetes("cluster.local", "pods insecure", "zonal"), True, id="zonal"),
        pytest.param(kubernetes("cluster.local", "pods insecure", "explain"), True, id="explain"),
        pytest.param(
            kubernetes("cluster.local", "pods insecure", "namespaces default kube-system"),
            False,
            id="some-namespaces",
        ),
        pytest.param(kubernetes("cluster.local", "pods insecure", "fallthrough"), False, id="fallthrough"),
        pytest.param(kubernetes("cluster.local", "pods insecure", "multicluster cluster.local"), False, id="multicluster"),
        pytest.param(kubernetes("cluster.local", "pods verified"), False, id="verified"),
        pytest.param(kubernetes("cluster.local"), False, id="disabled"),
        pytest.param(f"rewrite ttl suffix .default.pod.cluster.local 9\n{KUBERNETES}", False, id="rewrite-of-ttls"),
        pytest.param(f"rewrite ttl suffix .example.org 9\n{KUBERNETES}", True, id="rewrite-elsewhere"),
        pytest.param(f"loadbalance\nbufsize 600\nminimal\n{KUBERNETES}", True, id="more-handlers"),
    ],
)  # fmt: skip
def test_block(compiled: ModuleType, text: str, is_fast: bool) -> None:
    memory_server = taught(text, compiled)
    for qtype in ("A", "AAAA"):
        assert_same(memory_server, f"1-2-3-4.default.pod.cluster.local. {qtype}", is_fast=is_fast)


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


@pytest.mark.parametrize(
    ("left", "entries"),
    [
        ("zone-a.prefer", [1, 1]),
        ("any-text.prefer", [0, 1]),
        ("any-text.pin", [0, 1]),
    ],
)
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
    assert found == entries
    assert memory_server.from_table(wire) == memory_server.from_chain(wire, stores=False)


LABELS = st.one_of(
    st.sampled_from(["10-0-0-1", "2001-db8--1", "--1", "1--", "fd00--0", "---", "10\\.0\\.0\\.1", "--ffff-1-2"]),
    st.from_regex(r"[0-9]{1,3}(-[0-9]{1,3}){3}", fullmatch=True),
    st.from_regex(r"[0-9a-f]{0,4}(-[0-9a-f]{0,4}){1,8}", fullmatch=True),
    st.sampled_from(["x", "pod", "svc", "default"]),
).filter(bool)  # fmt: skip


@settings(max_examples=tries(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(
        st.tuples(
            st.lists(LABELS, min_size=1, max_size=4),
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
