"""The start from a Corefile, within this process."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hsdns.assemble import Configuration, ListenAddress, assemble
from hsdns.chain import Endpoint
from hsdns.cli import launch
from hsdns.cli.launch import (
    QUERY_LINES,
    QUERY_LOG,
    CorefileSource,
    ServeOptions,
    set_up_logging,
    zone_lines,
)
from hsdns.corefile.tree import Position, Token
from hsdns.plugins import log
from hsdns.plugins.log import Log
from hsdns.plugins.whoami import Whoami
from loadtest.ports import free_port
from tests.support.plugins.corefiles import assembled
from tests.support.tables import columns, values

TABLES = Path(__file__).with_name("tables.txt")

if TYPE_CHECKING:
    from hsdns.cli.launch import Addresses

FALLBACK = ". {\n    whoami\n    log\n}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
    words = (Token("synthetic", Position("-source", 0, 0)),)
    assert launch.serve(source_of("whoami"), ServeOptions(free_port(), objects=words)) == 1
    assert capsys.readouterr().err == (
        "-source: it needs a kubernetes block, and Corefile has none; "
        'add "kubernetes cluster.local" or leave -source out\n'
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
