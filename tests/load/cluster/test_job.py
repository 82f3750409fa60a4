from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hsdns.apiserver.access import Access, Endpoint
from hsdns.load.cluster.job import KEY, Job, JobApi, config_map, read_namespace, reports_of
from hsdns.load.cluster.writer import ApiWriter
from hsdns.load.errors import LoadError
from loadtest.ports import free_port
from tests.support.apiserver.fixed_access import FixedAccess

JOB = Job("load", "4711", 1_767_268_800.0, 4)
STARTED = {
    "metadata": {"uid": "4711"},
    "spec": {"completionMode": "Indexed", "completions": 4},
    "status": {"startTime": "2026-01-01T12:00:00Z"},
}
NOT_STARTED = {**STARTED, "status": {}}
PATH = "/apis/batch/v1/namespaces/load/jobs/load"


def access(port: int) -> FixedAccess:
    """Access to a port, with a token."""
    return FixedAccess(Access(f"http://127.0.0.1:{port}", authorization="Bearer t"))


@contextmanager
def api(answers: list[tuple[int, Any]]) -> Iterator[tuple[JobApi, list[tuple[str, str, Any]]]]:
    """An API server that answers in turn; what it was asked."""
    asked: list[tuple[str, str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = json.loads(self.rfile.read(length)) if length else None
            asked.append((f"{self.command} {self.headers['Authorization']}", self.path, body))
            status, found = answers.pop(0)
            self.send_response(status)
            self.send_header("Location", "/y")
            self.end_headers()
            self.wfile.write(found if isinstance(found, bytes) else json.dumps(found).encode())

        do_GET = do_PATCH = do_POST = do_DELETE = answer  # noqa: N815 - as http.server calls them

        def log_message(self, *words: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield JobApi(access(server.server_port), "load"), asked
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.sockets
def test_a_job_and_its_report() -> None:
    """It is waited for until it has started; the report is in a list of ConfigMaps as in one of them."""
    slept: list[float] = []
    with api([(200, NOT_STARTED), (200, STARTED), (200, {})]) as (found, asked):
        assert found.job("load", slept.append) == JOB
        assert found.put_report(JOB, 3, b'{"format": "x"}') == "load-3"
    *before, (_, path, body) = asked
    assert (before, slept) == ([("GET Bearer t", PATH, None)] * 2, [1.0])
    assert path == "/api/v1/namespaces/load/configmaps/load-3?fieldManager=hsdns-load&force=true"
    assert body["metadata"]["labels"] == {"hsdns-load/job": "load"}
    assert body["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "load", "uid": "4711"}
    ]
    for each in (body, {"apiVersion": "v1", "items": [body]}):
        assert reports_of(json.dumps(each).encode(), "-") == [("load-3", b'{"format": "x"}')]


@pytest.mark.sockets
@pytest.mark.parametrize(
    ("answers", "sentence"),
    [
        ([(200, {**STARTED, "spec": {"completions": 4}})], "-job: the Job load has no indexes; set completionMode: Indexed in its spec"),
        ([(403, {"message": "jobs is forbidden"})], f"the API server answers GET {PATH} with 403: jobs is forbidden"),
        ([(502, b"<html>")], f"the API server answers GET {PATH} with 502: <html>"),
        ([(200, NOT_STARTED)] * 30, "-job: the Job load has no startTime after 30 seconds"),
    ],
)  # fmt: skip
def test_what_goes_wrong(answers: list[tuple[int, Any]], sentence: str) -> None:
    with api(answers) as (found, _), pytest.raises(LoadError) as error:
        found.job("load", lambda seconds: None)
    assert str(error.value) == sentence


def test_a_report_that_is_too_large() -> None:
    sentence = (
        "^the report has 1000328 octets when compressed, more than a ConfigMap holds; give a "
    )
    with pytest.raises(LoadError, match=sentence):
        config_map("load-0", "load", JOB, Random(1).randbytes(1_000_000))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"apiVersion": "v1", "items": []}', f"-: no ConfigMap of 0 has a report ({KEY})"),
        ('{"apiVersion": "v1", "items": [{"data": {}}]}', f"-: no ConfigMap of 1 has a report ({KEY})"),
        ('{"apiVersion": "v1", "items": [{"metadata": {"name": "a"}, "binaryData": {"report.json.gz": "eA=="}}]}', "-: a ConfigMap has no report (BadGzipFile(\"Not a gzipped file (b'x')\"))"),
        ('{"apiVersion": "v1", "items": [1]}', "-: a ConfigMap has no report (AttributeError(\"'int' object has no attribute 'get'\"))"),
        ("", None),
        ("[]", None),
        ('{"format": "hsdns load 1"}', None),
    ],
)  # fmt: skip
def test_no_reports(text: str, sentence: str | None) -> None:
    """Without a sentence it is no list, but may be a report."""
    if sentence is None:
        assert reports_of(text.encode(), "-") == []
        return
    with pytest.raises(LoadError) as error:
        reports_of(text.encode(), "-")
    assert str(error.value) == sentence


@pytest.mark.sockets
def test_requests_that_write(tmp_path: Path) -> None:
    """A redirect is not followed; without a server or an account there is an error."""

    async def sent(port: int, *request: Any) -> tuple[int, str]:
        writer = ApiWriter(Endpoint([f"http://127.0.0.1:{port}"]))
        try:
            return await writer.send(*request)
        finally:
            await writer.close()

    with api([(307, {})]) as (found, asked):
        port = int(found._source.server.rpartition(":")[2])
        assert asyncio.run(sent(port, "POST", "/x", {"kind": "Namespace"})) == (307, "{}")
    assert asked == [("POST None", "/x", {"kind": "Namespace"})]
    port = free_port()
    with pytest.raises(LoadError, match=r"^-churn-api: .*127.0.0.1"):
        asyncio.run(sent(port, "GET", "/x"))
    with pytest.raises(LoadError, match=f"^-job: http://127.0.0.1:{port} "):
        JobApi(access(port), "load").job("load", lambda seconds: None)
    with pytest.raises(LoadError, match="this is no pod with a service account"):
        read_namespace(str(tmp_path))
