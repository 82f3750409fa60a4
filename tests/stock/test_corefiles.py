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
from tests.support.tables import section, sections

pytestmark = pytest.mark.sockets

STOCK = Path(__file__).parent
PROGRAMS = {"hsdns": [sys.executable, "-m", "hsdns", "-v"], "coredns": [PEER]}

QUESTIONS = STOCK / "questions.txt"


class Stock(NamedTuple):
    """A folder, where its server is asked, and what: sections of QUESTIONS, and that of its name if there is one."""

    name: str
    questions: tuple[str, ...] = ("cluster", "pod")
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
        says=(r'^\[INFO\] 10\.244\.0\.1:\d+ - \d+ "A IN web\.default\.svc\.cluster\.local\. udp 47 false 512" NOERROR qr,aa,rd 92 ',),
    ),
    Stock("k3s", ttl=5, aliased=5, says=NO_FILES),
    Stock("deployment", ("cluster", "no pod"), ttl=5, aliased=5),
    Stock("helm"),
    Stock("eks", ttl=5, aliased=5),
    Stock("aks", says=NO_FILES),
    Stock("aks-2023", says=NO_FILES),
    Stock("gardener-base", port=8053, says=NO_FILES),
    Stock("gardener", port=8053),
    Stock(
        "openshift",
        ttl=5,
        upstream=300,
        aliased=5,
        port=5353,
        metrics="",  # on the Pod's loopback, for a proxy beside it
    ),
    Stock("kubespray", ttl=5, aliased=5),
    Stock("talos"),
    Stock(
        "nodelocal",
        (),
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
    own = [stock.name] if stock.name in sections(QUESTIONS) else []
    text = "\n\n".join(section(QUESTIONS, each) for each in [*stock.questions, *own])
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
