"""What /metrics shows of a server that has answered a little of everything: names, types, labels and buckets.

TABLE is what CoreDNS 1.14.7 has; the page of the same server made of CoreDNS, or its recording, is held against it too.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from hsdns.plugins import ORDER
from loadtest.apiserver.fake_api import FakeApi
from loadtest.ports import free_port
from tests.support.clients.exchange import PROBE, PROBE_IDS, ask_tcp, ask_udp
from tests.support.clients.messages import query
from tests.support.coroutines.event_loops import DEADLINE, run
from tests.support.peer_replies import PEER, found, hold
from tests.support.tables import lines
from tests.support.upstreams.dns_upstream import answer, serve

pytestmark = [pytest.mark.sockets, pytest.mark.slow]  # a process is started

START_DEADLINE = 20.0  # seconds; a start takes half a second on an idle machine

BUCKETS = {
    "TIMES": tuple(0.00025 * 2**k for k in range(16)),
    "SLIM_TIMES": tuple(0.00025 * 10**k for k in range(5)),
    "PROGRAMMING": tuple(0.001 * 2**k for k in range(20)),
    "GO_DEFAULT": (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    "SIZES": (0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16e3, 32e3, 48e3, 64e3),
}


class Row(NamedTuple):
    """A metric of a plugin; `seen` is False where nothing that is asked here counts it."""

    plugin: str
    name: str
    kind: str
    labels: str = ""
    buckets: Sequence[float] = ()
    seen: bool = True


def row(line: str) -> Row:
    """A line of metrics.txt."""
    found = re.fullmatch(r"(\S+) (\S+) (\S+) \[(.*?)\]( [A-Z_]+)?( unseen)?", line)
    assert found is not None, line
    buckets = BUCKETS[found[5].strip()] if found[5] else ()
    return Row(found[1], found[2], found[3], found[4], buckets, found[6] is None)


TABLE = [row(line) for line in lines(Path(__file__).with_name("metrics.txt"))]

# What there is in the block of each plugin; a plugin that a server has not is left out.
LINES = {
    "errors": "errors",
    "health": "health 127.0.0.1:HEALTH",
    "prometheus": "prometheus 127.0.0.1:METRICS",
    "reload": "reload",
    "local": "local",
    "dns64": "dns64 {\nallow_ipv4\n}",
    "autopath": "autopath @kubernetes",
    "acl": "acl blocked.example.org {\nblock\n}\nacl filtered.example.org {\nfilter\n}\nacl dropped.example.org {\ndrop\n}",
    "cache": "cache 30",
    "template": 'template IN A good.example.org {\nanswer "{{ .Name }} 60 IN A 192.0.2.5"\n}\n'
    'template IN A bad.example.org {\nanswer "{{ .Name }} 60 IN A nowhere"\n}',
    "hosts": "hosts FOLDER/hosts {\n192.0.2.1 listed.example.org\nfallthrough\n}",
    "kubernetes": "kubernetes cluster.local {\nendpoint API\npods verified\n}",
    "forward": "forward . 127.0.0.1:UPSTREAM {\nmax_concurrent 1000\n}",
}
QUESTIONS = """web.default.svc.cluster.local A, nope.default.svc.cluster.local A, www.example.org A, www.example.org A,
other.example.org TXT, four.example.org AAAA, listed.example.org A, www.example.org.default.svc.cluster.local A,
localhost.example.org A, blocked.example.org A, filtered.example.org A, good.example.org A, bad.example.org A"""
OBJECTS = (
    {"kind": "Namespace", "metadata": {"name": "default"}},
    {
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.80", "clusterIPs": ["10.96.0.80"], "ports": [{"port": 80, "protocol": "TCP"}]},
    },
    {
        "kind": "Pod",
        "metadata": {"name": "client", "namespace": "default"},
        "status": {"podIP": "127.0.0.1", "phase": "Running", "podIPs": [{"ip": "127.0.0.1"}]},
    },
)  # fmt: skip
SLICE: dict[str, Any] = {
    "kind": "EndpointSlice",
    "metadata": {"name": "web-a", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.244.1.5"], "conditions": {"ready": True}}],
    "ports": [{"port": 8080, "protocol": "TCP"}],
}  # fmt: skip


def annotated(slice_: dict[str, Any]) -> dict[str, Any]:
    """The slice with the moment at which its cause came, now."""
    moment = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    annotations = {"endpoints.kubernetes.io/last-change-trigger-time": moment}
    metadata = {**slice_["metadata"], "annotations": annotations}
    return {**slice_, "metadata": metadata}


class Scraped(NamedTuple):
    """The text of /metrics, and its address."""

    text: str
    content_type: str


async def scrape(port: int) -> Scraped:
    url = f"http://127.0.0.1:{port}/metrics"
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        assert response.status == 200
        return Scraped(await response.text(), response.headers["Content-Type"])


@asynccontextmanager
async def serving(
    folder: Path, command: list[str], plugins: Sequence[str]
) -> AsyncIterator[tuple[tuple[str, int], int, FakeApi]]:
    """A server with these plugins: its address, the port of its metrics, and its cluster."""
    port, metrics, health = free_port(), free_port(), free_port()
    (folder / "hosts").write_text("192.0.2.2 also.example.org\n")
    script = answer("www.example.org. 300 IN A 192.0.2.80")
    names = answer("four.example.org. 300 IN A 192.0.2.4")
    plain = answer(rcode=3)

    def upstream(wire: bytes) -> list[bytes]:
        if wire[12:].startswith(b"\3www\7example\3org\0\0\1"):
            return script(wire)
        if wire[12:].startswith(b"\4four\7example\3org\0"):
            return (
                names(wire)
                if wire[-4:-2] == b"\0\1" or b"\0\1\0\1" in wire[12:]
                else answer()(wire)
            )
        return plain(wire)  # fmt: skip

    async with FakeApi() as api, serve(upstream, upstream) as forwarded:
        for manifest in OBJECTS:
            api.apply(manifest)
        text = "\n".join(LINES[name] for name in LINES if name in plugins)
        ports = {"HEALTH": health, "METRICS": metrics, "UPSTREAM": forwarded.port}
        for word, value in {**ports, "FOLDER": folder, "API": api.url}.items():
            text = text.replace(word, str(value))
        (folder / "Corefile").write_text(f".:{port} {{\nbind 127.0.0.1\n{text}\n}}\n")
        with (folder / "log").open("w+") as log:
            process = await asyncio.create_subprocess_exec(
                *command, "-conf", str(folder / "Corefile"), stdout=log, stderr=log
            )
            try:
                async with asyncio.timeout(START_DEADLINE):
                    while "CoreDNS-" not in (folder / "log").read_text():
                        assert process.returncode is None, (folder / "log").read_text()
                        await asyncio.sleep(0.01)
                yield ("127.0.0.1", port), metrics, api
            finally:
                if process.returncode is None:
                    process.kill()
                await process.wait()


async def ask_all(address: tuple[str, int], api: FakeApi, metrics: int) -> Scraped:
    """Ask everything, let the cluster change, and take the page once it shows the change."""
    for number, question in enumerate(QUESTIONS.split(",")):
        qname, qtype = question.split()
        wire = query(qname, qtype, number + 1, want_dnssec=number == 2).to_wire()
        await (ask_tcp if number % 4 == 3 else ask_udp)(address, wire)
    await asyncio.to_thread(drop, address)
    api.apply(annotated(SLICE))
    async with asyncio.timeout(DEADLINE):
        while True:
            found = await scrape(metrics)
            if (
                "programming_duration" in found.text
                and "coredns_health_request_duration_seconds_count 0" not in found.text
            ):
                return found
            await asyncio.sleep(0.01)  # fmt: skip


def drop(address: tuple[str, int]) -> None:
    """Ask what is not answered where there is `acl`, and know that it was seen."""
    import socket  # noqa: PLC0415 - only here

    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.settimeout(DEADLINE)
        client.connect(address)
        client.send(query("dropped.example.org", "A", 900).to_wire())
        client.send(PROBE_IDS[0] + PROBE)
        while client.recv(512)[:2] != PROBE_IDS[0]:
            pass


SUBJECTS = [
    pytest.param("hsdns", id="hsdns"),
    pytest.param("coredns", id="coredns", marks=pytest.mark.peer),
]


@pytest.fixture(scope="module", params=SUBJECTS)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Scraped:
    """The page of a server that was asked a little of everything."""
    folder = tmp_path_factory.mktemp("metrics")
    is_peer = request.param == "coredns"
    if is_peer and not PEER:
        return Scraped(*found("metrics").data)
    command = [PEER] if is_peer else [sys.executable, "-m", "hsdns"]

    async def go() -> Scraped:
        plugins = tuple(LINES) if is_peer else ORDER
        async with serving(folder, command, plugins) as (address, metrics, api):
            return await ask_all(address, api, metrics)

    scraped = run(go())
    if is_peer:
        text = scraped.text.replace(str(folder), "/etc/coredns")
        hold("metrics", (), scraped._replace(text=text))
    return scraped


@pytest.fixture
def has(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The plugins that the server of the page has."""
    return ORDER if "hsdns" in request.node.callspec.id else tuple(LINES)


