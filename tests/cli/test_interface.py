"""The command of the node-local server's init container; the kernel's part is in tests/server/test_host.py."""

from __future__ import annotations

import errno
import os
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import pytest

from hsdns import cli
from hsdns.server import host


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
        pytest.param("-address 169.254.20.10", {}, 0, "hsdns: 169.254.20.10\n", "", id="ipv4"),
        pytest.param("-name dns -address 169.254.20.10 fd00::1", {}, 0, "dns: 169.254.20.10\ndns: fd00::1\n", "", id="both"),
        pytest.param("-address 169.254.20.10 fd00::1", {"has_ipv6": False}, 0, "hsdns: 169.254.20.10\nhsdns: fd00::1 is left out, because IPv6 is off here\n", "", id="ipv6-off"),
        pytest.param("-address 169.254.20.10", {"fault": errno.EPERM}, 2, "", "cannot create the interface hsdns: Operation not permitted; this needs Linux and CAP_NET_ADMIN\n", id="no-right"),
        pytest.param("-address 169.254.20.10", {"fault": errno.EOPNOTSUPP}, 2, "", "cannot create the interface hsdns: the kernel module dummy is missing; on the node: modprobe dummy\n", id="no-module"),
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
