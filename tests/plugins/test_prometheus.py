from __future__ import annotations

import re
import ssl
import threading
from pathlib import Path

import pytest

from hsdns import __version__
from hsdns.answer_table.capabilities import HitCounts, HitLabels
from hsdns.corefile.tree import CorefileError, Position, Token
from hsdns.metrics import Registry
from hsdns.plugins.prometheus import (
    Prometheus,
    QueryCounts,
    enable,
    panics,
    read_web_config,
    show_runtime,
)
from hsdns.wire.edns import Edns
from hsdns.wire.iana import Rcode, RRType
from hsdns.wire.message import unwritten
from hsdns.wire.name import Name
from tests.support.coroutines.eager import finish
from tests.support.plugins.requests import make_request, next_with, reply
from tests.support.plugins.runtime import FakeRuntime
from tests.support.plugins.setup import set_up
from tests.support.tables import columns

ONE = reply(["a.example.org. 60 IN A 10.0.0.1"], aa=True)


def scrape(metrics: Registry, prefix: str = "coredns_dns_", *, buckets: bool = False) -> list[str]:
    """Return the samples of /metrics whose names begin with `prefix`, without empty buckets."""
    lines = metrics.to_text().decode().splitlines()
    return [
        line for line in lines if line.startswith(prefix) and (buckets or "_bucket{" not in line)
    ]


def samples(labels: str, *, size: int, response: int, proto: str = "udp") -> list[str]:
    """Return the samples of durations and sizes after one query that took half a second."""
    return [
        f"coredns_dns_request_duration_seconds_count{{{labels}}} 1.0",
        f"coredns_dns_request_duration_seconds_sum{{{labels}}} 0.5",
        f'coredns_dns_request_size_bytes_count{{{labels},proto="{proto}"}} 1.0',
        f'coredns_dns_request_size_bytes_sum{{{labels},proto="{proto}"}} {size}.0',
        f'coredns_dns_response_size_bytes_count{{{labels},proto="{proto}"}} 1.0',
        f'coredns_dns_response_size_bytes_sum{{{labels},proto="{proto}"}} {response}.0',
    ]


def test_clients_cannot_create_series() -> None:
    runtime = FakeRuntime()
    plugin = Prometheus()
    finish(plugin.start(runtime))
    for number in range(1000):
        request = make_request(f"n{number}.example.org.", f"TYPE{1000 + number}")
        finish(plugin.handle(request, next_with(ONE)))
    assert len(scrape(runtime.metrics)) == 8


def test_the_size_of_a_dropped_query_includes_the_opt_record() -> None:
    metrics = Registry()
    edns = Edns(1232, options=((10, b"12345678"), (8, b"not sent back")))
    QueryCounts(metrics).count_dropped(
        make_request("a.example.org.", edns=edns), unwritten(Rcode.REFUSED), 0.5
    )
    # 31 octets, the OPT record 11, the cookie 12
    lines = [line for line in scrape(metrics) if line.startswith("coredns_dns_response_size_")]
    assert [line for line in lines if "_sum" in line] == [
        'coredns_dns_response_size_bytes_sum{proto="udp",server="dns://:53",view="",zone="dropped"} 54.0'
    ]


def test_buckets() -> None:
    runtime = FakeRuntime()
    plugin = Prometheus()
    finish(plugin.start(runtime))
    finish(plugin.handle(make_request("a.example.org."), next_with(ONE)))
    text = runtime.metrics.to_text().decode()
    names = ("duration_seconds", "request_size_bytes", "response_size_bytes")
    bounds = {name: re.findall(rf'{name}_bucket{{.*?le="([^"]+)"', text) for name in names}
    assert bounds["duration_seconds"] == [
        *("0.00025 0.0005 0.001 0.002 0.004 0.008 0.016 0.032 0.064 0.128 0.256 0.512".split()),
        *("1.024 2.048 4.096 8.192 +Inf".split()),
    ]
    sizes = "0 100 200 300 400 511 1023 2047 4095 8291 16000 32000 48000 64000 +Inf".split()
    assert [bounds["request_size_bytes"], bounds["response_size_bytes"]] == [sizes, sizes]


def test_metrics_registered_at_startup() -> None:
    runtime = FakeRuntime()
    finish(Prometheus().start(runtime))
    panics(runtime.metrics).inc()
    assert scrape(runtime.metrics, "coredns_panics") == ["coredns_panics_total 1.0"]
    (build,) = scrape(runtime.metrics, "coredns_build_info")
    assert build.startswith('coredns_build_info{goversion="')
    assert build.endswith(f'",revision="",version="{__version__}"}} 1.0')


def test_enable_replaces_the_previous_configuration() -> None:
    metrics = Registry()
    enable(
        metrics,
        {
            ("dns://:53", ".", ""): ["prometheus", "errors"],
            ("dns://:53", "example.org.", "inside"): ["log"],
        },
    )
    enable(
        metrics,
        {
            ("dns://:53", ".", "inside"): ["prometheus"],
            ("dns://:53", ".", ""): ["prometheus", "forward"],
        },
    )
    assert scrape(metrics, "coredns_plugin_enabled") == [
        'coredns_plugin_enabled{name="prometheus",server="dns://:53",view="inside",zone="."} 1.0',
        'coredns_plugin_enabled{name="prometheus",server="dns://:53",view="",zone="."} 1.0',
        'coredns_plugin_enabled{name="forward",server="dns://:53",view="",zone="."} 1.0',
    ]


