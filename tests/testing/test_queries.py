import pytest

from hsdns.testing import Cluster, ClusterError, Queries, Query
from hsdns.testing.pod import Pod, PodIdentity
from hsdns.testing.queries import MOST
from tests.testing.conftest import calls

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


ALL = f"""
  all 4:
    0.000 s  127.0.0.1  udp  {WEB} A  NOERROR
    0.001 s  127.0.0.1  udp  {WEB} AAAA  NOERROR
    0.500 s  client  tcp  web.shop.svc.cluster.local A  NXDOMAIN
    0.600 s  client  udp  example.org.cluster.local A  (no reply)"""


@pytest.mark.parametrize(("call", "expected"), calls("asserts"))
def test_assertions(queries: Queries, call: str, expected: str) -> None:
    if expected == "holds":
        eval(call)
        return
    with pytest.raises((AssertionError, ClusterError)) as raised:
        eval(call)
    text = str(raised.value)
    assert text.replace(ALL, " / all 4:").replace("\n  ", " / ") == expected


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
