"""CoreDNS's command line; launch.serve() is replaced except in the last tests, which run the process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hsdns import __version__
from hsdns.cli import coredns, launch
from hsdns.cli.coredns import Coredns
from hsdns.cli.launch import CorefileSource
from hsdns.plugins import ORDER
from hsdns.wire.framing import frame
from loadtest.ports import free_port
from tests.support.clients.messages import query, summary
from tests.support.plugins.corefiles import KUBEADM

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The arguments of launch.serve()."""
    calls: list[dict[str, Any]] = []

    def serve(source: CorefileSource, options: launch.ServeOptions) -> int:
        calls.append({"path": source.path, **vars(options)})
        return 0

    monkeypatch.setattr(launch, "serve", serve)
    return calls


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        pytest.param("", {"path": "Corefile", "port": 53, "quiet": False, "pidfile": None}, id="nothing"),
        pytest.param("-conf /etc/coredns/Corefile", {"path": "/etc/coredns/Corefile", "port": 53}, id="deployment"),
        pytest.param("-conf=a -dns.port=1053", {"path": "a", "port": 1053}, id="equals"),
        pytest.param("--conf a --dns.port 1053", {"path": "a", "port": 1053}, id="two-dashes"),
        pytest.param("-p 1053", {"port": 1053}, id="p"),
        pytest.param("-dns.port 1 -p 2", {"port": 2}, id="last-port-wins"),
        pytest.param("-p 2 -dns.port 1", {"port": 1}, id="last-port-wins-dns.port"),
        pytest.param("-conf=", {"path": "Corefile"}, id="empty-conf-is-none"),
        pytest.param("-quiet -pidfile /run/pid", {"quiet": True, "pidfile": "/run/pid"}, id="quiet-and-pidfile"),
        pytest.param("", {"workers": None, "verbose": False}, id="as-many-workers-as-cpus"),
        pytest.param("-workers 3 -v", {"workers": 3, "verbose": True}, id="workers-and-verbose"),
        pytest.param("-control /run/c.sock", {"control": "/run/c.sock"}, id="control"),
        pytest.param("-quiet", {"control": None}, id="no-control-by-itself"),
        pytest.param("-faults -control c", {"faults": True}, id="faults"),
        pytest.param("-quiet", {"faults": False}, id="no-faults-by-itself"),
        pytest.param("-quiet=false -validate=false", {"quiet": False}, id="switched-off"),
    ],
)  # fmt: skip
def test_serves(line: str, expected: dict[str, Any], served: list[dict[str, Any]]) -> None:
    assert Coredns.main(line.split()) == 0
    (call,) = served
    assert {name: call[name] for name in expected} == expected
    assert call["banner"] == coredns.version_text()


