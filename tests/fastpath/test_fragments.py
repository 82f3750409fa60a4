"""Replies that are longer than the path's MTU go in fragments, and only they, also where several go together."""

import errno
import importlib.util
import shutil
import socket
import subprocess
import sys

import pytest

from hsdns.fastpath.control import (
    IP_MTU_DISCOVER,
    IP_PMTUDISC_DO,
    IP_PMTUDISC_WANT,
    forbid_fragments,
    fragments_allowed,
)
from tests.fastpath.twins import HAS_NATIVE, NATIVE

pytestmark = [
    pytest.mark.sockets,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux forbids fragments like this"),
]

BATCHES = {
    "python": ("hsdns.fastpath._python", "hsdns.fastpath._python.Batch"),
    "portable": ("hsdns.fastpath._python", "hsdns.fastpath.batch.PortableBatch"),
    "rust": ("hsdns.fastpath._native", "hsdns.fastpath._native.Batch"),
}
UNSHARE = ("unshare", "--user", "--map-root-user", "--net")


@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
def test_fragments_are_forbidden_but_for_a_moment(family: socket.AddressFamily) -> None:
    try:
        sock = socket.socket(family, socket.SOCK_DGRAM)
    except OSError:
        pytest.skip("this host has no IPv6, so there is no such socket")
    with sock:
        forbid_fragments(sock)
        assert sock.getsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER) == IP_PMTUDISC_DO
        with fragments_allowed(sock):
            assert sock.getsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER) == IP_PMTUDISC_WANT
        assert sock.getsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER) == IP_PMTUDISC_DO


def run_on_a_short_path(*args: str) -> list[str]:
    """What short_path.py writes."""
    if shutil.which("unshare") is None or subprocess.run(
        [*UNSHARE, "true"], capture_output=True, check=False
    ).returncode:  # fmt: skip
        pytest.skip("unshare is not allowed here, so no interface can be given a short MTU")
    done = subprocess.run(
        [*UNSHARE, sys.executable, "-m", "tests.fastpath.short_path", *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.parametrize("kind", BATCHES)
def test_a_reply_longer_than_the_path_allows_goes_in_fragments(kind: str) -> None:
    module, batch = BATCHES[kind]
    if importlib.util.find_spec(module) is None:
        pytest.skip("the compiled fast path is not built")
    lines = run_on_a_short_path(module, batch)
    lost = {errno.EMSGSIZE: 1}
    assert lines == [f"127.0.0.1 True 16 {lost} True", f":: True 16 {lost} True"]


@pytest.mark.slow
@pytest.mark.skipif(not HAS_NATIVE, reason=f"{NATIVE} is not built, and only it has workers")
def test_fragments_that_two_threads_send_from_one_socket() -> None:
    assert run_on_a_short_path(NATIVE) == ["True {}"]
