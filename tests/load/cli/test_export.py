from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from hsdns.load.cli.export import SUMMARY, Metrics, check_gateway, write_for_ci
from hsdns.load.cli.settings import ReportCommand
from hsdns.load.errors import LoadError
from loadtest.ports import free_port
from tests.load.test_report import report, results

NAME = "127.0.0.1 port 53"


@contextmanager
def gateway(status: int = 200) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """A Pushgateway; what was pushed."""
    pushed: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            octets = self.rfile.read(int(self.headers["Content-Length"]))
            pushed.append((self.path, octets))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", pushed
        finally:
            server.shutdown()
            thread.join()


def test_a_file_is_written_now_and_then(tmp_path: Path) -> None:
    file, servers = tmp_path / "load.prom", {NAME: results()}
    metrics = Metrics(str(file), "")
    metrics.show(servers, 9.9)
    assert not file.exists()
    metrics.show(servers, 10.0)
    assert "hsdns_load_seconds 10.0\n" in file.read_text()
    metrics.show(servers, 15.0)
    assert "hsdns_load_seconds 10.0\n" in file.read_text()
    metrics.finish(servers, report(results(), "loss>0"))
    text = file.read_text()
    assert "hsdns_load_seconds 2.0\n" in text
    assert f'hsdns_load_limit_met{{limit="loss>0",server="{NAME}"}} 0.0\n' in text
    assert [each.name for each in tmp_path.iterdir()] == ["load.prom"]


@pytest.mark.sockets
@pytest.mark.slow
def test_a_gateway_gets_them() -> None:
    with gateway() as (url, pushed):
        metrics = Metrics("", check_gateway(url))
        metrics.show({NAME: results()}, 10.0)
        metrics.finish({NAME: results()}, report(results(), "loss>0"))
    assert len(pushed) == 2
    assert {path.partition("/instance/")[0] for path, _ in pushed} == {"/metrics/job/hsdns_load"}
    assert b"hsdns_load_limit_met" not in pushed[0][1]
    assert b"hsdns_load_limit_met" in pushed[1][1]


@pytest.mark.sockets
@pytest.mark.slow
def test_a_gateway_that_takes_nothing_is_told_at_the_end() -> None:
    with gateway(400) as (url, _):
        metrics = Metrics("", url)
        with pytest.raises(LoadError, match="has not taken the metrics: HTTP Error 400: Bad Request"):  # fmt: skip
            metrics.finish({NAME: results()}, report(results()))
    metrics = Metrics("", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(LoadError, match=r"has not taken the metrics: .*Connection refused"):
        metrics.finish({NAME: results()}, report(results()))


def test_no_step_of_github_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SUMMARY, raising=False)
    write_for_ci(report(results()), ReportCommand())
    with pytest.raises(LoadError) as error:
        write_for_ci(report(results()), ReportCommand(github=True))
    assert str(error.value) == (
        "-github: GITHUB_STEP_SUMMARY names no file, so this is no step of GitHub Actions"
    )