class Shown(NamedTuple):
    """A metric as a scraper reads it."""

    kind: str
    labels: str
    buckets: tuple[float, ...]


def shown(text: str) -> dict[str, Shown]:
    """Each metric of the page; the labels are those of all of its samples, which must agree."""
    found = {}
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for name, kind in kinds.items():
        family = families[name.removesuffix("_total") if name not in families else name]
        labels = {
            " ".join(sorted(set(sample.labels) - {"le", "quantile"})) for sample in family.samples
        }
        assert len(labels) == 1, f"{name} has {labels}"
        bounds = {sample.labels["le"] for sample in family.samples if "le" in sample.labels}
        found[name] = Shown(kind, labels.pop(), tuple(sorted(map(float, bounds - {"+Inf"}))))
    return found  # fmt: skip


def test_what_is_shown_is_as_in_the_table(page: Scraped, has: tuple[str, ...]) -> None:
    wanted = {
        row.name: Shown(
            row.kind, " ".join(sorted(row.labels.split())), tuple(map(float, row.buckets))
        )
        for row in TABLE
    }
    found = {name: each for name, each in shown(page.text).items() if name.startswith("coredns_")}
    assert {name: each for name, each in found.items() if wanted.get(name) != each} == {}
    missing = {row.name for row in TABLE if row.seen and row.plugin in has} - set(found)
    assert missing == set()


