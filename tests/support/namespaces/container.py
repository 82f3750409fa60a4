"""Runs a program as a container runtime does: network namespace, read-only root, few capabilities.

Path: tests/deploy -> run() -> unshare -> this file as a program -> the program in the root.
Rule 1: the last steps are those of runc, in its order: bounding set, user, capabilities as permitted and effective,
        no_new_privs, execve.  So the program is the first that the kernel judges.
Rule 2: as real root the program runs as USER.  Otherwise the namespace has one user, its root; `noroot` in the secure
        bits takes from that one what is special about root.
Rule 3: nothing outlives run(): the namespace's first process is ended with the program that started it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[3]
USER: Final = 65532
DEADLINE: Final = 20.0  # seconds; a start takes one on an idle machine
NET_BIND_SERVICE: Final = 10
_PAUSE: Final = 0.01
_LAST_CAPABILITY: Final = 63
_MS_RDONLY, _MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 1, 32, 4096, 16384, 1 << 18
_PR_CAPBSET_DROP, _PR_SET_KEEPCAPS, _PR_SET_SECUREBITS, _PR_SET_NO_NEW_PRIVS = 24, 8, 28, 38
_NOROOT: Final = 0b11  # the bit and its lock
_CAPABILITY_VERSION_3: Final = 0x20080522


class Outcome(NamedTuple):
    """The outcome of a program in the container."""

    status: int  # as subprocess has it
    output: str
    replies: list[str]  # in hexadecimal, "" without a reply
    pages: list[str]
    process: dict[str, str]  # lines of /proc/PID/status
    beside: list[tuple[int, str]]  # status and output of what runs beside it


def refusal() -> str:
    """Return why namespaces cannot be created here; "" if they can."""
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    found = subprocess.run(
        [*_unshare(), "true"], check=False, capture_output=True, text=True, timeout=DEADLINE
    )
    return f"unshare is refused: {found.stderr.strip()}" if found.returncode else ""


def run(
    root: Path,
    words: Sequence[str],
    *,
    no_new_privs: bool = True,
    may_bind: bool = True,
    queries: Sequence[bytes] = (),
    port: int = 53,
    pages: Sequence[tuple[int, str]] = (),
    beside: Sequence[Sequence[str]] = (),
    writable: str = "",
) -> Outcome:
    """Run a program in the container; with `queries` it is a server that gets them and is then stopped.

    `may_bind`: whether the container was given NET_BIND_SERVICE.  `beside` are commands that run while the server does,
    as `kubectl exec` starts them.  `writable` is a folder of an emptyDir; without one nothing can be written.
    """
    task = {
        "root": str(root),
        "words": list(words),
        "no_new_privs": no_new_privs,
        "may_bind": may_bind,
        "queries": [query.hex() for query in queries],
        "port": port,
        "pages": list(pages),
        "beside": [list(each) for each in beside],
        "writable": writable,
    }
    found = subprocess.run(
        [*_unshare(), sys.executable, "-IB", __file__, json.dumps(task)],
        check=False,
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE,
        cwd="/",
    )
    assert found.returncode == 0, found.stderr
    return Outcome(**json.loads(found.stdout))


def with_root_rights(words: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a program as root that may set capabilities, if only in a namespace; raise AssertionError if it fails."""
    inside = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
    found = subprocess.run(
        [*inside, *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        env={**os.environ, **environment},
    )
    assert found.returncode == 0, found.stderr


def _unshare() -> list[str]:
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child"]


# --- what follows runs in the namespaces ---

_libc = ctypes.CDLL(None, use_errno=True)


def _must(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _mount(source: str, target: str, kind: str, flags: int) -> None:
    _must(_libc.mount(source.encode(), target.encode(), kind.encode(), flags, None))


def _main(task: dict[str, Any]) -> None:
    root = task["root"]
    _raise_loopback()
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    _mount(root, root, "", _MS_BIND)
    for folder in ("proc", "dev"):
        Path(root, folder).mkdir(exist_ok=True)
    _mount("/dev", f"{root}/dev", "", _MS_BIND | _MS_REC)
    _mount("proc", f"{root}/proc", "proc", 0)
    if folder := task["writable"]:
        Path(root + folder).mkdir(exist_ok=True)
        _mount("tmpfs", root + folder, "tmpfs", 0)
        Path(root + folder).chmod(0o777)
    _mount("none", root, "", _MS_BIND | _MS_REMOUNT | _MS_RDONLY)
    child, output = _start(task, task["words"])
    print(json.dumps(_watch(task, child, output)))  # noqa: T201 - the result


def _start(task: dict[str, Any], words: list[str]) -> tuple[int, int]:
    """Start a program in the container; its process ID, and a pipe with its output."""
    output, theirs = os.pipe()
    if (child := os.fork()) == 0:
        try:
            for number in (1, 2):
                os.dup2(theirs, number)
            _become(task, words)
        except BaseException as error:  # a forked child must not return to the caller
            os.write(2, f"the container was not started: {error!r}\n".encode())
        os._exit(127)
    os.close(theirs)
    return child, output


def _end(child: int, output: int) -> tuple[int, str]:
    """The status and the output of a program, when it has ended."""
    text = b""
    while part := os.read(output, 65536):
        text += part
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), text.decode(errors="replace")


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sh14x", b"lo", 0x1)  # IFF_UP
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS


def _become(task: dict[str, Any], words: list[str]) -> None:
    os.chroot(task["root"])
    os.chdir("/")
    mask = 1 << NET_BIND_SERVICE if task["may_bind"] else 0
    for number in range(_LAST_CAPABILITY):
        if not mask >> number & 1:
            _libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)  # fails for numbers that do not exist
    if _is_single_user():
        _must(_libc.prctl(_PR_SET_SECUREBITS, _NOROOT, 0, 0, 0))
    else:
        _must(_libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0))
        os.setgroups([])
        os.setresgid(USER, USER, USER)
        os.setresuid(USER, USER, USER)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(mask, mask, 0, 0, 0, 0)  # effective, permitted, inheritable
    _must(_libc.capset(header, sets))
    if task["no_new_privs"]:
        _must(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    os.execve(words[0], words, {"PATH": "/usr/bin", "HOSTNAME": "hsdns"})


def _is_single_user() -> bool:
    """Whether this namespace has a single user."""
    return Path("/proc/self/uid_map").read_text().split()[2] == "1"


def _watch(task: dict[str, Any], child: int, output: int) -> dict[str, Any]:
    """Query the child and stop it, or wait until it ends."""
    replies, pages, process, beside = [], [], {}, []
    if task["queries"]:
        address = ("127.0.0.1", task["port"])
        if _wait_listening(address, child):
            replies = [_ask(bytes.fromhex(query), address) for query in task["queries"]]
            pages = [_page(port, path) for port, path in task["pages"]]
            lines = Path(task["root"], f"proc/{child}/status").read_text().splitlines()
            process = {name: value.strip() for name, _, value in (_.partition(":") for _ in lines)}
            beside = [_end(*_start(task, words)) for words in task["beside"]]
            os.kill(child, signal.SIGTERM)
    status, text = _end(child, output)
    return {
        "status": status,
        "output": text,
        "replies": replies,
        "pages": pages,
        "process": process,
        "beside": beside,
    }


def _wait_listening(address: tuple[str, int], child: int) -> bool:
    """Wait until the child accepts connections; False if it ends, or after the deadline, when it is killed."""
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline:
        if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return False
        with contextlib.suppress(OSError), socket.create_connection(address):
            return True
        time.sleep(_PAUSE)
    os.kill(child, signal.SIGKILL)
    return False


def _ask(query: bytes, address: tuple[str, int]) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(DEADLINE / 4)
        sock.sendto(query, address)
        with contextlib.suppress(TimeoutError):
            return sock.recv(65535).hex()
    return ""


def _page(port: int, path: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE / 4)
    connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
