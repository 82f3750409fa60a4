"""The path of a Unix socket: who may use it, and what is left alone."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from hsdns.server.host import MAX_PATH, UnixSocket, UnixSocketError, _locked, listens

pytestmark = pytest.mark.sockets
PATH = Path("c.sock")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def bound(*, listening: bool) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(str(PATH))
    if listening:
        sock.listen()
    return sock


def test_mode_and_end() -> None:
    made = UnixSocket("c.sock")
    assert stat.S_IMODE(PATH.stat().st_mode) == 0o600
    assert listens(PATH)
    made.sock.close()
    assert not listens(PATH)
    made.remove()
    assert not PATH.exists()
    made.remove()


def test_a_folder_is_made_for_the_owner() -> None:
    made = UnixSocket("new/c.sock")
    assert stat.S_IMODE(Path("new").stat().st_mode) == 0o700
    made.sock.close()


def test_what_a_server_that_is_gone_has_left_is_replaced() -> None:
    bound(listening=True).close()
    made = UnixSocket("c.sock")
    assert listens(PATH)
    made.sock.close()


def test_only_the_own_socket_is_removed() -> None:
    """Another server has taken the path meanwhile."""
    made = UnixSocket("c.sock")
    PATH.unlink()
    with bound(listening=True):
        made.remove()
        assert listens(PATH)
    made.sock.close()


def write_file() -> None:
    PATH.write_text("notes")


def open_to(mode: int) -> Callable[[], None]:
    return lambda: Path().resolve().chmod(mode)


@pytest.mark.parametrize(
    ("before", "path", "error"),
    [
        pytest.param(write_file, "c.sock", "there is a file that is no socket; it is left alone", id="file"),
        pytest.param(lambda: PATH.symlink_to("x"), "c.sock", "there is a file that is no socket; it is left alone", id="link"),
        pytest.param(open_to(0o777), "c.sock", "other users may write to the folder .; chmod go-w it", id="folder"),
        pytest.param(open_to(0o770), "c.sock", "other users may write to the folder .; chmod go-w it", id="folder-of-a-group"),
        pytest.param(lambda: None, "x" * (MAX_PATH + 1), f"the path has more than {MAX_PATH} octets", id="long"),
    ],
)  # fmt: skip
def test_refused(before: Callable[[], None], path: str, error: str) -> None:
    before()
    with pytest.raises(UnixSocketError) as caught:
        UnixSocket(path)
    assert str(caught.value) == error
    assert PATH.read_text() == "notes" if before is write_file else not PATH.exists()


def test_a_server_that_listens_is_left_alone() -> None:
    with bound(listening=True):
        with pytest.raises(UnixSocketError, match="another server listens on it"):
            UnixSocket("c.sock")
        assert listens(PATH)


def test_two_that_start_at_once() -> None:
    with _locked(Path()), pytest.raises(UnixSocketError, match="another server starts in"):
        UnixSocket("c.sock")
    assert not PATH.exists()


def test_the_folder_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() == 0:
        os.chown(".", 65534, 65534)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
    with pytest.raises(UnixSocketError, match=r"the folder \. belongs to another user"):
        UnixSocket("c.sock")