def test_version(served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    """Operators search for `CoreDNS-`."""
    assert Coredns.main(["-version"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"hsdns-{__version__} (answers as CoreDNS-1.14.7)"
    assert second.startswith(f"{sys.platform}/{platform.machine()}, ")
    assert not served


def test_version_as_json(served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert Coredns.main("-version -o json".split()) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "name": "hsdns",
        "version": __version__,
        "answers_as": "CoreDNS-1.14.7",
        "platform": f"{sys.platform}/{platform.machine()}",
        "interpreter": f"{platform.python_implementation()} {platform.python_version()}",
    }
    assert coredns.version_text() == (
        f"hsdns-{__version__} (answers as CoreDNS-1.14.7)\n{found['platform']}, {found['interpreter']}"
    )
    assert not served


def test_plugins(served: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]) -> None:
    assert Coredns.main(["-plugins"]) == 0
    assert capsys.readouterr().out.splitlines() == sorted(ORDER)
    assert not served


# --- -validate ---


def test_validate_kubeadm_touches_nothing(
    served: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No socket, no service account, no file but the Corefile and what it names."""
    Path("Corefile").write_text(KUBEADM)
    Coredns.main(
        ["-validate", "-conf", "Corefile"]
    )  # once before, since pytest opens the modules that it imports
    capsys.readouterr()
    opened: list[str] = []
    real = io.open

    def no_socket(*args: Any, **options: Any) -> None:
        raise AssertionError("a socket was opened")

    def open_(file: Any, *args: Any, **options: Any) -> Any:
        opened.append(str(file))
        return real(file, *args, **options)

    monkeypatch.setattr(socket, "socket", no_socket)
    monkeypatch.setattr(socket, "getaddrinfo", no_socket)
    monkeypatch.setattr(io, "open", open_)
    monkeypatch.setattr("builtins.open", open_)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert Coredns.main(["-validate", "-conf", "Corefile"]) == 0
    assert capsys.readouterr().out == "Corefile: valid, 1 server block\n"
    assert set(opened) <= {"Corefile", "/etc/resolv.conf"}
    assert not served


# --- the process ---


@contextmanager
def process(*words: str, stdout: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", "hsdns", *words],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def line_of(started: subprocess.Popen[str]) -> str:
    assert started.stdout is not None
    return started.stdout.readline().rstrip("\n")


def ask(port: int) -> str:
    with socket.socket(type=socket.SOCK_DGRAM) as client:
        client.settimeout(30)
        client.sendto(query().to_wire(), ("127.0.0.1", port))
        return summary(client.recv(4096))


@pytest.mark.sockets
@pytest.mark.slow
def test_process_from_start_to_end() -> None:
    """Zones and version on standard output, a pidfile while it runs, a reload, status 0."""
    port = free_port()
    Path("Corefile").write_text(f"a.org, example.org:{port} {{\nbind 127.0.0.1\nwhoami\n}}\n")
    with process("-p", str(port), "-pidfile", "pid") as started:
        assert [line_of(started) for _ in range(4)] == [
            f"a.org.:{port} on 127.0.0.1",
            f"example.org.:{port} on 127.0.0.1",
            *coredns.version_text().splitlines(),
        ]
        assert Path("pid").read_text() == f"{started.pid}\n"
        assert ask(port).startswith("1 NOERROR qr aa rd")
        Path("Corefile").write_text("a.org {\nbind 127.0.0.1\nwhoami\n}\n")
        started.send_signal(signal.SIGUSR1)
        assert [line_of(started) for _ in range(3)] == [
            "[INFO] SIGUSR1: Reloading",
            "[INFO] Reloading",
            "[INFO] Reloading complete",
        ]
        assert ask(port) == "1 REFUSED qr rd |  |  | "
        started.send_signal(signal.SIGTERM)
        out, err = started.communicate(timeout=60)
        assert out == "[INFO] SIGTERM: Shutting down servers then terminating\n"
        assert err == ""
        assert started.returncode == 0
    assert not Path("pid").exists()


@pytest.mark.sockets
@pytest.mark.slow
def test_process_that_shows_json() -> None:
    port = free_port()
    corefile = f"a.org:{port} {{\nbind 127.0.0.1\nwhoami\ncache\n}}\nb.org:{port} {{\nbind 127.0.0.1\nkubernetes b.org {{\nsource synthetic services=1\n}}\n}}\n"
    with process("-v", "-o", "json", "-conf", "stdin") as started:
        assert started.stdin is not None
        started.stdin.write(corefile)
        started.stdin.close()
        started.stdin = None
        found = json.loads(line_of(started))
        started.send_signal(signal.SIGTERM)
        out, err = started.communicate(timeout=60)
    assert (out, err) == ("[INFO] SIGTERM: Shutting down servers then terminating\n", "")
    assert {name: found.pop(name) for name in coredns.version()} == coredns.version()
    assert found.pop("fast_path") in ("rust", "python")
    assert found.pop("workers") >= 1
    assert found == {
        "zones": [f"a.org.:{port} on 127.0.0.1", f"b.org.:{port} on 127.0.0.1"],
        "server_blocks": [
            {
                "keys": [f"a.org:{port}"],
                "stored": "cached",
                "reason": "it has no kubernetes plugin",
            },
            {"keys": [f"b.org:{port}"], "stored": "all", "reason": ""},
        ],
    }


def fill(writing: int) -> None:
    """Fill a pipe, and leave it blocking for the process that writes to it."""
    with contextlib.suppress(BlockingIOError), open(
        os.open(f"/proc/self/fd/{writing}", os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0
    ) as beside:  # fmt: skip
        for piece in (4096, 1):
            while beside.write(b"\n" * piece) is not None:
                pass


def fetch(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as response:
        body: bytes = response.read()
        return body.decode()


@pytest.mark.sockets
@pytest.mark.slow
def test_a_pipe_that_no_process_reads_stops_nothing() -> None:
    """Queries over UDP and TCP and /health are answered, a reload is done, and SIGTERM ends it."""
    port, health = free_port(), free_port()
    Path("Corefile").write_text(
        f".:{port} {{\nbind 127.0.0.1\nhealth 127.0.0.1:{health}\nwhoami\nlog\n}}\n"
    )
    reading, writing = os.pipe()
    with open(reading) as out, process(stdout=writing) as started:
        assert out.readline() == f".:{port} on 127.0.0.1\n"
        assert out.readline() + out.readline() == f"{coredns.version_text()}\n"
        fill(writing)
        os.close(writing)
        for _ in range(3):
            assert ask(port).startswith("1 NOERROR qr aa rd")
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(frame(query().to_wire()))
            assert client.recv(4096)
        assert fetch(health, "/health") == "OK"
        started.send_signal(signal.SIGUSR1)
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=60) == 0


@pytest.mark.sockets
@pytest.mark.slow
def test_a_full_disk_stops_nothing() -> None:
    """Each line is lost and counted, and the status is that of a clean end."""
    port, metrics = free_port(), free_port()
    corefile = f".:{port} {{\nbind 127.0.0.1\nprometheus 127.0.0.1:{metrics}\nwhoami\nlog\n}}\n"
    with (
        open("/dev/full", "w") as full,
        process("-conf", "stdin", "-pidfile", "pid", stdout=full.fileno()) as started,
    ):
        assert started.stdin is not None
        started.stdin.write(corefile)
        started.stdin.close()
        while not Path("pid").exists():  # it has no other way to say that it serves
            assert started.poll() is None
        assert ask(port).startswith("1 NOERROR qr aa rd")
        lost = r"(?m)^hsdns_log_drops_total [1-9]"
        while not re.search(lost, fetch(metrics, "/metrics")):
            pass
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=60) == 0
        assert started.stderr is not None
        assert started.stderr.read() == ""


@pytest.mark.sockets
@pytest.mark.slow
def test_few_descriptors_are_shared() -> None:
    """A client that holds all places keeps neither another one nor a probe out."""
    port, health = free_port(), free_port()
    corefile = f".:{port} {{\nbind 127.0.0.1\nhealth 127.0.0.1:{health}\nwhoami\n}}\n"
    code = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)); "
        "sys.argv[0] = 'hsdns'; runpy.run_module('hsdns', run_name='__main__')"
    )
    with (
        contextlib.ExitStack() as held,
        subprocess.Popen(
            [sys.executable, "-c", code, "-conf", "stdin", "-workers", "1"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as started,
    ):
        held.callback(started.kill)
        assert started.stdin is not None
        started.stdin.write(corefile)
        started.stdin.close()
        assert [line_of(started) for _ in range(3)][0] == f".:{port} on 127.0.0.1"  # noqa: RUF015 - all are read
        for where, places in ((port, 32), (health, 8)):
            for _ in range(places + 4):
                client = socket.create_connection(("127.0.0.1", where), timeout=60)
                held.enter_context(client)
        assert fetch(health, "/health") == "OK"
        with socket.create_connection(
            ("127.0.0.1", port), timeout=60, source_address=("127.0.0.2", 0)
        ) as other:
            for _ in range(3):
                other.sendall(frame(query().to_wire()))
                assert other.recv(4096)
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=20) == 0
