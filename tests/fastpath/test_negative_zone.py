"""Names that do not exist, answered from one template."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.fastpath.key import read_query
from hsdns.wire.edns import Edns
from hsdns.wire.iana import RRType
from hsdns.wire.message import AD, CD, RD, nxdomain
from hsdns.wire.name import Name
from tests import strategies
from tests.fastpath.test_entry import modules
from tests.fastpath.twins import WEB, TableUnderTest, addresses, ask, soa, to_wire
from tests.support.tables import section, values

TABLES = Path(__file__).with_name("tables.txt")

NX = "nope.cluster.local."


def table_with_zone(twin: ModuleType, **options: Any) -> TableUnderTest:
    """A cluster with one Service, web in default, a namespace without any, and a negative zone with template.

    web has an endpoint, a port and topology zones.
    """
    under_test = TableUnderTest(twin)
    assert under_test.add_negative_zone(**options) == 0
    under_test.names.add_namespace(b"default")
    under_test.names.add_namespace(b"empty")
    under_test.names.add_service(b"default", b"web")
    under_test.names.add_labels(b"default", b"web", [b"\5pod-0", b"\4http\3tcp", b"\5_zone"])
    under_test.names.serial = 1
    assert under_test.set_template()
    return under_test


TABLE = Path(__file__).with_name("names.txt")
ABSENT = section(TABLE, "absent").splitlines()
LEFT_TO_CHAIN = section(TABLE, "left to the chain").splitlines()
ROWS = [(text, True) for text in ABSENT] + [(text, False) for text in LEFT_TO_CHAIN]


@pytest.mark.parametrize(("text", "absent"), ROWS, ids=[*ABSENT, *LEFT_TO_CHAIN])
def test_name(twin: ModuleType, text: str, absent: bool) -> None:
    under_test = table_with_zone(twin)
    query = ask(text)
    expected = to_wire(query, nxdomain(soa())) if absent else None
    assert under_test.lookup(query) == expected
    statistics = under_test.table.statistics()
    assert (statistics.negative_hits, statistics.misses) == (absent, not absent)
    assert (statistics.entries, statistics.octets, statistics.hits) == (0, 0, 0)


def test_names_come_and_go(twin: ModuleType) -> None:
    under_test = table_with_zone(twin)
    new, absent = ask("new.default.svc.cluster.local."), nxdomain(soa())
    assert under_test.lookup(new) == to_wire(new, absent)
    under_test.names.add_service(b"default", b"new")
    assert under_test.lookup(new) is None
    under_test.names.remove_service(b"default", b"new")
    assert under_test.lookup(new) == to_wire(new, absent)
    under_test.names.remove_namespace(b"default")
    web = ask(WEB)
    assert under_test.lookup(web) == to_wire(web, absent)


@pytest.mark.parametrize(("qtype", "group"), [(1, 4), (28, 5), (16, None), (255, None), (6, None)])
def test_types_are_those_with_a_group(twin: ModuleType, qtype: int, group: int | None) -> None:
    under_test = table_with_zone(twin)
    assert (under_test.lookup(ask(NX, qtype)) is not None) is (group is not None)
    assert list(under_test.cells()) == ([] if group is None else [(group, True)])


@pytest.mark.parametrize(("text", "absent"), values(TABLES, "exclusions"))
def test_exclusions(twin: ModuleType, text: str, absent: bool) -> None:
    exclusions = (
        "excluded.cluster.local.",
        "deep.gone.default.svc.cluster.local.",
        "elsewhere.org.",
    )
    under_test = table_with_zone(twin, exclusions=exclusions)
    assert (under_test.lookup(ask(text)) is not None) is absent


@pytest.mark.parametrize("exclusion", ["cluster.local.", "local.", "."])
def test_an_exclusion_as_large_as_the_zone(twin: ModuleType, exclusion: str) -> None:
    under_test = table_with_zone(twin, exclusions=(exclusion,))
    assert under_test.lookup(ask(NX)) is None


def test_an_entry_takes_precedence(twin: ModuleType) -> None:
    under_test = table_with_zone(twin)
    query = ask(NX)
    assert under_test.store(query, addresses(query), dependencies=[(9, 0)])
    assert under_test.lookup(query) == to_wire(query, addresses(query))
    under_test.versions.bump(9)
    assert under_test.lookup(query) == to_wire(query, nxdomain(soa()))
    assert under_test.table.statistics().stale == 1


LONG = ".".join(["x" * 63] * 3 + ["y" * 40]) + ".cluster.local."


@given(st.data())
def test_any_query_gets_what_encode_makes(data: st.DataObject) -> None:
    left = data.draw(
        st.lists(
            st.sampled_from(["a", "WWW", "x" * 63, "Example", "org", "svcs"]),
            min_size=1,
            max_size=3,
        )
    )
    query = ask(
        ".".join([*left, "nsvc", "Cluster.LOCAL."]),
        data.draw(st.sampled_from([1, 28])),
        data.draw(st.integers(0, 65535)),
        data.draw(st.sampled_from([0, RD, CD, AD, RD | CD])),
        data.draw(st.none() | strategies.edns),
    )
    limit = data.draw(st.sampled_from([512, 100, 200, 65535]))
    serial = data.draw(st.integers(0, 2**32 - 1))
    for twin in modules():
        under_test = table_with_zone(twin)
        under_test.names.serial = serial
        expected = to_wire(query, nxdomain(soa(serial)), limit)
        assert under_test.lookup(query, limit) == (expected if read_query(query) else None)


@pytest.mark.parametrize(("mark_ttl", "misses"), [(0, 1), (-1, 0)])
def test_counting(twin: ModuleType, mark_ttl: int, misses: int) -> None:
    under_test = table_with_zone(twin, mark_ttl=mark_ttl)
    for text in (NX, LONG):
        query = ask(text, 28)
        assert under_test.lookup(query, v6=True) is not None
        [((group, is_tcp), cells)] = under_test.cells().items()
        assert (group, is_tcp) == (5, True)
        assert (cells[0], cells[1], cells[2]) == (0, 1, 0)
        assert cells[18] == len(query)
        # The octets of this reply without compression: its own question, the SOA record with all its names.
        names = sum(len(Name.from_text(name).wire) for name in
                    ("cluster.local.", "ns.dns.cluster.local.", "hostmaster.cluster.local."))  # fmt: skip
        assert cells[34] == len(query) + 10 + 20 + names
        assert (cells[53], cells[54]) == (0, misses)


def test_queries_with_edns_can_be_left_to_the_chain(twin: ModuleType) -> None:
    under_test = TableUnderTest(twin)
    under_test.add_negative_zone(no_edns=True)
    assert under_test.set_template(edns=Edns(1232))
    name = "absent.cluster.local."
    for _ in range(3):
        assert under_test.lookup(ask(name)) is not None
        assert under_test.lookup(ask(name, edns=Edns(1232))) is None


@pytest.mark.parametrize("text", values(TABLES, "names of services are listed"))
@pytest.mark.parametrize("options", [{}, {"qtype": RRType.MX}, {"edns": Edns(1232, do=True)}])
def test_names_of_services_are_listed(twin: ModuleType, text: str, options: dict[str, Any]) -> None:
    under_test = table_with_zone(twin)
    assert under_test.table.is_listed(ask(text, **options))
    under_test.names.open = False
    assert not under_test.table.is_listed(ask(text, **options))


@pytest.mark.parametrize(
    "text",
    [
        *ABSENT,
        "cluster.local.",
        "svc.cluster.local.",
        "default.svc.cluster.local.",
        "_http._tcp.web.default.svc.cluster.local.",
        "_._tcp.web.default.svc.cluster.local.",
        "zone-a.prefer._zone.web.default.svc.cluster.local.",
        "10-0-0-1.default.pod.cluster.local.",
        "x.10-0-0-1.default.pod.cluster.local.",
        "ns.dns.cluster.local.",
        "www.example.org.",
        ".",
    ],
)
def test_no_other_name_is_listed(twin: ModuleType, text: str) -> None:
    """What can be made up without end, above all."""
    assert not table_with_zone(twin).table.is_listed(ask(text))


def test_what_is_no_query_is_not_listed(twin: ModuleType) -> None:
    under_test, query = table_with_zone(twin), ask()
    for other in (b"", query[:-1], query[:2] + b"\x29\x00" + query[4:]):
        assert not under_test.table.is_listed(other)
    assert not TableUnderTest(twin).table.is_listed(query), "without a zone"
