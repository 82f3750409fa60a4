"""The programs of a pod resolve cluster names through hsdns on port 53, with a pod's resolv.conf and no other help."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator

import pytest

from tests.stock.test_corefiles import PROGRAMS, files_of
from tests.support.namespaces.node import Node, open_node

pytestmark = pytest.mark.sockets

WEB, OUTSIDE = "10.96.0.80", "192.0.2.80"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node with kubeadm's Corefile."""
    found = open_node()
    try:
        found.start([*PROGRAMS["hsdns"], "-conf", "/etc/coredns/Corefile"], files_of("kubeadm"))
        yield found
    finally:
        found.__exit__()


def test_resolv_conf_is_that_of_a_pod(node: Node) -> None:
    status, text = node.run("cat", "/etc/resolv.conf")
    assert status == 0
    assert text.splitlines() == [
        "nameserver 10.96.0.10",
        "search default.svc.cluster.local svc.cluster.local cluster.local",
        "options ndots:5",
    ]


@pytest.mark.parametrize(
    ("name", "status", "printed"),
    [
        ("web", 0, [WEB, "web.default.svc.cluster.local"]),
        ("web.default", 0, [WEB, "web.default.svc.cluster.local"]),
        ("web.default.svc", 0, [WEB, "web.default.svc.cluster.local"]),
        ("web.default.svc.cluster.local", 0, [WEB, "web.default.svc.cluster.local"]),
        ("db-0.db", 0, ["10.244.1.6", "db-0.db.default.svc.cluster.local"]),
        ("elsewhere", 0, [OUTSIDE, "www.example.org", "elsewhere.default.svc.cluster.local"]),
        ("www.example.org", 0, [OUTSIDE, "www.example.org"]),
        (WEB, 0, [WEB, "web.default.svc.cluster.local"]),
        ("nope", 2, []),
    ],
)
def test_getent(node: Node, name: str, status: int, printed: list[str]) -> None:
    if shutil.which("getent") is None:
        pytest.skip("there is no getent")
    assert node.run("getent", "hosts", name) == (status, *_line(printed))


def _line(words: list[str]) -> tuple[str]:
    """What getent prints: the address, then names."""
    return (f"{words[0]:<15} {' '.join(words[1:])}\n" if words else "",)


RESOLVE = """\
import json, socket, sys
found = []
for name in sys.argv[1:]:
    try:
        found.append(sorted({each[4][0] for each in socket.getaddrinfo(name, 80)}))
    except socket.gaierror as error:
        found.append(error.errno == socket.EAI_NONAME)
found.append(socket.gethostbyaddr("10.244.1.7")[0])
print(json.dumps(found))
"""


def test_python_resolver(node: Node) -> None:
    names = ["web", "db", "web.default.svc.cluster.local", "www.example.org", "nope"]
    status, printed = node.run(sys.executable, "-c", RESOLVE, *names)
    assert status == 0, printed
    assert json.loads(printed) == [
        [WEB],
        ["10.244.1.6", "10.244.1.7"],
        [WEB],
        [OUTSIDE],
        True,
        "db-1.db.default.svc.cluster.local",
    ]


@pytest.mark.parametrize("name", ["web", "web.default.svc.cluster.local"])
def test_curl(node: Node, name: str) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    assert node.run("curl", "-sS", f"http://{name}/") == (0, f"served to {name}\n")


def test_curl_of_a_nonexistent_name(node: Node) -> None:
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    status, printed = node.run("curl", "-sS", "http://nope/")
    assert (status, "Could not resolve host: nope" in printed) == (6, True)