def test_content_type(page: Scraped) -> None:
    assert page.content_type.startswith("text/plain; version=0.0.4; charset=utf-8")


def test_own_names_begin_with_hsdns(page: Scraped, has: tuple[str, ...]) -> None:
    if has is not ORDER:
        pytest.skip("this is about hsdns")
    assert {name.partition("_")[0] for name in shown(page.text)} == {"coredns", "hsdns", "process"}


def complaints(text: str) -> Iterator[str]:
    """What promlint says of names and texts, so far as it can be said here (client_golang's prometheus/testutil/promlint)."""
    help_texts = dict(re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE))
    units = set("ms sec milliseconds microseconds minutes hours kb mb kilobytes megabytes".split())
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE):
        words = name.split("_")
        if not help_texts.get(name, "").strip():
            yield f"{name} has no help text"
        if (kind == "counter") != name.endswith("_total"):
            yield f"{name} is a {kind}"
        if name.endswith(("_bucket", "_count", "_sum")):
            yield f"{name} has a suffix of histograms"
        if {"counter", "gauge", "histogram", "summary"} & set(words):
            yield f"{name} says its type"
        if ":" in name or name != name.lower():
            yield f"{name} has characters that it should not"
        if units & set(words):
            yield f"{name} is not in base units"  # fmt: skip


def test_names_are_as_promlint_wants_them(page: Scraped) -> None:
    own = [line for line in complaints(page.text) if line.startswith(("coredns_", "hsdns_"))]
    assert own == []
