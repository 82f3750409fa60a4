"""The client of the control API, against scripted servers."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hsdns import __version__
from hsdns.cli import control_path, running_server
from hsdns.cli.running_server import RunningServer, ServerError, find
from tests.support.tables import columns

TABLES = Path(__file__).with_name("tables.txt")

pytestmark = pytest.mark.sockets
VERSION = b'{"server":"hsdns","version":"9.9.9","pid":7,"api":["v1","v2"]}\n'


def reply(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body)


def chunked(*parts: bytes, whole: bool = True) -> bytes:
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)
    return (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + chunks
        + (b"0\r\n\r\n" if whole else b"")
    )


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's control sockets."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(control_path, "SYSTEM", tmp_path / "system")
    (tmp_path / "hsdns").mkdir(mode=0o700)
    return tmp_path


@contextmanager
def listening(path: Path, **pages: bytes) -> Iterator[None]:
    """A server that sends these octets for `/version` and other pages by their last word."""
    pages = {"version": reply(VERSION), **pages}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind(str(path))
        server.listen()

        def serve() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    request = client.recv(65_536)
                    if request.startswith(b"POST") and request.endswith(b"\r\n\r\n"):
                        client.recv(65_536)  # the body
                    words = request.split()
                    if words:
                        client.sendall(pages[words[1].decode().rpartition("/")[2]])

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_the_one_that_runs_is_found(folder: Path) -> None:
    """Sockets of servers that were killed are passed over."""
    path = folder / "hsdns" / "7.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as killed:
        killed.bind(str(folder / "hsdns" / "6.sock"))
    with listening(path):
        assert find(None) == RunningServer(path, 7, "9.9.9")
    assert (folder / "hsdns" / "6.sock").exists()


def test_the_one_of_another_user(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = folder / "hsdns" / "1.sock"
    path.write_text("")

    def deny(path: Path) -> bool:
        raise PermissionError

    monkeypatch.setattr(running_server, "listens", deny)
    with pytest.raises(ServerError) as caught:
        find(None)
    assert (
        str(caught.value) == f"the server at {path} belongs to another user; run this as that user"
    )


@pytest.mark.parametrize(("answer", "error"), columns(TABLES, "programs behind the socket"))
def test_another_program(answer: str, error: str) -> None:
    status, colon, body = answer.partition(": ")
    version = reply(body.encode(), status) if colon else answer.encode()
    with listening(Path("c"), version=version), pytest.raises(ServerError) as caught:
        find("c")
    assert str(caught.value) == error.replace("VERSION", __version__)


def test_an_address_with_the_token_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        requests: list[bytes] = []

        def serve() -> None:
            for _ in range(2):
                client, _ = server.accept()
                with client:
                    requests.append(client.recv(65_536))
                    client.sendall(reply(VERSION))

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.delenv(control_path.TOKEN, raising=False)
        assert find(address) == RunningServer(Path(address), 7, "9.9.9")
        monkeypatch.setenv(control_path.TOKEN, "secret")
        find(address)
        thread.join()
    assert [b"\r\nAuthorization: Bearer secret\r\n" in each for each in requests] == [False, True]
    with pytest.raises(ServerError) as raised:
        find(address)
    assert str(raised.value) == f"no server listens on {address}; start it again"


def test_no_socket() -> None:
    with pytest.raises(
        ServerError, match=r"^there is no control socket c; start the server with --control c$"
    ):
        find("c")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as killed:
        killed.bind("c")
    with pytest.raises(
        ServerError,
        match=r"^no server listens on c, which a killed server left behind; start it again$",
    ):
        find("c")


def test_pages() -> None:
    with listening(
        Path("c"), server=reply(b'{"pid":7}'), names=chunked(b'{"a":1}\n{"a"', b":2}\n")
    ):
        server = find("c")
        assert server.get("/v1/server") == {"pid": 7}
        assert list(server.lines("/v1/names")) == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize(
    ("names", "found", "error"),
    [
        pytest.param(
            chunked(b'{"a":1}\n', whole=False), [{"a": 1}],
            "the server at c ended before all of /v1/names was read; try again",
            id="cut",
        ),
        pytest.param(reply(b'{"error":"not now"}', "503 Service Unavailable"), [], "not now", id="refused"),
    ],
)  # fmt: skip
def test_a_page_that_is_not_whole(names: bytes, found: list[object], error: str) -> None:
    lines = []

    def read() -> None:
        for line in find("c").lines("/v1/names"):
            lines.append(line)  # noqa: PERF402 - those before the error are looked at

    with listening(Path("c"), names=names), pytest.raises(ServerError) as caught:
        read()
    assert (lines, str(caught.value)) == (found, error)


def test_a_server_that_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_server, "TIMEOUT", 0.05)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.bind("c")
        server.listen()
        with pytest.raises(
            ServerError, match=r"^the server at c did not answer within 0\.05 seconds$"
        ):
            find("c")
