import socket
from datetime import timedelta  # noqa: F401 - for the calls

import dns.message
import dns.query
import pytest

from hsdns.testing import Cluster, ClusterError, Do, Fault, When
from hsdns.testing.pod import PodIdentity
from tests.testing.asking import ask
from tests.testing.conftest import calls

pytestmark = pytest.mark.sockets
WEB = "web.default.svc.cluster.local"


@pytest.fixture(autouse=True)
def _web(cluster: Cluster) -> None:
    cluster.service("web", headless=True).endpoints("10.0.0.1", "fd00::1")


def send(cluster: Cluster, name: str, rrtype: str) -> None:
    """Send a query whose reply is not waited for."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        wire = dns.message.make_query(name, rrtype).to_wire()
        sock.sendto(wire, (cluster.address, cluster.port))


def test_it_stands_as_long_as_the_with(cluster: Cluster) -> None:
    """The one reply with all its sections; the others as text."""
    with cluster.fault(Do.NXDOMAIN, When.TYPE("AAAA")) as fault:
        query = dns.message.make_query(WEB, "AAAA")
        reply = dns.query.udp(query, cluster.address, port=cluster.port, timeout=30)
        soa = "cluster.local. 30 IN SOA ns.dns.cluster.local. hostmaster.cluster.local."
        assert reply.to_text().splitlines()[1:] == [
            "opcode QUERY", "rcode NXDOMAIN", "flags QR AA RD", ";QUESTION", f"{WEB}. IN AAAA",
            ";ANSWER", ";AUTHORITY", f"{soa} 0 7200 1800 86400 30".replace(" 0 7200", f" {serial(reply)} 7200"), ";ADDITIONAL",
        ]  # fmt: skip
        assert ask(cluster, WEB) == ["10.0.0.1"]
        assert fault.hits == 1
    assert ask(cluster, WEB, "AAAA") == ["fd00::1"]
    assert fault.hits == 1, "of those that came in time"
    assert [each.faults for each in cluster.queries] == [("nxdomain-1",), (), ()]
    assert fault.rule == "nxdomain type AAAA seed 1 named nxdomain-1"


def serial(reply: dns.message.Message) -> int:
    number: int = reply.authority[0][0].serial
    return number


def test_a_query_whose_reply_is_lost_is_a_hit_at_once(cluster: Cluster) -> None:
    with cluster.fault("drop type AAAA times 2") as fault:
        for count in range(1, 4):
            send(cluster, WEB, "AAAA")
            assert fault.hits == min(count, 2)
    assert [each.rcode for each in cluster.queries] == [None, None, "NOERROR"]


def test_faults_follow_each_other(cluster: Cluster) -> None:
    with cluster.fault("ttl 5", When.NAME("web")) as ttl, cluster.fault("cut 0", "type A") as cut:
        assert ask(cluster, WEB) == ["NOERROR"]
        assert ask(cluster, WEB, "AAAA") == ["fd00::1"]
    assert (ttl.hits, cut.hits) == (2, 1)
    assert [each.faults for each in cluster.queries] == [("ttl-1", "cut-1"), ("ttl-1",)]


def test_old_state_is_served(cluster: Cluster) -> None:
    with cluster.fault("freeze") as fault:
        assert ask(cluster, WEB) == ["10.0.0.1"]
        cluster["web"].endpoints("10.0.0.2")
        assert ask(cluster, WEB) == ["10.0.0.1"]
    assert fault.hits == 1
    assert ask(cluster, WEB) == ["10.0.0.1", "10.0.0.2"]


def test_connections_are_counted(cluster: Cluster) -> None:
    with cluster.fault("refuse") as fault:
        assert ask(cluster, WEB) == ["10.0.0.1"]
        for _ in range(2):
            with pytest.raises(ConnectionResetError):
                ask(cluster, WEB, tcp=True)
        assert repr(fault) == '<Fault "refuse": 2 connections>'
        assert fault.report() == ["the fault hit 2 connections: refuse", f"  {cluster.queries[0]}"]
        assert cluster.queries[0].faults == ()
    assert ask(cluster, WEB, tcp=True) == ["10.0.0.1"]


def test_a_restart_keeps_the_objects(cluster: Cluster) -> None:
    port = cluster.port
    with cluster.fault("restart") as fault:
        assert ask(cluster, WEB) == ["10.0.0.1"]
        assert repr(fault) == '<Fault "restart": 1 restart>'
    cluster["web"]["10.0.0.1"].not_ready()
    cluster.wait_answer("web", ["fd00::1"])
    assert ask(cluster, WEB) == ["NOERROR"]
    assert (cluster.port, len(cluster.queries)) == (port, 2)


def test_it_is_dead_as_long_as_the_with(cluster: Cluster) -> None:
    with cluster.fault("die 1h") as fault:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((cluster.address, cluster.port))
        cluster["web"].endpoints("10.0.0.2")
    assert fault.hits == 1
    assert ask(cluster, WEB) == ["10.0.0.1", "10.0.0.2"]


def test_another_fault_of_a_dead_server(cluster: Cluster) -> None:
    with cluster.fault("freeze") as frozen, cluster.fault("die 1h"):
        with pytest.raises(ClusterError) as caught, cluster.fault("drop"):
            pass
        assert str(caught.value) == (
            'the fault "drop seed 3": the server is killed by another fault; begin this one before that one'
        )
        frozen.__exit__()  # which does not wait until it is back
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((cluster.address, cluster.port))
    assert ask(cluster, WEB) == ["10.0.0.1"]


def test_a_wait_meets_no_fault(cluster: Cluster) -> None:
    with cluster.fault("nxdomain") as fault:
        cluster["web"]["10.0.0.1"].not_ready()
        cluster.wait_answer("web", ["fd00::1"])
    assert fault.hits == 0


def test_the_same_seed_does_the_same() -> None:
    def run(seed: int | None = None) -> tuple[int, str]:
        with (
            Cluster() as cluster,
            cluster.fault("rcode SERVFAIL", When.SHARE(0.5), seed=seed) as fault,
        ):
            for number in range(20):
                ask(cluster, f"n{number}.cluster.local")
        return int(fault.hits), fault.digest

    assert 0 < run()[0] < 20
    assert run() == run(seed=1)
    assert run() != run(seed=2)


def test_it_is_about_a_pod(cluster: Cluster) -> None:
    """As the sockets of a pod would ask, without its namespaces."""
    shop, other = cluster.pod("shop", namespace="eu"), cluster.pod("other")
    with cluster.fault("rcode REFUSED", When.POD(shop)) as fault, cluster.fault(f"drop client {other.address}") as drop:  # fmt: skip
        for pod in (shop, other):
            udp, tcp = (socket.socket(type=kind) for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM))  # fmt: skip
            for each in (udp, tcp):
                each.bind(("127.0.0.1", 0))
                each.setblocking(False)
            tcp.listen()
            identity = PodIdentity(pod.name, pod.namespace, pod.address)
            address = udp.getsockname()
            cluster.server.add_pod(identity, udp, tcp)
            with socket.socket(type=socket.SOCK_DGRAM) as sock:
                sock.sendto(dns.message.make_query(WEB, "A").to_wire(), address)
                cluster.queries.assert_asked(WEB, "A", from_=pod)
        assert ask(cluster, WEB) == ["10.0.0.1"]
    assert (fault.hits, drop.hits) == (1, 1)
    assert [(each.client, each.rcode, each.faults) for each in cluster.queries] == [
        ("shop", "REFUSED", ("rcode-1",)), ("other", None, ("drop-1",)), ("127.0.0.1", "NOERROR", ())
    ]  # fmt: skip


def test_a_failure_shows_what_came(cluster: Cluster) -> None:
    with cluster.fault("nodata", When.TYPE("SRV")) as fault:
        with pytest.raises(AssertionError, match=r"^0 hits\nthe fault hit nothing, as no query came: nodata type SRV$"):  # fmt: skip
            fault.assert_hits()
        ask(cluster, WEB)
        with pytest.raises(AssertionError) as raised:
            fault.assert_hits(2)
        assert str(raised.value).splitlines() == [
            "0 hits, not 2",
            "the fault hit 0 of 1 query: nodata type SRV",
            f"  {cluster.queries[0]}",
        ]
        for _ in range(10):
            ask(cluster, WEB, "SRV")
        fault.assert_hits(10)
    ask(cluster, WEB)
    fault.assert_hits()
    assert repr(fault) == '<Fault "nodata type SRV": 10 of 11 queries>'
    assert fault.report() == [
        "the fault hit 10 of 11 queries: nodata type SRV",
        "  the last 10:",
        *(f"  {each}" for each in cluster.queries[1:11]),
    ]
    assert str(cluster.queries[1]).endswith("SRV  NOERROR  by nodata-1")


@pytest.mark.parametrize("use", ["hits", "rule", "digest", "assert_hits()"])
def test_use_before_the_with(cluster: Cluster, use: str) -> None:
    with pytest.raises(ClusterError) as raised:
        eval(f"fault.{use}", {"fault": cluster.fault("drop")})
    assert str(raised.value) == (
        '<Fault "drop seed 1" that was not started> has done nothing yet; use it in `with cluster.fault(...) as fault:`'
    )
    assert ask(cluster, WEB) == ["10.0.0.1"]


def test_a_second_with(cluster: Cluster) -> None:
    with cluster.fault("drop times 1") as fault:
        pass
    with pytest.raises(ClusterError) as raised:
        fault.__enter__()
    assert str(raised.value) == '<Fault "drop": nothing, as no query came> starts once; make another one with cluster.fault()'  # fmt: skip


def test_it_ends_with_the_cluster() -> None:
    with Cluster() as cluster:
        fault = cluster.fault("nxdomain").__enter__()
        ask(cluster, WEB)
    assert fault.hits == 1
    fault.__exit__()


def test_rules_that_exclude_each_other(cluster: Cluster) -> None:
    with cluster.fault("drop", named="first"), pytest.raises(ClusterError) as raised:
        cluster.fault("nxdomain").__enter__()
    assert str(raised.value) == (
        'the fault "nxdomain seed 2": it excludes the rule "first" (drop), which answers the same queries; '
        "remove one of the two"
    )
    assert ask(cluster, WEB) == ["10.0.0.1"]


@pytest.mark.parametrize(("call", "words"), calls("faults"))
def test_words(cluster: Cluster, call: str, words: str) -> None:
    made = eval(call)
    fault = made if isinstance(made, Fault) else made[-1]
    assert repr(fault) == f'<Fault "{words}" that was not started>'
