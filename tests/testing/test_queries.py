from collections.abc import Callable

import pytest

from hsdns.testing import Cluster, ClusterError, Queries, Query
from hsdns.testing.pod import Pod, PodIdentity
from hsdns.testing.queries import MOST

SVC = "default.svc.cluster.local"
WEB = f"web.{SVC}"


POD = Pod(Cluster(), PodIdentity("client", "shop", "10.245.0.1"))
CAME = (
    Query(0.0, "127.0.0.1", "udp", WEB, "A", "NOERROR"),
    Query(0.001, "127.0.0.1", "udp", WEB, "AAAA", "NOERROR"),
    Query(0.5, "client", "tcp", "web.shop.svc.cluster.local", "A", "NXDOMAIN"),
    Query(0.6, "client", "udp", "example.org.cluster.local", "A"),
)


@pytest.fixture
def queries() -> Queries:
    made = Queries(lambda: None, lambda: ["client", "other"])
    for each in CAME:
        made.note(each)
    return made


HOLDS: list[Callable[[Queries], None]] = [
    lambda queries: queries.assert_asked(WEB),
    lambda queries: queries.assert_asked(WEB, "A"),
    lambda queries: queries.assert_asked(WEB + ".", "aaaa"),
    lambda queries: queries.assert_asked("WEB", "A", from_="127.0.0.1"),
    lambda queries: queries.assert_asked("web.default", times=2),
    lambda queries: queries.assert_asked("web", from_=POD, times=1),
    lambda queries: queries.assert_asked("web.shop", from_="client"),
    lambda queries: queries.assert_asked("example.org", "A", times=1),
    lambda queries: queries.assert_asked("nothing", times=0),
    lambda queries: queries.assert_not_asked("example.org."),
    lambda queries: queries.assert_not_asked("web", "SRV"),
    lambda queries: queries.assert_not_asked(WEB, from_=POD),
    lambda queries: queries.assert_not_asked("web", from_="other"),
    lambda queries: queries.assert_order(WEB, (WEB, "AAAA"), "example.org"),
    lambda queries: queries.assert_order("web", from_=POD),
]


@pytest.mark.parametrize("call", HOLDS)
def test_assertion_holds(queries: Queries, call: Callable[[Queries], None]) -> None:
    call(queries)


ALL = f"""
  all 4:
    0.000 s  127.0.0.1  udp  {WEB} A  NOERROR
    0.001 s  127.0.0.1  udp  {WEB} AAAA  NOERROR
    0.500 s  client  tcp  web.shop.svc.cluster.local A  NXDOMAIN
    0.600 s  client  udp  example.org.cluster.local A  (no reply)"""
FAILS: list[tuple[Callable[[Queries], None], str]] = [
    (
        lambda queries: queries.assert_asked("wbe", "AAAA"),
        f"no query wbe AAAA came\n  nearest: 0.001 s  127.0.0.1  udp  {WEB} AAAA  NOERROR{ALL}",
    ),
    (
        lambda queries: queries.assert_asked("web", "A", from_="other"),
        f"no query web A from other came\n  nearest: 0.000 s  127.0.0.1  udp  {WEB} A  NOERROR{ALL}",
    ),
    (
        lambda queries: queries.assert_asked("web", "A", from_="127.0.0.1", times=2),
        f"1 query web A from 127.0.0.1 came, not 2\n  nearest: 0.000 s  127.0.0.1  udp  {WEB} A  NOERROR{ALL}",
    ),
    (
        lambda queries: queries.assert_not_asked("web.default"),
        "2 queries web.default (any type) came, and none was expected:\n"
        f"  0.000 s  127.0.0.1  udp  {WEB} A  NOERROR\n  0.001 s  127.0.0.1  udp  {WEB} AAAA  NOERROR",
    ),
    (
        lambda queries: queries.assert_order((WEB, "AAAA"), (WEB, "A")),
        f"no query {WEB} A came after {WEB} AAAA\n  nearest: 0.000 s  127.0.0.1  udp  {WEB} A  NOERROR{ALL}",
    ),
]


@pytest.mark.parametrize(("call", "text"), FAILS)
def test_failure_shows_the_nearest(queries: Queries, call: Callable[[Queries], None], text: str) -> None:  # fmt: skip
    with pytest.raises(AssertionError) as raised:
        call(queries)
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda queries: queries.assert_asked("web", "AAA"), 'there is no record type "AAA"; did you mean "AAAA"?'),
        (lambda queries: queries.assert_asked("web", "777"), 'there is no record type "777"; write one such as A, NS, CNAME, SOA'),
        (lambda queries: queries.assert_not_asked("web", from_="clint"), 'there is no pod "clint"; did you mean "client"?'),
    ],
)  # fmt: skip
def test_bad_input(queries: Queries, call: Callable[[Queries], None], sentence: str) -> None:
    with pytest.raises(ClusterError) as raised:
        call(queries)
    assert str(raised.value) == sentence


def test_it_is_a_sequence_that_can_be_cleared(queries: Queries) -> None:
    assert len(queries) == 4
    assert queries[0] is CAME[0]
    assert queries[1:3] == [*CAME[1:3]]
    assert [each.name for each in queries] == [each.name for each in CAME]
    queries.clear()
    assert not queries
    with pytest.raises(AssertionError, match=r"^no query web A came; no query came at all$"):
        queries.assert_asked("web", "A")


def test_what_is_not_noted_is_not_denied(queries: Queries) -> None:
    for _ in range(MOST):
        queries.note(CAME[3])
    assert len(queries) == MOST
    sentence = "100004 queries came, and only the last 100000"
    with pytest.raises(ClusterError, match=sentence):
        queries.assert_not_asked(WEB)
    with pytest.raises(ClusterError, match=sentence):
        queries.assert_asked(WEB, times=2)
    queries.clear()
    queries.assert_not_asked(WEB)
