"""This host: its network interfaces, Unix sockets, and the service manager that watches the process.

Path: beside the queries: `bind` and NS records need addresses, http/pages.py listens on `unix:PATH`, lifecycle.py tells
the manager of each change.

A dummy network interface, which has the address of a node-local server:
Source: rtnetlink(7), linux/if_link.h, linux/if_addr.h.
Rule: the interface and its address may already exist.

A Unix socket that only its owner can use:
Rule 1: the socket has mode 0600 from the beginning, and no other user can replace it in its folder.
Rule 2: it removes only a socket of this user on which no process listens, and at the end the socket that it has made
        itself.  It locks the folder meanwhile, so that of two servers that start at once, neither removes the other's
        socket.

Tells the service manager, such as systemd, when the server is ready, reloads and stops:
Source: sd_notify(3), "Standalone Implementations".
Rule: if the manager cannot be reached, the server logs this and serves nevertheless, without waiting.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import socket
import stat
import struct
import time
from collections.abc import Callable, Iterator, MutableMapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final, Self


def interface_addresses() -> dict[str, list[str]]:
    """Interface names and their IPv4 and IPv6 addresses, without zone identifiers."""
    import ifaddr  # noqa: PLC0415 - only needed where names or all addresses are asked for

    found: dict[str, list[str]] = {}
    for adapter in ifaddr.get_adapters():
        for address in adapter.ips:
            text = address.ip if isinstance(address.ip, str) else address.ip[0]
            found.setdefault(address.nice_name, []).append(text)
    return found


def own_addresses() -> list[str]:
    """All addresses of this host except loopback, in the interfaces' order (CoreDNS plugin/kubernetes/local.go)."""
    return [
        text
        for addresses in interface_addresses().values()
        for text in addresses
        if not ip_address(text).is_loopback
    ]


_NEWLINK, _NEWADDR = 16, 20
_REQUEST, _ACK, _CREATE, _EXCLUSIVE = 0x1, 0x4, 0x400, 0x200
_IFNAME, _LINKINFO, _INFO_KIND = 3, 18, 1
_AF_SPEC, _ADDR_GEN_MODE, _GEN_NONE = 26, 8, 1
_LOCAL, _ADDRESS = 2, 1
_UP: Final = 1
_NODAD: Final = 0x02
_ERROR: Final = 2  # the type of a message with the result of a request
# The kernel's errors if IPv6 is compiled out, disabled at boot, or disabled by sysctl.
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EOPNOTSUPP, errno.EACCES)


class DummyInterface:
    """A context manager: creates the interface `name`; raises OSError if the kernel refuses."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._serial = 0

    def __enter__(self) -> Self:
        """Create the interface and set it up, without a link-local address."""
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        try:
            kind = attribute(_INFO_KIND, b"dummy")
            asked = attribute(_IFNAME, self.name.encode() + b"\0") + attribute(_LINKINFO, kind)
            self._ask(_NEWLINK, _CREATE | _EXCLUSIVE, _link(0, 0) + asked)
            self._index = socket.if_nametoindex(self.name)
            # Otherwise IPv6 adds a link-local address, on which the server would listen, too.
            mode = attribute(
                socket.AF_INET6, attribute(_ADDR_GEN_MODE, struct.pack("=B", _GEN_NONE))
            )
            try:
                self._ask(_NEWLINK, 0, _link(self._index, 0) + attribute(_AF_SPEC, mode))
            except OSError as error:
                if error.errno not in _NO_IPV6:
                    raise
            self._ask(_NEWLINK, 0, _link(self._index, _UP))
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Keep the interface."""
        self._socket.close()

    def add(self, address: IPv4Address | IPv6Address) -> bool:
        """Give it an address with a prefix of full length; return False if IPv6 is disabled."""
        is_ipv6 = isinstance(address, IPv6Address)
        family = socket.AF_INET6 if is_ipv6 else socket.AF_INET
        flags = _NODAD if is_ipv6 else 0
        header = struct.pack("=BBBBI", family, address.max_prefixlen, flags, 0, self._index)
        octets = address.packed
        both = attribute(_LOCAL, octets) + attribute(_ADDRESS, octets)
        try:
            self._ask(_NEWADDR, _CREATE | _EXCLUSIVE, header + both)
        except OSError as error:
            if is_ipv6 and error.errno in _NO_IPV6:
                return False
            raise
        return True

    def _ask(self, kind: int, flags: int, body: bytes) -> None:
        """Send a request and wait for its acknowledgement; an object that exists already is no error."""
        self._serial += 1
        header = struct.pack(
            "=IHHII", 16 + len(body), kind, flags | _REQUEST | _ACK, self._serial, 0
        )
        self._socket.send(header + body)
        reply = self._socket.recv(65536)
        _, answered, _, serial, _, number = struct.unpack_from("=IHHIIi", reply)
        assert (answered, serial) == (_ERROR, self._serial), "an acknowledgement of this request"
        if number and -number != errno.EEXIST:
            raise OSError(-number, os.strerror(-number))


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute of a request: length, kind and value, padded to four octets."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def _link(index: int, up: int) -> bytes:
    """The beginning of a request about an interface; `up` is the flag to set, or 0."""
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, up, up)


