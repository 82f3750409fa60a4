"""The start from a Corefile, within this process."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hsdns import __version__
from hsdns.assemble import Configuration, ListenAddress, assemble
from hsdns.chain import Endpoint
from hsdns.cli import coredns, launch
from hsdns.cli.coredns import Coredns
from hsdns.cli.launch import (
    QUERY_LINES,
    QUERY_LOG,
    CorefileSource,
    ServeOptions,
    set_up_logging,
    zone_lines,
)
from hsdns.corefile.tree import Position, Token
from hsdns.plugins import ORDER, log
from hsdns.plugins.log import Log
from hsdns.plugins.whoami import Whoami
from hsdns.wire.framing import frame
from loadtest.ports import free_port
from tests.support.clients.messages import query, summary
from tests.support.plugins.corefiles import KUBEADM, assembled
from tests.support.tables import columns, values

pytestmark = pytest.mark.usefixtures("folder")

TABLES = Path(__file__).with_name("tables.txt")

if TYPE_CHECKING:
    from hsdns.cli.launch import Addresses

FALLBACK = ". {\n    whoami\n    log\n}\n"


@pytest.fixture(autouse=True)
def raising_logging_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undo what else set_up_logging() does."""
    monkeypatch.setattr(logging, "raiseExceptions", True)


# --- what is shown ---


def test_the_name_of_the_log_of_queries() -> None:
    assert (QUERY_LOG, QUERY_LINES) == (log.LOGGER, log.LINES)


