from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from hsdns.cluster.programming import programming_in
from hsdns.metrics import Registry
from loadtest.apiserver.objects import trigger_time
from loadtest.ports import free_port
from loadtest.pressure.applied import METRIC, Applied, Bounds, Scraped, between, read, scrape

FAST = Bounds(0.002, 0.004)
NO_EVENT = Applied(0, None, None, f"{METRIC} counts no event that was applied")


@pytest.fixture
def scraped() -> Callable[[dict[str, list[float]]], Scraped]:
    """What a server says that has applied changes after some seconds each, by kind of Service."""
    metrics = Registry()
    observe = programming_in(metrics)

    def scraped(durations: dict[str, list[float]]) -> Scraped:
        for kind, listed in durations.items():
            for seconds in listed:
                observe(kind, trigger_time(1e9), 1e9 + seconds)
        metrics.fold()
        return Scraped(read(metrics.to_text().decode()))

    return scraped


@pytest.mark.parametrize(
    ("durations", "applied"),
    [
        ({"headless": [0.003] * 99 + [0.05]}, Applied(100, FAST, Bounds(0.032, 0.064))),
        (
            {"headless": [0.003] * 98 + [0.05] * 2},
            Applied(100, Bounds(0.032, 0.064), Bounds(0.032, 0.064)),
        ),
        (
            {"headless": [0.003] * 99, "cluster_ip": [0.017]},
            Applied(100, FAST, Bounds(0.016, 0.032)),
        ),
        ({"headless": [0.003, 86_400.0]}, Applied(1, FAST, FAST)),
        ({"headless": [0.0005]}, Applied(1, Bounds(0.0, 0.001), Bounds(0.0, 0.001))),
        ({}, NO_EVENT),
    ],
)
def test_changes_after_the_start(
    durations: dict[str, list[float]],
    applied: Applied,
    scraped: Callable[[dict[str, list[float]]], Scraped],
) -> None:
    before = scraped({"headless": [3.0, 86_400.0]})
    assert between(before, scraped(durations)) == applied


def test_a_server_without_the_metric() -> None:
    assert read("# TYPE up gauge\nup 1\n") == {}
    assert between(Scraped({}), Scraped({})) == NO_EVENT
    assert METRIC.startswith("coredns_kubernetes_")


class _Refusing(BaseHTTPRequestHandler):
    status, body = 404, b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class _Nonsense(_Refusing):
    status, body = 200, b'up{a="\n'


@pytest.mark.parametrize("answers", [_Refusing, _Nonsense])
def test_a_server_that_does_not_say_it(answers: type[BaseHTTPRequestHandler]) -> None:
    with HTTPServer(("127.0.0.1", 0), answers) as server:
        port = server.server_address[1]
        thread = Thread(target=server.handle_request)
        thread.start()
        found = scrape(port)
        thread.join()
    assert found.buckets == {}
    assert found.failure.startswith(
        f"http://127.0.0.1:{port}/metrics does not say how soon events are applied: "
    )
    assert between(Scraped({}), found) == Applied(0, None, None, found.failure)
    assert between(found, Scraped({0.001: 1.0})) == Applied(0, None, None, found.failure)


def test_a_server_without_a_port_for_metrics() -> None:
    assert scrape(free_port()).failure.endswith("Connection refused>")