PREFIX: Final = "unix:"
MAX_PATH: Final = 103  # octets; macOS allows 104 with the terminating zero, Linux 108


class UnixSocketError(ValueError):
    """Why a socket cannot be made at a path, as a sentence without its subject."""


class UnixSocket:
    """A socket that is bound to a path; the path is removed with it."""

    def __init__(self, path: str) -> None:
        """Bind; raise UnixSocketError or OSError."""
        if len(os.fsencode(path)) > MAX_PATH:
            raise UnixSocketError(f"the path has more than {MAX_PATH} octets")
        self.path = Path(path)
        _make_folder(self.path.parent)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with contextlib.suppress(OSError):  # Linux makes the file with this mode, macOS refuses
                os.fchmod(self.sock.fileno(), 0o600)
            with _locked(self.path.parent):
                _remove_stale(self.path)
                self.sock.bind(path)
                self.path.chmod(0o600)
                self._identity = _identity(self.path)
                self.sock.listen()
            self.sock.setblocking(False)
        except BaseException:
            self.sock.close()
            raise

    def remove(self) -> None:
        """Remove the path, if it is still that of this socket."""
        with contextlib.suppress(OSError):
            if _identity(self.path) == self._identity:
                self.path.unlink()


def _identity(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_dev, found.st_ino


def _make_folder(folder: Path) -> None:
    """Make a folder that only this user can access, or check an existing one; raise UnixSocketError."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.stat()
    if found.st_uid not in (os.geteuid(), 0):
        raise UnixSocketError(f"the folder {folder} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
        raise UnixSocketError(f"other users may write to the folder {folder}; chmod go-w it")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnixSocketError(f"another server starts in {folder} now; try again") from None
        yield
    finally:
        os.close(descriptor)


def _remove_stale(path: Path) -> None:
    """Remove the socket of a server that has ended; raise UnixSocketError for anything else at the path."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise UnixSocketError("there is a file that is not a socket; it is left alone")
    if found.st_uid != os.geteuid():
        raise UnixSocketError("there is a socket of another user; it is left alone")
    if listens(path):
        raise UnixSocketError("another server listens on it")
    path.unlink()


def listens(path: Path) -> bool:
    """Whether a process listens on a socket; raise OSError if this cannot be determined."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(1.0)
        try:
            client.connect(str(path))
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                return False
            if error.errno in (errno.EAGAIN, errno.ETIMEDOUT):  # its backlog is full
                return True
            raise
    return True


log = logging.getLogger("hsdns.server")


class ServiceManager:
    """The service manager behind a Unix datagram socket; with an empty address there is none, and nothing is sent.

    `address` is a path, or a name in the abstract namespace after "@"; `clock` gives monotonic nanoseconds.
    """

    def __init__(self, address: str = "", clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._address = address
        self._clock = clock
        self._is_stopping = False

    @classmethod
    def of(cls, environ: MutableMapping[str, str]) -> Self:
        """Take the address from NOTIFY_SOCKET and remove the variable, because child processes must not use it."""
        address = environ.pop("NOTIFY_SOCKET", "")
        if address and address[0] not in "/@":
            log.warning(
                'NOTIFY_SOCKET is "%s", which is not a Unix socket, so the service manager is not notified',
                address,
            )
            address = ""
        return cls(address)

    def ready(self, remark: str = "") -> None:
        """Report that the server serves, with `remark` as its status."""
        self._tell("READY=1", f"STATUS=Serving{remark and f'; {remark}'}")

    def reloading(self) -> None:
        """Report a reload; ready() follows."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={self._clock() // 1000}", "STATUS=Reloading")

    def stopping(self) -> None:
        """Report that the server stops; nothing is sent after that."""
        self._tell("STOPPING=1", "STATUS=Stopping")
        self._is_stopping = True

    def _tell(self, *assignments: str) -> None:
        if not self._address or self._is_stopping:
            return
        text = "\n".join(" ".join(each.split()) for each in assignments)
        name = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.setblocking(False)
                sock.sendto(text.encode(), name)
        except OSError as error:
            log.warning("cannot notify the service manager at %s: %s", self._address, error)