@pytest.mark.parametrize(
    ("level", "line"),
    [
        (logging.DEBUG, "[DEBUG] 5 of 7"),
        (logging.INFO, "[INFO] 5 of 7"),
        (logging.WARNING, "[WARNING] 5 of 7"),
        (logging.ERROR, "[ERROR] 5 of 7"),
        (logging.CRITICAL, "[FATAL] 5 of 7"),
    ],
)
def test_log_line(level: int, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging()
    logging.getLogger("hsdns").setLevel(logging.DEBUG)
    logging.getLogger("hsdns.plugin.test").log(level, "%d of %d", 5, 7)
    assert capsys.readouterr() == (f"{line}\n", "")


def test_lines_of_queries_are_not_made_while_nobody_reads(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Line:
        def __str__(self) -> str:
            raise AssertionError("it is made")

    asked: list[int] = []

    def refuse(lines: int) -> bool:
        asked.append(lines)
        return True

    set_up_logging(refuse)
    logging.getLogger("hsdns.plugin.log").info(Line())
    assert Log.drop_lines(30)
    assert asked == [1, 30]
    logging.getLogger("hsdns.plugin.errors").error("broken")
    set_up_logging()
    logging.getLogger("hsdns.plugin.log").info("a query")
    assert capsys.readouterr().out == "[ERROR] broken\n[INFO] a query\n"


@pytest.mark.parametrize("logger", ["hsdns.plugin.log", "hsdns.plugin.errors", "hsdns.kubernetes"])
def test_a_name_in_a_log_line_controls_nothing(
    logger: str, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging()
    try:
        raise ValueError("a\n::error::b\x1b")
    except ValueError:
        logging.getLogger(logger).exception("%s is not read", "web\n##[error]x\x1b[2J\u202e")
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "[ERROR] web\\n\\u0023#[error]x\\u001b[2J\\u202e is not read"
    assert rest[-1] == "\\u003a:error::b\\u001b"


def test_debug_is_not_shown_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging()
    logging.getLogger("hsdns.plugin.test").debug("detail")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("text", "lines"), values(TABLES, "zone lines"))
def test_zone_lines(text: str, lines: list[str]) -> None:
    Path("Corefile").write_text(text)
    loaded = CorefileSource.from_flag(None, FALLBACK).load()
    configuration = assemble(loaded, default_port=1053, warn=pytest.fail)
    assert zone_lines(configuration) == lines


def test_zone_lines_show_the_port_that_the_kernel_chose() -> None:
    Path("Corefile").write_text(".:0 {\nbind 127.0.0.1\nwhoami\n}")
    configuration = assemble(CorefileSource.from_flag(None, FALLBACK).load(), warn=pytest.fail)
    known = {ListenAddress("127.0.0.1", 0): Endpoint("127.0.0.1", 40123)}
    assert zone_lines(configuration, known) == [".:40123 on 127.0.0.1"]


# --- serving ---


def stop(configuration: Configuration, addresses: Addresses) -> list[str]:
    """End the server as soon as it serves."""
    os.kill(os.getpid(), signal.SIGTERM)
    return [f"greeting of {len(configuration.listeners)} listener"]


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    numbers = (
        signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2,
    )  # fmt: skip
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def source_of(body: str = "whoami") -> CorefileSource:
    return CorefileSource("Corefile", FALLBACK, f". {{\nbind 127.0.0.1\n{body}\n}}\n")


@pytest.mark.sockets
def test_serve(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    pids: list[str] = []

    def greet(configuration: Configuration, addresses: Addresses) -> list[str]:
        pids.append(Path("pid").read_text())
        return stop(configuration, addresses)

    assert (
        launch.serve(source_of(), ServeOptions(port, pidfile="pid", banner="a banner", greet=greet))
        == 0
    )
    assert capsys.readouterr() == (
        f".:{port} on 127.0.0.1\na banner\ngreeting of 1 listener\n"
        "[INFO] SIGTERM: Shutting down servers then terminating\n",
        "",
    )
    assert pids == [f"{os.getpid()}\n"]
    assert not Path("pid").exists()


def end_while_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let SIGTERM arrive while the server starts."""

    async def start(self: Whoami, runtime: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Whoami, "start", start)


@pytest.mark.sockets
def test_serve_quietly(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the log is written, and SIGTERM is handled from the beginning."""
    end_while_starting(monkeypatch)
    assert launch.serve(source_of(), ServeOptions(free_port(), quiet=True, banner="a banner")) == 0
    assert capsys.readouterr() == ("[INFO] SIGTERM: Shutting down servers then terminating\n", "")


@pytest.mark.sockets
def test_a_signal_before_it_serves_shows_no_zones(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(self: Whoami, runtime: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    monkeypatch.setattr(Whoami, "start", start)
    assert (
        launch.serve(source_of(), ServeOptions(free_port(), pidfile="pid", banner="a banner")) == 0
    )
    assert capsys.readouterr() == ("[INFO] SIGTERM: Shutting down servers then terminating\n", "")
    assert not Path("pid").exists()


@pytest.mark.sockets
def test_pidfile_that_cannot_be_written_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        launch.serve(source_of(), ServeOptions(free_port(), pidfile="no/folder", greet=stop)) == 0
    )
    assert (
        "[WARNING] cannot write the pidfile no/folder: No such file or directory\n"
        in capsys.readouterr().out
    )


@pytest.mark.sockets
def test_a_greeting_that_raises_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    """The sockets are closed, and the threads that answer end."""

    def fail(configuration: Configuration, addresses: Addresses) -> list[str]:
        raise ValueError("no greeting")

    port = free_port()
    assert launch.serve(source_of(), ServeOptions(port, pidfile="pid", greet=fail)) == 1
    assert "ValueError: no greeting" in capsys.readouterr().out
    assert not Path("pid").exists()
    assert not [each for each in threading.enumerate() if each.name.startswith("udp worker")]


@pytest.mark.sockets
def test_a_closed_standard_output_at_the_greeting(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(sys, "stdout", Closed())
    assert launch.serve(source_of(), ServeOptions(free_port(), greet=stop)) == 0


@pytest.mark.sockets
@pytest.mark.parametrize(("body", "error"), columns(TABLES, "serve that cannot start"))
def test_serve_that_cannot_start(body: str, error: str, capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    source = source_of(body.replace("\\n", "\n"))
    status = launch.serve(source, ServeOptions(port, pidfile="pid", banner="a banner"))
    assert status == 1
    assert capsys.readouterr() == ("", error.replace("PORT", str(port)) + "\n")
    assert not Path("pid").exists()


@pytest.mark.sockets
def test_a_configuration_that_fails_the_check_is_not_started(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def check(configuration: Configuration) -> None:
        names = [plugin.name for plugin in configuration.plugins]
        raise FileNotFoundError(f"not with {names[-1]}")

    source = source_of("kubernetes cluster.local {\nendpoint http://192.0.2.1 http://192.0.2.2\n}")
    assert launch.serve(source, ServeOptions(free_port(), check=check, banner="a banner")) == 1
    assert capsys.readouterr() == (
        "",
        "not with kubernetes\n",
    )  # without the warning of two endpoints


def test_a_source_without_a_kubernetes_block_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    words = (Token("synthetic", Position("--source", 0, 0)),)
    assert launch.serve(source_of("whoami"), ServeOptions(free_port(), objects=words)) == 1
    assert capsys.readouterr().err == (
        "--source: it needs a kubernetes block, and Corefile has none; "
        'add "kubernetes cluster.local" or leave --source out\n'
    )


@pytest.mark.parametrize(("body", "line"), values(TABLES, "table lines"))
def test_table_lines(body: str, line: str) -> None:
    configuration = assembled(f"example.org. {{\n{body}\n}}")
    assert launch.table_lines(configuration) == [line]


def test_fast_path_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsdns.fastpath.IMPLEMENTATION", "rust")
    assert launch.fast_path_line(1) == "fast path: rust, 1 worker"
    assert launch.fast_path_line(3) == "fast path: rust, 3 workers"
    monkeypatch.setattr("hsdns.fastpath.IMPLEMENTATION", "python")
    monkeypatch.setenv("HSDNS_NO_EXTENSIONS", "1")
    assert launch.fast_path_line(3) == "fast path: python (HSDNS_NO_EXTENSIONS=1)"
    monkeypatch.delenv("HSDNS_NO_EXTENSIONS")
    assert "was not built" in launch.fast_path_line(3)


def test_a_stock_corefile_imports_nothing_that_it_does_not_need() -> None:
    """They would cost 40 ms at each start and 5 MB of memory."""
    code = (
        "import sys, hsdns.server.lifecycle\n"
        "from hsdns.cli.launch import CorefileSource, build\n"
        "build(CorefileSource.from_flag(sys.argv[1], '').load(), 53, warn=print)\n"
        "unneeded = {'dns', 'hpack', 'kubernetes_asyncio', 're2', 'watchfiles', 'yaml'}\n"
        "print(sorted(unneeded & set(sys.modules)), file=sys.stderr)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code, str(root / "tests" / "stock" / "kubeadm" / "Corefile")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")


# CoreDNS's command line; launch.serve() is replaced except in the last tests, which run the process.

ROOT = Path(__file__).resolve().parents[2]


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
        pytest.param("--conf /etc/coredns/Corefile", {"path": "/etc/coredns/Corefile", "port": 53}, id="deployment"),
        pytest.param("--conf=a --dns.port=1053", {"path": "a", "port": 1053}, id="equals"),
        pytest.param("--conf a --dns.port 1053", {"path": "a", "port": 1053}, id="two-dashes"),
        pytest.param("-p 1053", {"port": 1053}, id="p"),
        pytest.param("--dns.port 1 -p 2", {"port": 2}, id="last-port-wins"),
        pytest.param("-p 2 --dns.port 1", {"port": 1}, id="last-port-wins-dns.port"),
        pytest.param("-conf=", {"path": "Corefile"}, id="empty-conf-is-none"),
        pytest.param("--quiet --pidfile /run/pid", {"quiet": True, "pidfile": "/run/pid"}, id="quiet-and-pidfile"),
        pytest.param("", {"workers": None, "verbose": False}, id="as-many-workers-as-cpus"),
        pytest.param("--workers 3 -v", {"workers": 3, "verbose": True}, id="workers-and-verbose"),
        pytest.param("--control /run/c.sock", {"control": "/run/c.sock"}, id="control"),
        pytest.param("-quiet", {"control": None}, id="no-control-by-itself"),
        pytest.param("--faults --control c", {"faults": True}, id="faults"),
        pytest.param("-quiet", {"faults": False}, id="no-faults-by-itself"),
        pytest.param("--quiet=false --validate=false", {"quiet": False}, id="switched-off"),
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
    assert Coredns.main("--version -o json".split()) == 0
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
    assert (out, err) == ("", "[INFO] SIGTERM: Shutting down servers then terminating\n")
    assert {name: found.pop(name) for name in coredns.version()} == coredns.version()
    assert found.pop("fast_path") in ("rust", "python")
    assert found.pop("workers") >= 1
    assert [[each[key] for key in ("keys", "stored", "reason")] for each in found["server_blocks"]] == [
        [[f"a.org:{port}"], "cached", "it has no kubernetes plugin"], [[f"b.org:{port}"], "all", ""],
    ]  # fmt: skip


@pytest.mark.sockets
@pytest.mark.slow
def test_serve_that_describes_itself() -> None:
    with process("serve", "-o", "json", "-p", "0", "-control", "c") as started:
        found = json.loads(line_of(started))
        started.send_signal(signal.SIGTERM)
        out, err = started.communicate(timeout=60)
    assert (out, err) == ("", "[INFO] SIGTERM: Shutting down servers then terminating\n")
    assert (found["control"], found["pid"], found["kubernetes"][0]["ready"]) == ("c", started.pid, True)  # fmt: skip
    assert found["listeners"][0]["port"] > 0


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
