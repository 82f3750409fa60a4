"""Every stock Corefile starts unmodified where it expects to be, and answers as CoreDNS does.

README.md says where each comes from.  The same questions are put to CoreDNS, or to what is recorded of it.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.namespaces.node import SERVER_ADDRESS, Node, open_node
from tests.support.peer_replies import PEER, Replayed, asks_peer, hold
from tests.support.scenarios.dig import Question, parse_questions

pytestmark = pytest.mark.sockets

STOCK = Path(__file__).parent
PROGRAMS = {
    "hsdns": [sys.executable, "-m", "hsdns", "-v"],
    "coredns": [PEER],
}

# What every cluster is asked.  TTL is that of the cluster's records, UPSTREAM that of others behind `cache`.
CLUSTER = """\
dig web.default.svc.cluster.local. A
;; NOERROR qr aa rd
;; ANSWER
web.default.svc.cluster.local. TTL IN A 10.96.0.80

dig web.default.svc.cluster.local. AAAA
;; NOERROR qr aa rd
;; AUTHORITY
cluster.local. TTL IN SOA ns.dns.cluster.local. hostmaster.cluster.local. * 7200 1800 86400 TTL

dig _sql._tcp.db.default.svc.cluster.local. SRV
;; NOERROR qr aa rd
;; ANSWER
_sql._tcp.db.default.svc.cluster.local. TTL IN SRV 0 50 5432 db-0.db.default.svc.cluster.local.
_sql._tcp.db.default.svc.cluster.local. TTL IN SRV 0 50 5432 db-1.db.default.svc.cluster.local.
;; ADDITIONAL
db-0.db.default.svc.cluster.local. TTL IN A 10.244.1.6
db-1.db.default.svc.cluster.local. TTL IN A 10.244.1.7

dig nope.default.svc.cluster.local. A
;; NXDOMAIN qr aa rd
;; AUTHORITY
cluster.local. TTL IN SOA ns.dns.cluster.local. hostmaster.cluster.local. * 7200 1800 86400 TTL

dig 80.0.96.10.in-addr.arpa. PTR
;; NOERROR qr aa rd
;; ANSWER
80.0.96.10.in-addr.arpa. TTL IN PTR web.default.svc.cluster.local.

dig 9.2.0.192.in-addr.arpa. PTR
;; NOERROR qr rd ra
;; ANSWER
9.2.0.192.in-addr.arpa. UPSTREAM IN PTR nine.example.org.

dig which.example.org. TXT
;; NOERROR qr rd ra
;; ANSWER
which.example.org. UPSTREAM IN TXT "192.0.2.53 udp"

dig elsewhere.default.svc.cluster.local. A +tcp
;; NOERROR qr aa rd
;; ANSWER
elsewhere.default.svc.cluster.local. TTL IN CNAME www.example.org.
www.example.org. ALIASED IN A 192.0.2.80

dig other.example.org. A
;; NXDOMAIN qr rd ra
"""
POD = """\
dig 10-244-1-9.default.pod.cluster.local. A
;; NOERROR qr aa rd
;; ANSWER
10-244-1-9.default.pod.cluster.local. TTL IN A 10.244.1.9
"""
NO_POD = """\
dig 10-244-1-9.default.pod.cluster.local. A
;; NXDOMAIN qr aa rd
;; AUTHORITY
cluster.local. TTL IN SOA ns.dns.cluster.local. hostmaster.cluster.local. * 7200 1800 86400 TTL
"""


class Stock(NamedTuple):
    """A folder, where its server is asked and what it says to what all are asked; `more` is what only it is asked."""

    name: str
    questions: str = CLUSTER + "\n" + POD
    more: str = ""
    ttl: int = 30
    upstream: int = 30
    aliased: int = 30  # the TTL of an address that an ExternalName leads to
    port: int = 53
    hosts: tuple[str, ...] = (SERVER_ADDRESS,)
    health: str = f"http://{SERVER_ADDRESS}:8080/health"
    ready: str = f"http://{SERVER_ADDRESS}:8181/ready"
    metrics: str = f"http://{SERVER_ADDRESS}:9153/metrics"
    says: tuple[str, ...] = ()  # patterns of lines that it prints
    caches: bool = True  # whether hsdns has the answer table for the block of the cluster


# Each server has its own words for a pattern that no file matches.
NO_FILES = (
    r"\[WARNING\].* import .*custom/\*\.override",
    r"\[WARNING\].* import .*custom/\*\.server",
)
ALL = (
    Stock("kubeadm"),
    Stock("kubeadm-older"),
    Stock("kind"),
    Stock(
        "minikube",
        more="""\
dig host.minikube.internal. A
;; NOERROR qr aa rd
;; ANSWER
host.minikube.internal. 30 IN A 192.168.49.1

