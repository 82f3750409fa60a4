"""Dashboards and alerts: what they read is what a server shows after a few queries, ours and those made for CoreDNS."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import dns.message
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from hsdns.assemble import assemble
from hsdns.corefile.parser import parse
from hsdns.plugins import ORDER
from hsdns.server.lifecycle import Server
from loadtest.apiserver.fake_api import FakeApi
from loadtest.ports import free_port
from tests.support.clients.messages import query
from tests.support.clients.sockets import UdpClient
from tests.support.coroutines.event_loops import run, until

ROOT = Path(__file__).resolve().parents[2]
DASHBOARD = json.loads((ROOT / "deploy/grafana/hsdns.json").read_text())
ALERTS = yaml.safe_load((ROOT / "deploy/alerts/prometheusrule.yaml").read_text())["spec"]

# What the panels of the dashboards 5926, 7279, 12382, 14981 and 15762, CoreDNS's mixin and kube-prometheus read: name
# and labels.
READ_BY_DASHBOARDS: dict[str, str] = {
    "coredns_build_info": "version revision goversion",
    "coredns_cache_entries": "server type zones view",
    "coredns_cache_hits_total": "server type zones view",
    "coredns_cache_misses_total": "server zones view",
    "coredns_cache_requests_total": "server zones view",
    "coredns_dns_request_duration_seconds_bucket": "server zone view le",
    "coredns_dns_request_duration_seconds_count": "server zone view",
    "coredns_dns_request_duration_seconds_sum": "server zone view",
    "coredns_dns_request_size_bytes_bucket": "server zone view proto le",
    "coredns_dns_request_size_bytes_count": "server zone view proto",
    "coredns_dns_request_size_bytes_sum": "server zone view proto",
    "coredns_dns_requests_total": "server zone view proto family type",
    "coredns_dns_do_requests_total": "server zone view",
    "coredns_dns_response_size_bytes_bucket": "server zone view proto le",
    "coredns_dns_response_size_bytes_count": "server zone view proto",
    "coredns_dns_response_size_bytes_sum": "server zone view proto",
    "coredns_dns_responses_total": "server zone view rcode plugin",
    "coredns_forward_healthcheck_broken_total": "",
    "coredns_forward_max_concurrent_rejects_total": "",
    "coredns_health_request_duration_seconds_bucket": "le",
    "coredns_kubernetes_dns_programming_duration_seconds_bucket": "service_kind le",
    "coredns_kubernetes_rest_client_requests_total": "code method host",
    "coredns_kubernetes_rest_client_request_duration_seconds_bucket": "verb host le",
    "coredns_panics_total": "",
    "coredns_plugin_enabled": "server zone view name",
    "coredns_proxy_request_duration_seconds_bucket": "proxy_name to rcode le",
    "coredns_proxy_request_duration_seconds_count": "proxy_name to rcode",
    "coredns_reload_failed_total": "",
    "coredns_shed_dropped_total": "server reason",
    "process_cpu_seconds_total": "",
    "process_open_fds": "",
    "process_resident_memory_bytes": "",
    "process_start_time_seconds": "",
}
# Metrics that they read and hsdns does not have, with the reason; docs/deploy.md lists the same.
ABSENT = {
    "go_goroutines": "there is no Go runtime",
    "coredns_forward_requests_total": "CoreDNS 1.14.7 does not have it either",
    "coredns_forward_responses_total": "CoreDNS 1.14.7 does not have it either",
    "coredns_forward_request_duration_seconds": "CoreDNS 1.14.7 does not have it either",
    "coredns_forward_healthcheck_failures_total": "CoreDNS 1.14.7 does not have it either",
}
# Metrics that appear only after an event, with the event.
ON_OCCURRENCE = {
    "coredns_proxy_healthcheck_failures_total": "an upstream fails its check",
    "hsdns_kubernetes_rejected_total": "an object breaks the rules",
    "hsdns_udp_send_errors_total": "the kernel does not take a reply",
}
OF_PROMETHEUS = {"up"}

COREFILE = """
.:PORT {
    bind 127.0.0.1
    shed
    errors
    health 127.0.0.1:HEALTH
    kubernetes cluster.local {
        endpoint URL
    }
    prometheus 127.0.0.1:HTTP
    forward . 127.0.0.1:UPSTREAM
    cache 30
    reload
    loadbalance
}
.:UPSTREAM {
    bind 127.0.0.1
    whoami
}
"""
SERVICE = {
    "kind": "Service",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {"clusterIP": "None", "ports": [{"name": "http", "port": 80}]},
}


def slice_of(address: str, changed: str = "") -> dict[str, Any]:
    annotations = {"endpoints.kubernetes.io/last-change-trigger-time": changed} if changed else {}
    return {
        "kind": "EndpointSlice",
        "metadata": {
            "name": "web-1",
            "namespace": "shop",
            "labels": {"kubernetes.io/service-name": "web"},
            "annotations": annotations,
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 80}],
        "endpoints": [{"addresses": [address]}],
    }


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of /metrics after queries of all sorts and a change in the cluster."""
    return run(metrics_of_a_busy_server(tmp_path_factory.mktemp("metrics")))


async def metrics_of_a_busy_server(folder: Path) -> str:
    names = ("PORT", "HEALTH", "HTTP", "UPSTREAM")
    ports = {name: str(free_port()) for name in names}
    # Without streams, so that there are lists: a stream has no duration.
    async with FakeApi(streaming=False) as api:
        for name in ("shop",):
            api.apply({"kind": "Namespace", "metadata": {"name": name}})
        api.apply(SERVICE)
        api.apply(slice_of("10.244.0.1"))
        text = COREFILE.replace("URL", api.url)
        for name, port in ports.items():
            text = text.replace(name, port)
        (folder / "Corefile").write_text(text)
        server = Server(
            lambda: parse(str(folder / "Corefile"), environ={}, known_directives=ORDER),
            lambda corefile: assemble(corefile, default_port=53, warn=lambda sentence: None),
        )
        await server.start()
        try:
            address = ("127.0.0.1", int(ports["PORT"]))
            with UdpClient() as client:
                for qname in (
                    "web.shop.svc.cluster.local",
                    "none.shop.svc.cluster.local",
                    "example.org",
                ) * 2:
                    await client.ask(query(qname).to_wire(), address)
                api.apply(slice_of("10.244.0.2", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")))
                durations = server.metrics.histogram(
                    "coredns_kubernetes_dns_programming_duration_seconds", "", (1.0,), ("",)
                )

                def has_arrived() -> bool:
                    server.metrics.fold()
                    return bool(durations.values)

                await until(has_arrived, "the change arrives")
                signed = dns.message.make_query("example.org", "A", want_dnssec=True)
                await client.ask(signed.to_wire(), address)
            await asyncio.sleep(0)
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"http://127.0.0.1:{ports['HTTP']}/metrics") as response,
            ):
                return await response.text()
        finally:
            await server.close()


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


@pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool, which checks metrics and rules, is not installed",
)
def test_promtool(page: str, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(ALERTS))
    subprocess.run(
        ["promtool", "check", "rules", str(tmp_path / "rules.yaml")], check=True, timeout=30
    )
    found = subprocess.run(
        ["promtool", "check", "metrics"],
        input=page,
        text=True,
        capture_output=True,
        check=False,
        timeout=30,
    )
    # It has an opinion on names too, which are CoreDNS's; only what cannot be read is a fault.
    assert "error while linting" not in found.stderr