def test_page() -> None:
    runtime = FakeRuntime()
    finish(set_up(Prometheus, "prometheus").start(runtime))
    page = runtime.http["localhost:9153"]["/metrics"]
    status, content_type, body = page("/metrics")
    lines = body.decode().splitlines()
    assert (status, content_type) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8; escaping=underscores",
    )
    assert "# TYPE coredns_panics_total counter" in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)
    assert any(line.startswith("process_cpu_seconds_total ") for line in lines)
    assert len(lines) == len(set(lines))


def test_runtime_metrics() -> None:
    runtime = FakeRuntime()
    finish(set_up(Prometheus, "prometheus {\nruntime_metrics\n}").start(runtime))
    page = runtime.http["localhost:9153"]["/metrics"]
    page.prepare()
    text = page("/metrics")[2].decode()
    assert "# TYPE python_gc_collections_total counter" in text
    assert f"hsdns_runtime_threads {threading.active_count()}" in text  # other tests leave some


def test_zones_are_labels_in_lower_case() -> None:
    counts = QueryCounts(metrics := Registry())
    counts.count(make_request("a.", zone="Org."), ONE, 0.5, "errors")
    labels = HitLabels("dns://:53", Name.from_text("Org."), RRType.A, Rcode.NOERROR)
    counts.add(labels, "udp", HitCounts.from_cells([1] + [0] * 54), "errors")
    assert scrape(metrics, "coredns_dns_requests_total") == [
        'coredns_dns_requests_total{family="1",proto="udp",server="dns://:53",type="A",view="",zone="org."} 2.0'
    ]


# --- counts of the fast path ---


NAMES = {
    "python_gc_objects_collected_total", "python_gc_objects_uncollectable_total",
    "python_gc_collections_total", "python_info", "hsdns_runtime_threads",
}  # fmt: skip


def test_metrics_are_registered_once() -> None:
    """A reload registers them again, without effect."""
    metrics = Registry()
    show_runtime(metrics)
    show_runtime(metrics)
    assert {metric.name for metric in metrics} == NAMES
    metrics.fold()
    assert set(metrics.counter("python_gc_collections_total").values) == {
        ("0",), ("1",), ("2",),
    }  # fmt: skip
    assert metrics.gauge("hsdns_runtime_threads").values[()] >= 1
    assert len(metrics._before) == 1


TABLES = Path(__file__).with_name("tables.txt")
DATA = Path(__file__).parents[1] / "data" / "tls"
TOKEN = Token("web.yml", Position("Corefile", 3, 6))
PAIR = f"cert_file: {DATA}/server.pem, key_file: {DATA}/server.key"


def read(folder: Path, text: str) -> ssl.SSLContext | None:
    path = folder / "web.yml"
    path.write_text(text)
    return read_web_config(TOKEN, str(path))


@pytest.mark.parametrize("text", ["", "tls_server_config:\n", "tls_server_config: {}\n"])
def test_plain_http_without_tls_settings(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text) is None


@pytest.mark.parametrize(
    ("more", "mode", "least", "most"),
    [
        pytest.param("", ssl.CERT_NONE, "TLSv1_2", "TLSv1_3", id="default"),
        pytest.param(", min_version: TLS13", ssl.CERT_NONE, "TLSv1_3", "TLSv1_3", id="newest"),
        pytest.param(", max_version: TLS12", ssl.CERT_NONE, "TLSv1_2", "TLSv1_2", id="older"),
        pytest.param(f", client_auth_type: RequireAndVerifyClientCert, client_ca_file: {DATA}/ca.pem", ssl.CERT_REQUIRED, "TLSv1_2", "TLSv1_3", id="clients"),
        pytest.param(f", client_auth_type: VerifyClientCertIfGiven, client_ca_file: {DATA}/ca.pem", ssl.CERT_OPTIONAL, "TLSv1_2", "TLSv1_3", id="some"),
    ],
)  # fmt: skip
def test_context(more: str, mode: ssl.VerifyMode, least: str, most: str, tmp_path: Path) -> None:
    context = read(tmp_path, f"tls_server_config: {{{PAIR}{more}}}")
    assert context is not None
    assert context.verify_mode == mode
    assert (context.minimum_version.name, context.maximum_version.name) == (least, most)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    for name in ("server.pem", "server.key"):
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    found = read(tmp_path, "tls_server_config: {cert_file: server.pem, key_file: server.key}")
    assert found is not None


@pytest.mark.parametrize(("text", "reason"), columns(TABLES, "web.yml"))
def test_errors(text: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(CorefileError) as caught:
        read(tmp_path, text.replace("PAIR", PAIR))
    assert str(caught.value) == f'Corefile:3:6: cannot use "web.yml" for TLS: {reason}'


@pytest.mark.parametrize(
    "text", ["a: [", "tls_server_config: {cert_file: x.pem, key_file: x.key}\n"]
)
def test_invalid_files(text: str, tmp_path: Path) -> None:
    with pytest.raises(CorefileError, match=r'^Corefile:3:6: cannot use "web\.yml" for TLS: '):
        read(tmp_path, text)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CorefileError, match="No such file or directory"):
        read_web_config(TOKEN, str(tmp_path / "none"))
