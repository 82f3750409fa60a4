"""Replies that compiled code makes: those of the chain, octet for octet, or none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsdns import fastpath
from hsdns.cluster.objects import Object
from hsdns.fastpath import IMPLEMENTATION
from hsdns.plugins.cache import Cache
from hsdns.plugins.cache.store import Store
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode_query
from hsdns.wire.iana import type_to_text
from hsdns.wire.message import CD, RD, Query
from tests import strategies
from tests.answer_table.corefiles import TABLES, block, kubernetes, lines
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.effort import tries
from tests.support.servers.memory_server import KUBERNETES, MemoryServer, ask, cluster_objects
from tests.support.tables import columns, section

pytestmark = pytest.mark.skipif(IMPLEMENTATION != "rust", reason="the compiled part is not built")

ZONE = "default.svc.cluster.local."
OBJECTS = cluster_objects(
    service("default/model", "10.96.1.1"),
    service("default/many"),
    endpoint_slice("default/many-1", "many", "10.1.0.1 host=a", "10.1.0.2 host=b"),
    endpoint_slice("default/many-2", "many", "fd00::7", address_type="IPv6"),
    service("default/six", "fd96::6"),
    namespaces=("default", "testns"),
)
# One question of each form.
MODELS = (
    f"model.{ZONE} A", f"six.{ZONE} A", f"many.{ZONE} AAAA", f"model.{ZONE} AAAA", f"many.{ZONE} SRV", "1.1.96.10.in-addr.arpa. PTR",
    "7.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.d.f.ip6.arpa. PTR",
)  # fmt: skip
WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"edns": Edns(4096)},
    {"edns": Edns(4096, do=True)},
    {"flags": RD | CD},
)


def prepared(text: str = KUBERNETES, objects: Sequence[Object] = ()) -> MemoryServer:
    """A server whose table knows all forms."""
    found = MemoryServer(block(text), fastpath, [*OBJECTS, *objects])
    found.runtime.now = time.monotonic()
    for question in MODELS:
        for options in WAYS:
            found.from_chain(ask(question, **options))
    found.writer.table.clear()
    return found


def made(server: MemoryServer, wire: bytes) -> bytes | None:
    """The reply of the table to a query that the chain has not answered."""
    if not server.writer.make(wire, server.runtime.now):
        return None
    reply = server.from_table(wire)
    assert reply is not None
    return reply


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("question", section(TABLES, "made").splitlines())
@pytest.mark.parametrize("text", [KUBERNETES, f"cache 3\nerrors\nlog\n{KUBERNETES}"])
def test_a_reply_is_made(text: str, question: str, options: dict[str, Any]) -> None:
    server = prepared(text, USUAL)
    wire = ask(question, **options)
    assert made(server, wire) == server.from_chain(wire, stores=False)


@pytest.mark.parametrize(
    ("question", "kind"), [(f"web.{ZONE}", "success"), ("model." + ZONE + " AAAA", "denial")]
)
def test_cache_counts_a_made_reply_as_one_that_it_has_stored(question: str, kind: str) -> None:
    server = prepared("cache 3\n" + KUBERNETES, USUAL)
    (cache,) = (each for each in server.configuration.plugins if isinstance(each, Cache))
    for half in (cache.success, cache.denial):
        half.store = Store(0, Random(1))
    assert made(server, ask(question)) is not None
    assert (len(cache.success.store), len(cache.denial.store)) == (
        (1, 0) if kind == "success" else (0, 1)
    )


USUAL = (
    service("default/web", "10.96.0.1", "fd96::1", ports=("http/TCP/80", "dns/UDP/53")),
    endpoint_slice("default/web-1", "web", "10.0.0.3 host=web-0"),
    service("default/db"),
    endpoint_slice(
        "default/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.2", "10.0.0.3", ports=("http/TCP/80",)
    ),
    endpoint_slice("default/db-2", "db", "fd00::1", address_type="IPv6"),
)


@pytest.mark.parametrize(
    ("text", "is_made"), columns(TABLES, "blocks in which replies about Services are made")
)
def test_only_where_all_names_of_a_zone_are_treated_alike(text: str, is_made: str) -> None:
    server, wire = prepared(lines(text), USUAL), ask(f"web.{ZONE}")
    assert str(made(server, wire) is not None) == is_made
    if is_made == "True":
        assert server.from_table(wire) == server.from_chain(wire, stores=False)


def test_not_where_another_block_has_names_below_the_zone() -> None:
    text = block(KUBERNETES) + block("errors", "default.svc.cluster.local:53")
    other = service("testns/model", "10.96.1.9")
    server = MemoryServer(text, fastpath, [*OBJECTS, *USUAL, other])
    server.runtime.now = time.monotonic()
    server.from_chain(ask("model.testns.svc.cluster.local."))
    assert made(server, ask(f"web.{ZONE}")) is None


@settings(suppress_health_check=list(HealthCheck), max_examples=tries(60))
@given(
    cluster=strategies.clusters(),
    seed=strategies.seeds,
    way=st.sampled_from(WAYS),
    pod_names=st.booleans(),
)
def test_any_reply_is_that_of_the_chain(
    cluster: list[Object], seed: int, way: dict[str, Any], pod_names: bool
) -> None:
    zones = ("cluster.local.", "in-addr.arpa.", "ip6.arpa.")
    lines = ("endpoint_pod_names",) if pod_names else ()
    server = prepared("cache 3\n" + kubernetes(" ".join(zones), *lines), cluster)
    for name, qtype in strategies.questions(seed, cluster, zones, 40):
        wire = encode_query(Query.ask(name, qtype, **way), 7)
        expected = server.writer.recompute_by_chain(wire, 0.0)
        reply = made(server, wire)
        if reply is not None:
            assert reply == server.from_chain(wire, stores=False), (
                name.to_text(),
                type_to_text(qtype),
            )
            assert expected is not None
            assert server.writer.recompute(wire, 0.0) == expected
