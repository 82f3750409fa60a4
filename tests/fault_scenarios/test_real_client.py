"""What scenarios cost the programs of this machine: the same as the model of their resolver."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Iterator

import pytest

from hsdns.fault_scenarios.play import COREFILE
from hsdns.fault_scenarios.scenario import load
from tests.support.namespaces.node import Node, open_node

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.slow,
    pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the libc is not glibc"),
]

RACE, EMPTY, CAPTURE = (load(name) for name in ("conntrack-race", "empty-record", "suffix-capture"))
API = """\
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {clusterIP: 10.96.8.8, ports: [{port: 80}]}
"""
RULES = [*RACE.steps[0].add, EMPTY.steps[0].add[0].replace("web.shop", "api.shop")]
WEB = "web.shop.svc.cluster.local."
# The address of a name, or the error as the program words it, and how many seconds that took.
RESOLVE = """\
import json, socket, sys, time
began = time.monotonic()
try:
    found = sorted({each[4][0] for each in socket.getaddrinfo(sys.argv[1], 80)})
except socket.gaierror as error:
    found = error.strerror
print(json.dumps([found, time.monotonic() - began]))
"""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node whose server has the rules of the scenarios, each about a name of its own."""
    race = RULES[0].replace(" named", f" name {WEB} named")
    text = COREFILE.replace("source manifests /", "source manifests /etc/coredns/objects.yaml")
    text = text.replace(" {\n", f" {{\n    fault {race}\n    fault {RULES[1]}\n", 1)
    objects = "---\n".join([RACE.manifests, API, CAPTURE.manifests])
    found = open_node()
    try:
        files = {"coredns/Corefile": text, "coredns/objects.yaml": objects}
        found.start([sys.executable, "-m", "hsdns", "-conf", "/etc/coredns/Corefile"], files)
        yield found
    finally:
        found.__exit__()


def resolve(node: Node, name: str) -> tuple[list[str] | str, float]:
    """What Python's getaddrinfo of the machine's libc makes of a name."""
    status, printed = node.run(sys.executable, "-I", "-S", "-c", RESOLVE, name)
    assert status == 0, printed
    found, seconds = json.loads(printed)
    return found, seconds


def test_the_race_costs_glibc_five_seconds_once(node: Node) -> None:
    (glibc,) = (seen for seen in RACE.seen if seen.label == "glibc")
    found, seconds = resolve(node, WEB)
    assert found == ["10.96.7.7"]
    assert glibc.seconds <= seconds < 2 * glibc.seconds  # two time-outs would be twice that


def test_a_name_without_records(node: Node) -> None:
    (glibc,) = (seen for seen in EMPTY.seen if seen.label == "glibc")
    assert resolve(node, "api.shop.svc.cluster.local.")[0] == glibc.error
    if shutil.which("getent") is not None:
        assert node.run("getent", "ahosts", "api.shop.svc.cluster.local.") == (2, "")


def test_a_suffix_catches_the_name_of_another_domain(node: Node) -> None:
    assert resolve(node, "example.com")[0] == ["10.96.66.66"]
    assert resolve(node, "example.com.")[0] == "Name or service not known"