dig 1.49.168.192.in-addr.arpa. PTR
;; NOERROR qr aa rd
;; ANSWER
1.49.168.192.in-addr.arpa. 30 IN PTR host.minikube.internal.
""",
        says=(r'^\[INFO\] 10\.244\.0\.1:\d+ - \d+ "A IN web\.default\.svc\.cluster\.local\. udp 47 false 512" NOERROR qr,aa,rd 92 ',),
    ),
    Stock(
        "k3s",
        ttl=5,
        aliased=5,
        more="""\
dig node-1. A
;; NOERROR qr aa rd
;; ANSWER
node-1. 30 IN A 192.0.2.11

dig 12.2.0.192.in-addr.arpa. PTR
;; NOERROR qr aa rd
;; ANSWER
12.2.0.192.in-addr.arpa. 30 IN PTR node-2.
""",
        says=NO_FILES,
    ),
    Stock(
        "deployment",
        CLUSTER + "\n" + NO_POD,
        ttl=5,
        aliased=5,
        more="""\
dig which.corp.example.org. TXT
;; NOERROR qr rd ra
;; ANSWER
which.corp.example.org. 30 IN TXT "10.150.0.1 udp"

dig 1.2.111.10.in-addr.arpa. PTR
;; NXDOMAIN qr rd ra

dig 0.112.10.in-addr.arpa. SOA
;; NXDOMAIN qr rd ra
""",
    ),
    Stock("helm"),
    Stock("eks", ttl=5, aliased=5),
    Stock(
        "aks",
        more="""\
dig web.default.internal.cloudapp.net. A
;; NXDOMAIN qr rd ra

dig a.b.c.d.internal.cloudapp.net. A
;; NXDOMAIN qr aa rd

dig anything.reddog.microsoft.com. A
;; NXDOMAIN qr aa rd
""",
        says=NO_FILES,
    ),
    Stock(
        "aks-2023",
        says=NO_FILES,
    ),
    Stock("gardener-base", port=8053, says=NO_FILES),
    Stock(
        "gardener",
        port=8053,
        more="""\
dig web.default.svc.cluster.local.svc.cluster.local. A
;; NOERROR qr aa rd
;; ANSWER
web.default.svc.cluster.local.svc.cluster.local. 30 IN A 10.96.0.80

dig which.example.org.svc.cluster.local. TXT
;; NOERROR qr aa rd ra
;; ANSWER
which.example.org.svc.cluster.local. 30 IN TXT "192.0.2.53 udp"
""",
    ),
    Stock(
        "openshift",
        ttl=5,
        upstream=300,
        aliased=5,
        port=5353,
        metrics="",  # on the Pod's loopback, for a proxy beside it
        more="""\
dig which.corp.example.org. TXT
;; NOERROR qr rd ra
;; ANSWER
which.corp.example.org. 300 IN TXT "10.150.0.1 udp"

dig which.secure.example.org. TXT
;; NOERROR qr rd ra
;; ANSWER
which.secure.example.org. 300 IN TXT "192.0.2.54 tls"

dig which.private.example.org. TXT +tcp
;; NOERROR qr rd ra
;; ANSWER
which.private.example.org. 300 IN TXT "192.0.2.54 tls"

dig web.default.svc.cluster.local. A +bufsize=4096
;; NOERROR qr aa rd
;; OPT size=512
;; ANSWER
web.default.svc.cluster.local. 5 IN A 10.96.0.80

dig web.default.svc.cluster.local. A +bufsize=1232
;; NOERROR qr aa rd
;; OPT size=512
;; ANSWER
web.default.svc.cluster.local. 5 IN A 10.96.0.80

dig web.default.svc.cluster.local. A +tcp +bufsize=1232
;; NOERROR qr aa rd
;; OPT size=512
;; ANSWER
web.default.svc.cluster.local. 5 IN A 10.96.0.80

dig nope.default.svc.cluster.local. A +bufsize=1232
;; NXDOMAIN qr aa rd
;; OPT size=512
;; AUTHORITY
cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. * 7200 1800 86400 5

dig hostname.bind. CH TXT
;; NOERROR qr rd
;; ANSWER
hostname.bind. 0 CH TXT "HOSTNAME"
""",
    ),
    Stock(
        "kubespray",
        ttl=5,
        aliased=5,
        more="""\
dig which.corp.example.org. TXT
;; NOERROR qr rd ra
;; ANSWER
which.corp.example.org. 5 IN TXT "10.150.0.1 udp"

dig site.corp.example.org. A
;; NOERROR qr rd ra
;; ANSWER
site.corp.example.org. 30 IN A 10.96.0.80

dig api.example.org. A
;; NOERROR qr aa rd
;; ANSWER
api.example.org. 30 IN A 192.0.2.100

dig web.default.k8s_external.local. A
;; NOERROR qr aa rd
;; ANSWER
web.default.k8s_external.local. 5 IN A 192.0.2.90

dig nope.default.k8s_external.local. A
;; NXDOMAIN qr aa rd
;; AUTHORITY
k8s_external.local. 5 IN SOA ns1.dns.k8s_external.local. hostmaster.dns.k8s_external.local. * 7200 1800 86400 5
""",
    ),
    Stock("talos"),
    Stock(
        "nodelocal",
        """\
