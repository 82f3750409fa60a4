"""What the answer table may keep: which blocks, which zones of names that do not exist, which replies, counted how."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from hsdns.cluster.objects import Deleted, EndpointSlice, Upserted
from hsdns.keeper import REGION_TYPES, Policy
from hsdns.server.datagram import client_endpoint
from hsdns.wire.decode import decode
from hsdns.wire.edns import Edns
from hsdns.wire.encode import encode
from hsdns.wire.iana import Rcode, type_to_text
from hsdns.wire.message import CD, RD, RR, TC, Reply
from tests.fastpath.twins import BOTH
from tests.support.cluster.objects import endpoint_slice, service
from tests.support.plugins.corefiles import KUBEADM
from tests.support.servers.memory_server import (
    CLIENT,
    KUBERNETES,
    V6,
    MemoryServer,
    ask,
    cluster_objects,
)
from tests.support.servers.table_over_udp import TableOverUdp

STOCK = KUBEADM.replace("/etc/resolv.conf", "192.0.2.1")
OBJECTS = cluster_objects(
    service("default/web", "10.96.0.1"),
    service("default/db"),
    endpoint_slice("default/db-1", "db", "10.0.0.1 host=db-0", "10.0.0.2 host=db-1"),
    service("default/here", external="web.default.svc.cluster.local"),
    service("default/there", external="www.example.org"),
    namespaces=("default", "kube-system"),
)

LOG_OF_LOCAL = 'log . "{local} {name}"'


@pytest.fixture(params=BOTH)
def twin(request: pytest.FixtureRequest) -> ModuleType:
    """One of the twins: its module."""
    return importlib.import_module(request.param)


def block(text: str, key: str = ".:53") -> str:
    return f"{key} {{\n{text}\n}}\n"


# --- which blocks are kept ---


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(KUBERNETES, "", id="kubernetes-alone"),
        pytest.param("whoami", "it has no kubernetes plugin", id="none-of-kubernetes"),
        pytest.param("forward . 192.0.2.1", "it has no kubernetes plugin", id="forward"),
        pytest.param(f"whoami\n{KUBERNETES}", "whoami must see every query", id="whoami"),
        pytest.param(f"log\n{KUBERNETES}", "", id="log"),
        pytest.param(f"acl\nbufsize\nnsid\n{KUBERNETES}", "nsid, acl must see every query", id="clients-differ"),
        pytest.param(f"rewrite edns0 nsid set\n{KUBERNETES}", "rewrite must see every query", id="rewrite-of-options"),
        pytest.param(f"header {{\nresponse set rd\n}}\n{KUBERNETES}", "header must see every query", id="header-of-rd"),
        pytest.param(
            f"any\nbufsize\ncancel\nchaos\nminimal\nheader {{\nresponse set ra\n}}\nrewrite name a b\n{KUBERNETES}",
            "",
            id="what-depends-on-the-question",
        ),
        pytest.param(f'{LOG_OF_LOCAL}\n{KUBERNETES}', "log must see every query", id="log-of-the-asked-address"),
        pytest.param(f"whoami\n{LOG_OF_LOCAL}\n{KUBERNETES}", "log, whoami must see every query", id="two"),
        pytest.param(
            f"prometheus\nerrors\nloadbalance\ncache\nhosts {{\n192.0.2.1 a.org\n}}\nloop\nforward . 192.0.2.1\n{KUBERNETES}",
            "",
            id="all-that-may",
        ),
    ],
)  # fmt: skip
def test_reason(text: str, reason: str) -> None:
    memory_server = MemoryServer(block(text), None)
    (listener,) = memory_server.configuration.listeners
    (found,) = listener.zones.values()
    assert Policy(found.handlers).reason == reason


def test_stock_corefile_is_kept(twin: ModuleType) -> None:
    memory_server = MemoryServer(STOCK, twin, OBJECTS)
    assert memory_server.keeper.keeps
    for question in (
        "web.default.svc.cluster.local.",
        "nope.cluster.local.",
        "1.0.96.10.in-addr.arpa. PTR",
    ):
        assert memory_server.stores(question)


def test_listener_keeps_where_any_block_does(twin: ModuleType) -> None:
    memory_server = MemoryServer(
        block(KUBERNETES, "cluster.local:53") + block("whoami"), twin, OBJECTS
    )
    assert memory_server.keeper.keeps
    assert memory_server.stores("web.default.svc.cluster.local.")
    assert not memory_server.stores("example.org.")
    assert not MemoryServer(block("whoami"), twin).has_table


# --- in which zones names that do not exist have no entry ---

SUB = "x.sub.cluster.local."
PLAIN = "x.cluster.local."


def hosts(lines: str, arguments: str = "/nonexistent", through: str = "fallthrough") -> str:
    return f"hosts {arguments} {{\n{lines}\n{through}\n}}\n{KUBERNETES}"


def kubernetes(zones: str, *lines: str) -> str:
    return f"kubernetes {zones} {{\n" + "\n".join(lines) + "\n}"


CACHED = "cache 30 {\ndisable denial cluster.local\n}\n"

REGIONS = [
    pytest.param(block(KUBERNETES), [PLAIN, SUB], [], id="stock"),
    pytest.param(block(KUBERNETES, "cluster.local:53"), [PLAIN, SUB], [], id="its-own-block"),
    pytest.param(block(KUBERNETES, "CLUSTER.Local:53"), [PLAIN, SUB], [], id="its-own-block-in-capitals"),
    pytest.param(block(kubernetes("cluster.local", "fallthrough")), [], [PLAIN], id="fallthrough-all"),
    pytest.param(block(kubernetes("cluster.local", "fallthrough cluster.local")), [], [PLAIN], id="fallthrough-equal"),
    pytest.param(block(kubernetes("cluster.local", "fallthrough local")), [], [PLAIN], id="fallthrough-above"),
    pytest.param(block(kubernetes("cluster.local", "fallthrough sub.cluster.local")), [], [PLAIN, SUB], id="fallthrough-below"),
    pytest.param(block(kubernetes("cluster.local ip6.arpa", "fallthrough ip6.arpa example.org")), [PLAIN], [], id="fallthrough-elsewhere"),
    pytest.param(block(KUBERNETES) + block("whoami", "sub.cluster.local:53"), [PLAIN], [SUB], id="another-block-below"),
    pytest.param(block(KUBERNETES) + block("whoami", "cluster.local:53"), [], [PLAIN, SUB], id="another-block-equal"),
    pytest.param(block(KUBERNETES) + block("whoami", "local:53"), [], [PLAIN, SUB], id="another-block-between"),
    pytest.param(block(KUBERNETES) + block("whoami", "example.org:53"), [PLAIN, SUB], [], id="another-block-elsewhere"),
    pytest.param(block(KUBERNETES, "cluster.local:53") + block("whoami"), [PLAIN, SUB], [], id="another-block-above"),
    pytest.param(block(KUBERNETES, "cluster.local:53") + block("whoami", "local:53"), [PLAIN, SUB], [], id="another-block-just-above"),
    pytest.param(block(kubernetes("cluster.local sub.cluster.local")), [PLAIN, SUB], [], id="two-zones"),
    pytest.param(
        block(kubernetes("cluster.local sub.cluster.local", "fallthrough sub.cluster.local")), [], [PLAIN, SUB],
        id="two-zones-the-lower-falls-through",
    ),
    pytest.param(
        block(kubernetes("cluster.local sub.cluster.local", "multicluster sub.cluster.local")), [PLAIN], [SUB],
        id="two-zones-the-lower-of-several-clusters",
    ),
    pytest.param(block(kubernetes("cluster.local", "multicluster cluster.local")), [], [PLAIN, SUB], id="several-clusters"),
    pytest.param(block(f"k8s_external sub.cluster.local\n{KUBERNETES}"), [PLAIN], [SUB], id="k8s-external-below"),
    pytest.param(block(f"k8s_external local\n{KUBERNETES}"), [], [PLAIN, SUB], id="k8s-external-above"),
    pytest.param(block(f"k8s_external example.org\n{KUBERNETES}"), [PLAIN, SUB], [], id="k8s-external-elsewhere"),
    pytest.param(block(kubernetes(".")), [], [PLAIN, "1.0.0.10.in-addr.arpa."], id="root"),
    pytest.param(block(kubernetes("cluster.local arpa")), [PLAIN], ["x.arpa.", "1.0.0.10.in-addr.arpa."], id="above-reverse"),
    pytest.param(block(KUBERNETES), [], ["9.9.9.10.in-addr.arpa.", "x.in-addr.arpa.", "x.ip6.arpa."], id="reverse"),
    pytest.param(block(hosts("192.0.2.9 sub.cluster.local")), [PLAIN], [SUB, "sub.cluster.local."], id="hosts-with-a-name"),
    pytest.param(block(hosts("192.0.2.9 *.sub.cluster.local")), [PLAIN], [SUB], id="hosts-with-a-star"),
    pytest.param(block(hosts("192.0.2.9 *.cluster.local")), [], [PLAIN, SUB], id="hosts-with-a-star-at-the-apex"),
    pytest.param(block(hosts("192.0.2.9 *.local *.")), [PLAIN, SUB], [], id="hosts-with-a-star-above"),
    pytest.param(block(hosts("192.0.2.9 a.example.org")), [PLAIN, SUB], [], id="hosts-elsewhere"),
    pytest.param(block(hosts("192.0.2.9 a.org", through="")), [], [PLAIN, SUB], id="hosts-without-fallthrough"),
    pytest.param(
        block(hosts("192.0.2.9 a.org", "/nonexistent example.org", "")), [PLAIN, SUB], [], id="hosts-of-another-zone"
    ),
    pytest.param(
        block(hosts("192.0.2.9 a.org", "/nonexistent sub.cluster.local", "")), [PLAIN], [SUB],
        id="hosts-of-a-zone-below-without-fallthrough",
    ),
    pytest.param(
        block(hosts("192.0.2.9 a.org", through="fallthrough example.org")), [], [PLAIN, SUB],
        id="hosts-with-fallthrough-elsewhere",
    ),
    pytest.param(
        block(hosts("192.0.2.9 a.org", through="fallthrough sub.cluster.local")), [], [PLAIN],
        id="hosts-with-fallthrough-below",
    ),
    pytest.param(block(f"rewrite name sub.cluster.local a.org\n{KUBERNETES}"), [PLAIN], [SUB], id="rewrite-of-a-name"),
    pytest.param(block(f"rewrite name a.org sub.cluster.local\n{KUBERNETES}"), [PLAIN, SUB], [], id="rewrite-elsewhere"),
    pytest.param(block(f"rewrite ttl suffix .sub.cluster.local 9\n{KUBERNETES}"), [PLAIN], [SUB], id="rewrite-of-ttls"),
    pytest.param(block(f"rewrite name regex a b\n{KUBERNETES}"), [], [PLAIN, SUB], id="rewrite-of-any-name"),
    pytest.param(block(f"minimal\nany\n{KUBERNETES}"), [PLAIN, SUB], [], id="minimal"),
    pytest.param(block(f"cache\n{KUBERNETES}"), [], [PLAIN], id="cache-remembers-denials"),
    pytest.param(block(f"cache 30 example.org\n{KUBERNETES}"), [PLAIN, SUB], [], id="cache-of-another-zone"),
    pytest.param(block(f"cache 30 sub.cluster.local\n{KUBERNETES}"), [PLAIN], [SUB], id="cache-of-a-zone-below"),
    pytest.param(block(CACHED + KUBERNETES), [PLAIN, SUB], [], id="cache-with-disable"),
    pytest.param(
        block(CACHED.replace("cluster.local", "sub.cluster.local") + KUBERNETES), [], [PLAIN], id="cache-with-disable-below"
    ),
    pytest.param(block(CACHED.replace("cluster.local", "") + KUBERNETES), [PLAIN, SUB], [], id="cache-with-disable-of-all"),
    pytest.param(block(CACHED.replace("denial", "success") + KUBERNETES), [], [PLAIN], id="cache-with-disable-of-success"),
]  # fmt: skip


@pytest.mark.parametrize(("corefile", "inside", "outside"), REGIONS)
def test_region(
    twin: ModuleType, corefile: str, inside: Sequence[str], outside: Sequence[str]
) -> None:
    """Inside every other name is answered once one was, outside none before the chain was asked for it."""
    memory_server = MemoryServer(corefile, twin, OBJECTS)
    for qtype in ("PTR", "A"):  # of PTR hosts passes on what it does not know
        for name in (*inside, *outside, "y.cluster.local.", "z.cluster.local."):
            memory_server.from_chain(ask(f"taught-{name} {qtype}"))
            memory_server.from_chain(ask(f"taught-{name} {qtype}"))
    for name in inside:
        for left in ("", "a.", "b.c."):
            assert_same(memory_server, f"{left}{name}", is_fast=True)
    for name in outside:
        for left in ("", "a.", "b.c."):
            assert_same(memory_server, f"{left}{name}", is_fast=False)


def test_region_is_not_taught_by_a_name_that_a_handler_claims(twin: ModuleType) -> None:
    text = f"rewrite ttl suffix .sub.cluster.local 9\n{KUBERNETES}"
    memory_server = MemoryServer(block(text), twin, OBJECTS)
    for name in (f"a.{SUB}", f"b.{SUB}"):
        assert memory_server.stores(name)
        assert_same(memory_server, name, is_fast=True)
    assert_same(memory_server, PLAIN, is_fast=False)
    assert memory_server.stores(PLAIN)
    for name, is_fast in ((f"a.{PLAIN}", True), (f"a.{SUB}", True), (f"c.{SUB}", False)):
        assert_same(memory_server, name, is_fast=is_fast)


def assert_same(memory_server: MemoryServer, name: str, *, is_fast: bool) -> None:
    wire = ask(name)
    found = memory_server.from_table(wire)
    assert (found is not None) is is_fast, name
    if found is not None:
        assert found == memory_server.from_chain(wire, stores=False)


@pytest.mark.parametrize(
    "qtype", [*map(type_to_text, REGION_TYPES), "SOA", "ANY", "DS", "TYPE65280"]
)
def test_types_of_a_region(twin: ModuleType, qtype: str) -> None:
    memory_server = MemoryServer(block(KUBERNETES), twin, OBJECTS)
    assert memory_server.stores("first.cluster.local.")
    wire = ask(f"second.cluster.local. {qtype}")
    found = memory_server.from_table(wire)
    assert (found is not None) is (qtype in map(type_to_text, REGION_TYPES))
    if found is not None:
        assert found == memory_server.from_chain(wire, stores=False)


def test_region_is_taught_by_its_own_block_alone(twin: ModuleType) -> None:
    """Another block may say other things of the same zone."""
    corefile = block(kubernetes("cluster.local", "ttl 30")) + block(
        kubernetes("cluster.local", "ttl 7"), "sub.cluster.local:53"
    )
    memory_server = MemoryServer(corefile, twin, OBJECTS)
    for name in (SUB, f"a.{SUB}", PLAIN):
        memory_server.from_chain(ask(name))
    for name in (f"b.{PLAIN}", f"a.{PLAIN}"):
        assert_same(memory_server, name, is_fast=True)


@pytest.mark.parametrize(
    "left",
    ["nope.default.svc", "a.nope.default.svc", "db.nope.svc", "nope.svc", "a.b.c.d.e", "svcs"],
)
def test_names_that_cannot_exist_leave_nothing(twin: ModuleType, left: str) -> None:
    memory_server = MemoryServer(block(KUBERNETES), twin, OBJECTS)
    memory_server.from_chain(ask(PLAIN))
    assert_same(memory_server, f"{left}.cluster.local.", is_fast=True)
    assert memory_server.keeper.table.statistics().entries == 0


@pytest.mark.parametrize(
    "left",
    [
        "",
        "svc.",
        "default.svc.",
        "x.web.default.svc.",
        "x.pod.",
        "1-2-3-4.default.pod.",
        "ns.dns.",
        "x.dns-version.",
    ],
)
def test_names_left_to_the_chain(twin: ModuleType, left: str) -> None:
    memory_server = MemoryServer(block(KUBERNETES), twin, OBJECTS)
    memory_server.from_chain(ask(PLAIN))
    assert memory_server.from_table(ask(f"{left}cluster.local.")) is None


def test_nothing_is_denied_before_the_cluster_was_read(twin: ModuleType) -> None:
    memory_server = MemoryServer(block(KUBERNETES), twin, OBJECTS, synced=False)
    assert not memory_server.stores(PLAIN)
    assert not memory_server.stores("nope.default.svc.cluster.local.")
    assert memory_server.stores("web.default.svc.cluster.local.")


# --- what is learned ---


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("web.default.svc.cluster.local. A", {}),
        ("WEB.default.SVC.cluster.local. A", {}),
        ("web.default.svc.cluster.local. A", {"flags": 0}),
        ("web.default.svc.cluster.local. A", {"flags": CD}),
        ("web.default.svc.cluster.local. A", {"edns": Edns(1232, do=True, options=((10, b"12345678"),))}),
        ("web.default.svc.cluster.local. AAAA", {}),
        ("web.default.svc.cluster.local. MX", {}),
        ("web.default.svc.cluster.local. SOA", {}),
        ("web.default.svc.cluster.local. ANY", {}),
        ("web.default.svc.cluster.local. HTTPS", {}),
        ("_http._tcp.web.default.svc.cluster.local. SRV", {}),
        ("db-0.db.default.svc.cluster.local. A", {}),
        ("here.default.svc.cluster.local. A", {}),
        ("here.default.svc.cluster.local. CNAME", {}),
        ("there.default.svc.cluster.local. CNAME", {}),
        ("1.0.96.10.in-addr.arpa. PTR", {}),
        ("9.9.9.10.in-addr.arpa. PTR", {}),
        ("cluster.local. SOA", {}),
        ("cluster.local. NS", {}),
        ("ns.dns.cluster.local. A", {}),
        ("dns-version.cluster.local. TXT", {}),
        ("1-2-3-4.default.pod.cluster.local. A", {}),
        ("default.svc.cluster.local. A", {}),
        ("a.web.default.svc.cluster.local. A", {}),
    ],
)  # fmt: skip
def test_learned(twin: ModuleType, question: str, options: dict[str, Any]) -> None:
    memory_server = MemoryServer(block(KUBERNETES), twin, OBJECTS)
    assert memory_server.stores(question, **options)
    wire = ask(question, query_id=99, **options)
    assert memory_server.from_table(wire) == memory_server.from_chain(wire, stores=False)


@pytest.mark.parametrize(
    ("question", "options"),
    [
        pytest.param("there.default.svc.cluster.local. A", {}, id="external-name-outside"),
        pytest.param("there.default.svc.cluster.local. AAAA", {}, id="external-name-outside-ipv6"),
        pytest.param("web.default.svc.cluster.local. TYPE65280", {}, id="type-that-metrics-do-not-name"),
        pytest.param("web.default.svc.cluster.local. HINFO", {}, id="type-of-loop"),
        pytest.param("web.default.svc.cluster.local. AXFR", {}, id="refused"),
        pytest.param("example.org. A", {}, id="no-next-plugin"),
    ],
)  # fmt: skip
def test_not_learned(twin: ModuleType, question: str, options: dict[str, Any]) -> None:
    memory_server = MemoryServer(block(KUBERNETES), twin, OBJECTS)
    assert not memory_server.stores(question, **options)
    assert memory_server.keeper.table.statistics().entries == 0


def test_pods_that_are_verified_are_not_learned(twin: ModuleType) -> None:
    memory_server = MemoryServer(block(kubernetes("cluster.local", "pods verified")), twin, OBJECTS)
    assert not memory_server.stores("1-2-3-4.default.pod.cluster.local.")


def test_hosts_own_answers_are_not_learned(twin: ModuleType) -> None:
    memory_server = MemoryServer(
        block(hosts("192.0.2.9 web.default.svc.cluster.local")), twin, OBJECTS
    )
    assert not memory_server.stores("web.default.svc.cluster.local.")
    assert memory_server.stores("db.default.svc.cluster.local.")


def many_endpoints(count: int) -> list[EndpointSlice]:
    return [
        endpoint_slice(
            f"default/db-{number}", "db", *(f"10.{number}.0.{host}" for host in range(250))
        )
        for number in range(2, 2 + count)
    ]


def test_what_is_cut_for_a_client_is_learned_whole(twin: ModuleType) -> None:
    memory_server = MemoryServer(block(KUBERNETES), twin, [*OBJECTS, *many_endpoints(1)])
    question = "db.default.svc.cluster.local."
    for edns in (None, Edns(512), Edns(700), Edns(4096)):
        wire = ask(question, edns=edns)
        memory_server.from_chain(wire)
        for protocol in ("udp", "tcp"):
            found = memory_server.from_table(wire, protocol)
            assert found is not None
            assert found == memory_server.from_chain(wire, protocol, stores=False)


SIZES = (
    block(f"bufsize 600\n{KUBERNETES}")
    + block("bufsize 900\nkubernetes sub.cluster.local", "sub.cluster.local:53")
    + block("bufsize 700\ncache\nkubernetes cached.test", "cached.test:53")
)


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("learned", "left", "most"),
    [
        pytest.param("db.default.svc.cluster.local.", "", 600, id="addresses"),
        pytest.param("nope.default.svc.cluster.local.", "other.", 600, id="region"),
        pytest.param("db.default.svc.sub.cluster.local.", "", 900, id="addresses-of-another-block"),
        pytest.param(
            "nope.default.svc.sub.cluster.local.", "other.", 900, id="region-of-another-block"
        ),
        pytest.param("nope.default.svc.cached.test.", "", 700, id="no-region"),
    ],
)
@pytest.mark.parametrize("taught_over", ["udp", "tcp"])
def test_sizes_are_lowered_as_in_the_chain(
    twin: ModuleType, learned: str, left: str, most: int, taught_over: str
) -> None:
    """Each block has its own size, whatever the size and the way of the query that was learned."""
    memory_server = MemoryServer(SIZES, twin, [*OBJECTS, *many_endpoints(1)])
    sizes = [0, 300, 512, 513, 599, 600, 601, 899, 900, 901, 1232, 4096, 65535]
    forms = [
        Edns(size, options=options)
        for size in sizes
        for options in ((), ((10, b"12345678"),), ((3, bytes(200)), (8, b"away"), (12, bytes(99))))
    ]
    for form in (None, forms[-3]):
        memory_server.from_chain(ask(learned, edns=form), taught_over)
    with TableOverUdp(twin) as datagrams:
        for form in (None, *forms, *forms):  # the second time over UDP what is prepared
            wire = ask(f"{left}{learned}", edns=form)
            fast, slow = (
                datagrams.ask(memory_server.keeper.table, wire),
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
    statistics = memory_server.keeper.table.statistics()
    assert statistics.misses == 0
    assert bool(statistics.negative_hits) is bool(left)


@pytest.mark.sockets
@pytest.mark.parametrize(
    "question", ["web.default.svc.cluster.local.", "nope.default.svc.cluster.local."]
)
def test_log_shows_the_lowered_size(
    twin: ModuleType, caplog: pytest.LogCaptureFixture, question: str
) -> None:
    memory_server = MemoryServer(
        block(f'bufsize 600\nlog . "{{>bufsize}} {{size}} {{rsize}}"\n{KUBERNETES}'), twin, OBJECTS
    )
    wires = [ask(question, edns=form) for form in (Edns(4096), Edns(550), Edns(300))]
    with caplog.at_level("INFO", "hsdns.plugin.log"), TableOverUdp(twin) as datagrams:
        for wire in wires:
            memory_server.from_chain(wire)
        assert [datagrams.ask(memory_server.keeper.table, wire) is None for wire in wires] == [
            False
        ] * 3
        keeper = memory_server.keeper
        keeper.write_log(keeper.table.take_log(9), client_endpoint)
    lines = caplog.messages
    assert [line.partition(" ")[0] for line in lines] == ["600", "550", "512"] * 2
    assert lines[:3] == lines[3:]


LOGS = [
    pytest.param("log", id="common"),
    pytest.param('log . "{combined} {class} {size}"', id="combined"),
    pytest.param("log {\nclass denial\n}", id="class"),
    pytest.param('bufsize 600\nlog cluster.local "{common}"', id="lowered"),
    pytest.param("log\nheader {\nresponse set ra\n}", id="header"),
]


@pytest.mark.sockets
@pytest.mark.parametrize("lines", LOGS)
def test_lines_of_the_log_with_and_without_table(
    twin: ModuleType, caplog: pytest.LogCaptureFixture, lines: str
) -> None:
    """Over both doors, but for how long it took."""
    corefile = block(f"{lines}\n{KUBERNETES}")
    memory_server, plain = (
        MemoryServer(corefile, twin, OBJECTS),
        MemoryServer(corefile, None, OBJECTS),
    )
    wires = [
        ask(f"{name}.svc.cluster.local. {qtype}", query_id=number, flags=flags, edns=form)
        for number, form in enumerate(
            (None, Edns(300), Edns(4096, do=True), Edns(1232, options=((10, b"12345678"),)))
        )
        for name in ("web.default", "WEB.default", "nope.default", "db.default", "other.none")
        for qtype, flags in (("A", RD), ("AAAA", CD))
    ]
    for wire in wires:
        memory_server.from_chain(wire)
    keeper, found = memory_server.keeper, []
    with caplog.at_level("INFO", "hsdns.plugin.log"), TableOverUdp(twin) as datagrams:
        for is_v6 in (False, True):
            for fast in (True, False):
                caplog.clear()
                for wire in wires:
                    if not fast:
                        plain.from_chain(wire, "tcp", client=V6 if is_v6 else CLIENT)
                        plain.from_chain(wire, client=client_endpoint(datagrams.address))
                        continue
                    assert memory_server.from_table(wire, "tcp", v6=is_v6) is not None
                    assert datagrams.ask(keeper.table, wire) is not None
                if fast:
                    keeper.write_log(keeper.table.take_log(1 << 20), client_endpoint)
                found.append(
                    [re.sub(r" [0-9.e-]+s( |$)", " DURATION ", line) for line in caplog.messages]
                )
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert len(found[0]) == (56 if "denial" in lines else 2 * len(wires))
    assert found[0] != found[2]


def test_what_is_too_long_is_not_learned(twin: ModuleType) -> None:
    memory_server = MemoryServer(block(KUBERNETES), twin, [*OBJECTS, *many_endpoints(6)])
    assert not memory_server.stores("db.default.svc.cluster.local.")
    assert not memory_server.stores("db.default.svc.cluster.local.", edns=Edns(4096))


@pytest.mark.parametrize(
    ("changes", "learned"),
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
def test_reply_that_may_be_kept(twin: ModuleType, changes: dict[str, Any], learned: int) -> None:
    memory_server = MemoryServer(block(f"bufsize 600\n{KUBERNETES}"), twin, OBJECTS)
    wire = ask("web.default.svc.cluster.local.", edns=Edns(4096))
    query = decode(wire)
    reply = Reply(answer=(RR(query.qname, 1, 5, bytes(4)),), aa=True, fresh=True).replace(**changes)
    memory_server.keeper.enqueue(
        wire, query, reply, encode(query, reply, 512), memory_server.keeper.dependencies()
    )
    memory_server.keeper.flush()
    assert memory_server.keeper.table.statistics().entries == learned


@pytest.mark.parametrize("rotates", [False, True])
def test_addresses_take_turns_where_a_handler_says_so(twin: ModuleType, rotates: bool) -> None:
    text = f"loadbalance\n{KUBERNETES}" if rotates else KUBERNETES
    memory_server = MemoryServer(block(text), twin, OBJECTS)
    wire = ask("db.default.svc.cluster.local.")
    memory_server.from_chain(wire)
    found = [memory_server.from_table(wire) for _ in range(4)]
    assert len(set(found)) == (2 if rotates else 1)
    assert found[:2] == found[2:]


def test_event_between_computing_and_learning(twin: ModuleType) -> None:
    """A reply that was put by before an event is not given after it."""
    memory_server = MemoryServer(block(KUBERNETES), twin, OBJECTS)
    wire = ask("db.default.svc.cluster.local.")
    keeper = memory_server.keeper
    held: list[tuple[Any, ...]] = []
    note = keeper.enqueue
    keeper.enqueue = lambda *found: held.append(found)  # type: ignore[method-assign]  # what was noted is learned later
    memory_server.from_chain(wire)
    memory_server.apply(Upserted(endpoint_slice("default/db-1", "db", "10.0.0.3", version="2")))
    keeper.enqueue = note  # type: ignore[method-assign]  # as it was
    (found,) = held
    note(*found)
    keeper.flush()
    assert memory_server.from_table(wire) is None
    assert keeper.table.statistics().entries == 0
    memory_server.from_chain(wire)
    assert memory_server.from_table(wire) == memory_server.from_chain(wire, stores=False)


def test_deleted_service_is_denied_at_once(twin: ModuleType) -> None:
    memory_server = MemoryServer(block(KUBERNETES), twin, OBJECTS)
    assert memory_server.stores(PLAIN)
    assert memory_server.stores("web.default.svc.cluster.local.")
    memory_server.apply(Deleted(service("default/web", "10.96.0.1", version="3")))
    assert_same(memory_server, "web.default.svc.cluster.local.", is_fast=True)


# --- groups ---


@pytest.mark.parametrize(
    ("text", "plugin"),
    [
        pytest.param(KUBERNETES, None, id="no-prometheus"),
        pytest.param(f"prometheus\n{KUBERNETES}", "kubernetes", id="prometheus"),
        pytest.param(f"prometheus\nerrors\nloadbalance\n{KUBERNETES}", "errors", id="the-next-handler"),
    ],
)  # fmt: skip
def test_groups_count_as_the_chain_would(twin: ModuleType, text: str, plugin: str | None) -> None:
    memory_server = MemoryServer(block(text, "Cluster.Local:53"), twin, OBJECTS)
    wire = ask("web.default.svc.cluster.local.")
    memory_server.from_chain(wire)
    memory_server.from_table(wire, "tcp")
    memory_server.from_table(wire, "tcp", v6=True)
    memory_server.keeper.fold()
    metrics = memory_server.runtime.metrics
    requests = metrics.counter("coredns_dns_requests_total", "").values
    responses = metrics.counter("coredns_dns_responses_total", "").values
    if plugin is None:
        assert requests == responses == {}
        return
    zone = ("dns://:53", "cluster.local.", "")
    assert requests == {
        (*zone, "udp", "1", "A"): 1,
        (*zone, "tcp", "1", "A"): 1,
        (*zone, "tcp", "2", "A"): 1,
    }
    assert responses == {(*zone, "NOERROR", plugin): 3}


@pytest.mark.parametrize(
    ("text", "hits", "misses"),
    [
        pytest.param(KUBERNETES, {}, 0, id="no-cache"),
        pytest.param(f"cache 30 example.org\n{KUBERNETES}", {}, 0, id="another-zone"),
        pytest.param(f"cache\n{KUBERNETES}", {"success": 3, "denial": 3}, 2, id="cache"),
        pytest.param(CACHED + KUBERNETES, {"success": 3}, 5, id="denial-disabled"),
        pytest.param(f"cache {{\ndisable success\n}}\n{KUBERNETES}", {"denial": 3}, 5, id="success-disabled"),
    ],
)  # fmt: skip
def test_cache_counts(twin: ModuleType, text: str, hits: dict[str, int], misses: int) -> None:
    """Four times each: one that the chain answers, three that the table does."""
    memory_server = MemoryServer(block(text), twin, OBJECTS)
    memory_server.runtime.now = time.monotonic()  # learning looks at the real clock
    for question in ("web.default.svc.cluster.local.", "web.default.svc.cluster.local. AAAA"):
        wire = ask(question)
        memory_server.from_chain(wire)
        for _ in range(3):
            assert memory_server.from_table(wire, "tcp") is not None
    memory_server.keeper.fold()
    metrics = memory_server.runtime.metrics
    found = metrics.counter("coredns_cache_hits_total", "", ("", "", "", "")).values
    assert {labels[1]: count for labels, count in found.items()} == hits
    assert sum(metrics.counter("coredns_cache_misses_total", "", ("",)).values.values()) == misses
    requests = metrics.counter("coredns_cache_requests_total", "", ("",)).values
    assert sum(requests.values()) == sum(hits.values()) + misses


def test_cache_counts_what_it_saw(twin: ModuleType) -> None:
    """The name, the kind and the TTL behind `rewrite`, not those of the client's reply."""
    rules = "rewrite continue ttl web.apps.test 0\nrewrite name suffix .apps.test .default.svc.cluster.local answer auto\n"
    memory_server = MemoryServer(
        block(f"{rules}cache 30 cluster.local\n{KUBERNETES}"), twin, OBJECTS
    )
    memory_server.runtime.now = time.monotonic()  # learning looks at the real clock
    wire = ask("web.apps.test.")
    memory_server.from_chain(wire)
    for _ in range(3):
        assert memory_server.from_table(wire, "tcp") == memory_server.from_chain(
            wire, "tcp", stores=False
        )
    memory_server.keeper.fold()
    hits = memory_server.runtime.metrics.counter(
        "coredns_cache_hits_total", "", ("", "", "", "")
    ).values
    assert {labels[1]: count for labels, count in hits.items()} == {"success": 6}


def test_names_that_do_not_exist_count_under_the_blocks_zone(twin: ModuleType) -> None:
    memory_server = MemoryServer(block(f"prometheus\n{KUBERNETES}"), twin, OBJECTS)
    memory_server.from_chain(ask(PLAIN))
    assert memory_server.from_table(ask(SUB), "tcp") is not None
    memory_server.keeper.fold()
    responses = memory_server.runtime.metrics.counter("coredns_dns_responses_total", "").values
    assert responses == {("dns://:53", ".", "", "NXDOMAIN", "kubernetes"): 2}
