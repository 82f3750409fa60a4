"""The unit: the server takes its command line and its signal, and systemd takes the unit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hsdns.cli.coredns import Coredns
from hsdns.cli.flags import parse_flags

UNIT = Path(__file__).resolve().parents[2] / "deploy/systemd/hsdns.service"

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed"
)


def settings() -> dict[str, str]:
    lines = [line for line in UNIT.read_text().splitlines() if "=" in line and line[0] != "#"]
    found = dict(line.split("=", 1) for line in lines)
    assert len(found) == len(lines)
    return found


def test_unit() -> None:
    found = settings()
    program, *words = found["ExecStart"].split()
    assert program == "/usr/bin/hsdns"
    assert parse_flags(words, Coredns.flags()) == {"conf": "/etc/hsdns/Corefile"}
    assert (found["Type"], found["DynamicUser"]) == ("notify", "yes")
    assert found["ExecReload"] == "/bin/kill -USR1 $MAINPID"
    assert found["AmbientCapabilities"] == found["CapabilityBoundingSet"] == "CAP_NET_BIND_SERVICE"
    # Addresses of interfaces are asked for over netlink, and NOTIFY_SOCKET is a Unix socket.
    assert set(found["RestrictAddressFamilies"].split()) == {
        "AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK",
    }  # fmt: skip


@needs_systemd
def test_systemd_takes_it(tmp_path: Path) -> None:
    """With a program that exists, since systemd looks for it."""
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/usr/bin/hsdns", sys.executable))
    for words in (
        ["verify", "--man=no", "--recursive-errors=no"],
        ["security", "--offline=true", "--threshold=20", "--no-pager"],  # tenths; 20 and less is OK
    ):
        found = subprocess.run(
            ["systemd-analyze", *words, str(copy)],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        if "unrecognized option" in found.stderr:
            pytest.skip(f"this systemd-analyze is too old: {found.stderr}")
        assert (found.returncode, found.stderr) == (0, "")