dig web.default.svc.cluster.local. A
;; NOERROR qr rd ra
;; ANSWER
web.default.svc.cluster.local. 30 IN A 10.96.0.80

dig which.cluster.local. TXT
;; NOERROR qr rd ra
;; ANSWER
which.cluster.local. 30 IN TXT "10.96.0.11 tcp"

dig 80.0.96.10.in-addr.arpa. PTR +tcp
;; NOERROR qr rd ra
;; ANSWER
80.0.96.10.in-addr.arpa. 30 IN PTR web.default.svc.cluster.local.

dig which.ip6.arpa. TXT
;; NOERROR qr rd ra
;; ANSWER
which.ip6.arpa. 30 IN TXT "10.96.0.11 tcp"

dig which.example.org. TXT
;; NOERROR qr rd ra
;; ANSWER
which.example.org. 30 IN TXT "192.0.2.53 udp"
""",
        hosts=("169.254.20.10", "10.96.0.10"),
        health="http://169.254.20.10:8080/health",
        ready="",
        metrics=f"http://{SERVER_ADDRESS}:9253/metrics",
        caches=False,  # it asks the cluster's DNS for all
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node, for all Corefiles one after the other."""
    found = open_node()
    yield found
    found.__exit__()


def files_of(name: str) -> dict[str, str]:
    """What stands in /etc/coredns, by its path under /etc."""
    folder = STOCK / name
    found = [path for path in folder.rglob("*") if path.is_file()]
    return {f"coredns/{path.relative_to(folder)}": path.read_text() for path in found}


def questions_of(stock: Stock, *, hostname: str) -> list[Question]:
    """What a folder's server is asked, and the replies that are right."""
    text = f"{stock.questions}\n{stock.more}"
    for word, value in (
        ("UPSTREAM", str(stock.upstream)),
        ("ALIASED", str(stock.aliased)),
        ("TTL", str(stock.ttl)),
        ("HOSTNAME", hostname),
    ):
        text = text.replace(word, value)
    return parse_questions(text)


@pytest.mark.parametrize("stock", ALL, ids=lambda stock: str(stock.name))
def test_recorded(stock: Stock) -> None:
    recorded = Replayed(f"stock/{stock.name}")
    found: list[str] = []
    for question in questions_of(stock, hostname="server"):
        wrong = question.expected.differences(question, recorded.reply(question.wire()))
        found += [f"dig {question.text}", *wrong] if wrong else []
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "program", ["hsdns", pytest.param("coredns", marks=[pytest.mark.peer, asks_peer])]
)
@pytest.mark.parametrize("stock", ALL, ids=lambda stock: str(stock.name))
def test_starts_and_answers(node: Node, stock: Stock, program: str) -> None:
    node.start([*PROGRAMS[program], "-conf", "/etc/coredns/Corefile"], files_of(stock.name))
    found: list[str] = []
    replies: list[bytes] = []
    hostname = os.uname().nodename
    for host, question in zip(cycle(stock.hosts), questions_of(stock, hostname=hostname), strict=False):  # fmt: skip
        reply = node.ask((host, stock.port), question.wire(), question.protocol)
        wrong = question.expected.differences(question, reply)
        found += [f"dig @{host} {question.text}", *wrong] if wrong else []
        replies.append(_without_hostname(reply, hostname.encode()))
    if program == "coredns":
        hold(f"stock/{stock.name}", replies)
    pages = {stock.health: "OK", stock.ready: "OK", stock.metrics: "\ncoredns_dns_requests_total{"}
    for url, wanted in pages.items():
        if url:
            status, body = node.get(url)
            if status != 200 or wanted not in body:
                found.append(f"{url}: {status} {body[:100]}")
    status, printed = node.stop()
    found += [
        f"does not print {line}"
        for line in stock.says
        if not re.search(line, printed, re.MULTILINE)
    ]
    if program == "hsdns":
        is_cached = f".:{stock.port}: answers are cached in the answer table" in printed
        found += [f"caches answers: {is_cached}"] if is_cached is not stock.caches else []
    found += [line for line in printed.splitlines() if line.startswith(("[ERROR]", "[FATAL]"))]
    assert not found, "\n".join(found)
    assert status == 0


def _without_hostname(reply: bytes, hostname: bytes) -> bytes:
    """A reply as a machine with the name `server` gives it: RDLENGTH, then the length of the character string."""
    end = (len(hostname) + 1).to_bytes(2, "big") + bytes([len(hostname)]) + hostname
    return reply.removesuffix(end) + b"\0\7\6server" if reply.endswith(end) else reply


def test_every_folder_is_started() -> None:
    assert {stock.name for stock in ALL} == {path.parent.name for path in STOCK.glob("*/Corefile")}


def test_kind_has_the_file_of_kubeadm() -> None:
    assert files_of("kind") == files_of("kubeadm")
