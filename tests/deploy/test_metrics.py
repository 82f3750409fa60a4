"""Dashboards and alerts: what they read is what a server shows after a few queries, ours and those made for CoreDNS."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import dns.message
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.deploy.watching import watching
from tests.support.clients.messages import query
from tests.support.clients.sockets import UdpClient
from tests.support.coroutines.event_loops import run, until
from tests.support.tables import section

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = json.loads((ROOT / "deploy/grafana/hsdns.json").read_text())
ALERTS = yaml.safe_load((ROOT / "deploy/alerts/prometheusrule.yaml").read_text())["spec"]


def table(section_name: str) -> dict[str, str]:
    """The rows of metrics.txt: of a metric its labels, or why there is none."""
    lines = section(Path(__file__).with_name("metrics.txt"), section_name).splitlines()
    return dict(line.split(" => ") for line in lines)


# What the panels of the dashboards 5926, 7279, 12382, 14981 and 15762, CoreDNS's mixin and kube-prometheus read.
READ_BY_DASHBOARDS = table("read")
# Metrics that they read and hsdns does not have, with the reason; docs/deploy.md lists the same.
ABSENT = table("absent")
# Metrics that appear only after an event, with the event.
ON_OCCURRENCE = table("after an event")
OF_PROMETHEUS = {"up"}

COREFILE = Path(__file__).with_name("metrics.corefile").read_text()
SLICE = """
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}, annotations: {CHANGED}}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [10.244.0.1]}]
"""
OBJECTS = f"""
{{kind: Namespace, metadata: {{name: shop}}}}
---
kind: Service
metadata: {{name: web, namespace: shop}}
spec: {{clusterIP: None, ports: [{{name: http, port: 80}}]}}
---
{SLICE.replace("CHANGED", "")}
"""
QUESTIONS = ("web.shop.svc.cluster.local", "none.shop.svc.cluster.local", "example.org") * 2


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of /metrics after queries of all sorts and a change in the cluster."""
    return run(metrics_of_a_busy_server(tmp_path_factory.mktemp("metrics")))


async def metrics_of_a_busy_server(folder: Path) -> str:
    # Without streams, so that there are lists: a stream has no duration.
    async with watching(folder, COREFILE, OBJECTS, environ={}, streaming=False) as found:
        address, metrics = ("127.0.0.1", found.ports["PORT_DNS"]), found.server.metrics
        with UdpClient() as client:
            for qname in QUESTIONS:
                await client.ask(query(qname).to_wire(), address)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            changed = f'endpoints.kubernetes.io/last-change-trigger-time: "{now}"'
            found.api.apply(yaml.safe_load(SLICE.replace("CHANGED", changed)))
            durations = metrics.histogram(
                "coredns_kubernetes_dns_programming_duration_seconds", (1.0,), ("",)
            )

            def has_arrived() -> bool:
                metrics.fold()
                return bool(durations.values)

            await until(has_arrived, "the change arrives")
            signed = dns.message.make_query("example.org", "A", want_dnssec=True)
            await client.ask(signed.to_wire(), address)
        await asyncio.sleep(0)
        url = f"http://127.0.0.1:{found.ports['PORT_HTTP']}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return await response.text()


@pytest.fixture(scope="module")
def exposed(page: str) -> dict[str, set[str]]:
    """The names on /metrics, and the labels of each."""
    found: dict[str, set[str]] = defaultdict(set)
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found[sample.name] |= set(sample.labels)
    return dict(found)


pytestmark = pytest.mark.sockets


def test_metrics_of_known_dashboards(exposed: dict[str, set[str]]) -> None:
    read = {name: set(labels.split()) for name, labels in READ_BY_DASHBOARDS.items()}
    assert {name: exposed.get(name) for name in read} == read


def test_absent_metrics_and_those_of_an_event_are_documented(exposed: dict[str, set[str]]) -> None:
    assert {*ABSENT, *ON_OCCURRENCE} & exposed.keys() == set()
    pages = "".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    assert [name for name in (*ABSENT, *ON_OCCURRENCE) if name not in pages] == []


# --- our own ---


def expressions(node: Any) -> list[str]:
    """All `expr` below."""
    if isinstance(node, list):
        return [each for item in node for each in expressions(item)]
    if isinstance(node, dict):
        own = [node["expr"]] if isinstance(node.get("expr"), str) else []
        return own + [each for value in node.values() for each in expressions(value)]
    return []


def names_in(expression: str) -> set[str]:
    return set(re.findall(r"\b(?:(?:coredns|hsdns|process|go)_[a-z0-9_]+|up)\b", expression))


def selectors_in(expression: str) -> list[tuple[str, set[str]]]:
    """Each metric with the labels that its selector names, but for what Prometheus adds."""
    found = re.findall(r"\b([a-z_]+){([^}]*)}", expression)
    return [
        (name, set(re.findall(r"(\w+)\s*(?:=~|!=|=)", inside)) - {"job", "instance"})
        for name, inside in found
    ]


@pytest.mark.parametrize("ours", [DASHBOARD, ALERTS], ids=["dashboard", "alerts"])
def test_metrics_of_our_expressions_exist(exposed: dict[str, set[str]], ours: Any) -> None:
    shown = set()
    for expression in expressions(ours):
        names = names_in(expression)
        assert names
        shown |= names
        assert names - exposed.keys() - ON_OCCURRENCE.keys() - OF_PROMETHEUS == set()
        for name, labels in selectors_in(expression):
            assert labels <= exposed.get(name, labels), expression
        groups = re.findall(r"\bby \(([^)]*)\)", expression)
        asked = {label.strip() for group in groups for label in group.split(",")} - {"instance"}
        assert asked <= {label for name in names for label in exposed.get(name, asked)}, expression
    assert {"hsdns_udp_queue_drops_total", "hsdns_udp_send_errors_total"} <= shown


def test_dashboard_is_consistent() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        node = panel["gridPos"]
        assert node["x"] + node["w"] <= 24
        for target in panel.get("targets", []):
            assert target["expr"].count("(") == target["expr"].count(")")
            assert '$job"' in target["expr"]
            # Where no reply was SERVFAIL yet there is no such series, and a stat would show "No data".
            is_share = " / " in target["expr"] and "rcode=" in target["expr"]
            if panel["type"] == "stat" and is_share:
                assert " or vector(0)) / " in target["expr"]
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$(?!__)\{?(\w+)", json.dumps(DASHBOARD))) <= variables
