"""Where control sockets are."""

from __future__ import annotations

import errno
import os
import stat
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Any

import pytest

from hsdns import cli
from hsdns.cli import control_path
from hsdns.cli.command import FlagError
from hsdns.cli.control_path import (
    TOKEN,
    ControlPathError,
    make_path,
    own_folder,
    path_of,
    sockets,
    token_for,
)
from hsdns.server import host


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The runtime folder of the user."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(control_path, "SYSTEM", tmp_path / "system")
    return tmp_path


def test_the_path_has_the_process_id_in_a_folder_of_the_user(folder: Path) -> None:
    assert make_path() == str(folder / "hsdns" / f"{os.getpid()}.sock")
    assert stat.S_IMODE((folder / "hsdns").stat().st_mode) == 0o700
    assert make_path() == make_path()


@pytest.mark.parametrize("runtime", ["", "/nonexistent"])
def test_the_temp_folder_where_there_is_no_runtime_folder(
    runtime: str, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", runtime)
    monkeypatch.setenv("TMPDIR", str(folder))
    assert own_folder() == folder / f"hsdns-{os.geteuid()}"


def test_no_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under a read-only root: there are no sockets, and a server says so."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", "")
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    assert sockets() == []
    with pytest.raises(ControlPathError, match="cannot create /nonexistent/hsdns-"):
        make_path()


def make_open(path: Path) -> None:
    path.mkdir()
    path.chmod(0o755)


def make_link(path: Path) -> None:
    (path.parent / "real").mkdir(mode=0o700)
    path.symlink_to("real")


@pytest.mark.parametrize("make", [make_open, make_link])
def test_a_folder_that_others_could_use_is_refused(make: object, folder: Path) -> None:
    assert callable(make)
    make(folder / "hsdns")
    (folder / "hsdns" / "1.sock").write_text("")
    with pytest.raises(
        ControlPathError,
        match="the folder of the control socket; chmod 700 it",
    ):
        make_path()
    assert sockets() == []


def test_no_folder_can_be_made() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "mkdir", deny)
        with pytest.raises(ControlPathError) as caught:
            make_path()
    assert str(caught.value) == ("cannot create /x: Read-only file system; add --control PATH")


def deny(*_: object, **__: object) -> None:
    raise OSError(30, "Read-only file system", "/x")


def test_sockets_of_the_user_and_of_the_system(folder: Path) -> None:
    make_path()
    for name in ("hsdns/2.sock", "hsdns/1.sock", "hsdns/notes", "system/control.sock"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    assert [str(each.relative_to(folder)) for each in sockets()] == [
        "hsdns/1.sock", "hsdns/2.sock", "system/control.sock",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("control", "token"),
    [
        (None, None), ("c.sock", None), ("off", None), ("/run/0.0.0.0:9160", None),
        ("0.0.0.0:9160", "secret-of-16-octets"), ("127.0.0.1:9160", "secret-of-16-octets"), ("[::]:9160", "secret-of-16-octets"),
    ],
)  # fmt: skip
def test_an_address_has_a_token(
    control: str | None, token: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, "secret-of-16-octets")
    assert token_for(control) == token


NEEDED = (
    "anyone who can reach 0.0.0.0:9160 could use the control API, so it needs a token; "
    "set HSDNS_CONTROL_TOKEN to one word of at least 16 ASCII characters, such as that of: openssl rand -hex 32"
)
OTHER = "--control needs a path, or an IP address and a port such as 0.0.0.0:9160, found "


@pytest.mark.parametrize(
    ("control", "token", "sentence"),
    [
        ("0.0.0.0:9160", None, NEEDED),
        ("0.0.0.0:9160", "", NEEDED),
        ("0.0.0.0:9160", "one of the two words", NEEDED),
        ("0.0.0.0:9160", "15-octets-long-", NEEDED),
        ("0.0.0.0:9160", "ö" * 16, NEEDED),
        (":9160", "secret", f'{OTHER}":9160"'),
        ("dns:9160", "secret", f'{OTHER}"dns:9160"'),
    ],
)
def test_an_address_that_is_not_opened(
    control: str, token: str | None, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    if token is not None:
        monkeypatch.setenv(TOKEN, token)
    with pytest.raises(FlagError) as raised:
        token_for(control)
    assert str(raised.value) == sentence


def test_an_address_of_another_server() -> None:
    assert [path_of(each) for each in ("/run/c.sock", None, "off")] == ["/run/c.sock", None, None]
    with pytest.raises(FlagError) as raised:
        path_of("127.0.0.1:9160")
    assert str(raised.value) == (
        '--control takes a path, found the address "127.0.0.1:9160"; '
        "write control 127.0.0.1:PORT TOKENFILE in the Corefile, or use hsdns serve"
    )


# The command of the node-local server's init container; the kernel's part is in tests/server/test_host.py.


class FakeInterface:
    """Stands in for the kernel; `fault` is the number of its error, or 0."""

    fault = 0
    has_ipv6 = True

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> FakeInterface:
        if self.fault:
            raise OSError(self.fault, os.strerror(self.fault))
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def add(self, address: IPv4Address | IPv6Address) -> bool:
        return self.has_ipv6 or address.version == 4


@pytest.fixture(autouse=True)
def interface(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "DummyInterface", FakeInterface)


@pytest.mark.parametrize(
    ("line", "state", "status", "out", "err"),
    [
        pytest.param("--address 169.254.20.10", {}, 0, "hsdns: 169.254.20.10\n", "", id="ipv4"),
        pytest.param("--name dns --address 169.254.20.10 fd00::1", {}, 0, "dns: 169.254.20.10\ndns: fd00::1\n", "", id="both"),
        pytest.param("--address 169.254.20.10 fd00::1", {"has_ipv6": False}, 0, "hsdns: 169.254.20.10\nhsdns: fd00::1 is skipped: IPv6 is disabled\n", "", id="ipv6-off"),
        pytest.param("--address 169.254.20.10", {"fault": errno.EPERM}, 2, "", "cannot create the interface hsdns: Operation not permitted; this needs Linux and CAP_NET_ADMIN\n", id="no-right"),
        pytest.param("--address 169.254.20.10", {"fault": errno.EOPNOTSUPP}, 2, "", "cannot create the interface hsdns: the kernel module dummy is missing; on the node: modprobe dummy\n", id="no-module"),
    ],
)  # fmt: skip
def test_interface(
    line: str,
    state: dict[str, Any],
    status: int,
    out: str,
    err: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in state.items():
        monkeypatch.setattr(FakeInterface, name, value)
    assert cli.main(["interface", *line.split()]) == status
    assert capsys.readouterr() == (out, err)
