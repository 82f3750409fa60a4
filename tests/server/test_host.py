"""What a server has of its host: Unix sockets, interfaces, and the service manager."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hsdns.server.host import (
    MAX_PATH,
    ServiceManager,
    UnixSocket,
    UnixSocketError,
    _locked,
    attribute,
    listens,
)
from tests.server.loopback import WHOAMI, ReloadableServer, running
from tests.support.namespaces import container
from tests.support.tables import values

TABLES = Path(__file__).with_name("tables.txt")

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
    UnixSocket("new/c.sock").sock.close()
    assert stat.S_IMODE(Path("new").stat().st_mode) == 0o700


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
        pytest.param(write_file, "c.sock", "there is a file that is not a socket; it is left alone", id="file"),
        pytest.param(lambda: PATH.symlink_to("x"), "c.sock", "there is a file that is not a socket; it is left alone", id="link"),
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


ROOT = Path(__file__).resolve().parents[2]
REFUSED = container.refusal() or ("" if shutil.which("ip") else "ip is not installed")
# Some kernels have no dummy interfaces; that of a pair is one that exists already, and the rest is the same.
SCRIPT = """
ip link add hsdns type dummy 2>/dev/null || ip link add hsdns type veth peer name other || exit 9
[ "$1" = on ] || echo 1 > /proc/sys/net/ipv6/conf/hsdns/disable_ipv6 || exit 9
for turn in 1 2; do "$2" -m hsdns interface --address 169.254.20.10 fd68:7364:6e73::53 || exit 1; done
ip --json address show dev hsdns
"""


@pytest.mark.parametrize(
    ("value", "octets"), [(b"", "04000300"), (b"ab", "06000300 6162 0000"), (b"abcd", "08000300 61626364")]
)  # fmt: skip
@pytest.mark.skipif(sys.byteorder != "little", reason="the octets are those of a little machine")
def test_attributes(value: bytes, octets: str) -> None:
    assert attribute(3, value) == bytes.fromhex(octets)


@pytest.mark.slow
@pytest.mark.skipif(bool(REFUSED), reason=REFUSED or "namespaces can be made")
@pytest.mark.parametrize("ipv6", ["on", "off"])
def test_an_interface(ipv6: str) -> None:
    """Asked for twice, they are there once, with no address that the kernel chose itself."""
    found = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", SCRIPT, "sh", ipv6, sys.executable],
        check=False, capture_output=True, text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if found.returncode == 9:
        pytest.skip(f"no interface can be made here: {found.stderr}")
    assert found.returncode == 0, found.stderr
    (interface,) = json.loads(found.stdout[found.stdout.index("[") :])
    addresses = [(each["local"], each["prefixlen"]) for each in interface["addr_info"]]
    expected = [("169.254.20.10", 32), ("fd68:7364:6e73::53", 128)]
    assert addresses == expected[: 2 if ipv6 == "on" else 1]
    assert "UP" in interface["flags"]
    assert ("is skipped: IPv6 is disabled" in found.stdout) is (ipv6 == "off")


READY = "READY=1\nSTATUS=Serving"
RELOADING = "RELOADING=1\nMONOTONIC_USEC=1234567\nSTATUS=Reloading"
STOPPING = "STOPPING=1\nSTATUS=Stopping"


class Inbox:
    """The socket of a service manager."""

    def __init__(self, name: str) -> None:
        self.address = name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{name[1:]}" if name[0] == "@" else name)
        self._socket.settimeout(20)

    def next(self) -> str:
        """The next message; waits for it."""
        return self._socket.recv(4096).decode()

    def all(self) -> list[str]:
        """Those that have come."""
        found = []
        self._socket.setblocking(False)
        while True:
            try:
                found.append(self.next())
            except BlockingIOError:
                return found

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def inbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Inbox]:
    if request.param == "abstract" and sys.platform != "linux":
        pytest.skip("only Linux has abstract names")
    name = f"@hsdns-{os.getpid()}" if request.param == "abstract" else str(tmp_path / "n")
    found = Inbox(name)
    yield found
    found.close()


def manager(inbox: Inbox) -> ServiceManager:
    return ServiceManager(inbox.address, clock=lambda: 1_234_567_890)


@pytest.mark.parametrize(("value", "warning"), values(TABLES, "no manager"))
def test_no_manager(value: str | None, warning: str, caplog: pytest.LogCaptureFixture) -> None:
    environ = {"HOME": "/"} if value is None else {"HOME": "/", "NOTIFY_SOCKET": value}
    ServiceManager.of(environ).ready()
    assert environ == {"HOME": "/"}
    assert caplog.messages == ([warning] if warning else [])


def test_a_full_socket_stops_nothing(inbox: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    told = manager(inbox)
    while not caplog.messages:
        told.ready()
    assert "cannot notify the service manager" in caplog.messages[0]


async def test_a_server(inbox: Inbox, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Its start, reloads with and without a change, a reload that fails, and its end."""
    caplog.set_level(logging.CRITICAL, "hsdns")

    async with running(ReloadableServer(tmp_path, WHOAMI, manager=manager(inbox))) as reloadable:
        server = reloadable.server
        assert inbox.all() == [READY]
        assert await server.reload()
        assert inbox.all() == [RELOADING, READY]
        assert await server.reload(only_if_changed=True)
        assert inbox.all() == []
        reloadable.write(WHOAMI.replace("whoami", "whoami\nerrors"))
        assert await server.reload(only_if_changed=True)
        assert inbox.all() == [RELOADING, READY]
        reloadable.write("whoam {\n")
        assert not await server.reload(only_if_changed=True)
        (told,) = inbox.all()
        assert told.startswith(f"{READY}; the last reload failed: {reloadable.path}:1:")
        reloadable.write(WHOAMI)
        assert await server.reload()
        assert inbox.all() == [RELOADING, READY]
        await server.shut_down()
        assert await server.run() == 0
        assert inbox.all() == [STOPPING]
