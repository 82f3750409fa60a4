"""A Unix socket for its owner alone.

Path: http.py listens on it for addresses that begin with `unix:`.
Rule 1: the socket has mode 0600 from its first moment, and its folder is one in which no other user can exchange it.
Rule 2: nothing is removed but a socket of this user that no process listens on any more, and at the end the one that
        was made here.  The folder is locked meanwhile, so that of two servers that start at once none removes the
        socket of the other.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PREFIX: Final = "unix:"
MAX_PATH: Final = 103  # octets; macOS takes one less than these with the zero at the end, Linux 107


class UnixSocketError(ValueError):
    """A sentence without its subject: why a socket cannot be made at a path."""


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
    """Make a folder of this user alone, or look at the one that is there; raise UnixSocketError."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
    found = folder.stat()
    if found.st_uid not in (os.geteuid(), 0):
        raise UnixSocketError(f"the folder {folder} belongs to another user")
    if found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX:
        raise UnixSocketError(f"other users may write to the folder {folder}; chmod o-w it")


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
    """Remove the socket of a server that is gone; raise UnixSocketError for anything else at the path."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise UnixSocketError("there is a file that is no socket; it is left alone")
    if found.st_uid != os.geteuid():
        raise UnixSocketError("there is a socket of another user; it is left alone")
    if listens(path):
        raise UnixSocketError("another server listens on it")
    path.unlink()


def listens(path: Path) -> bool:
    """Whether a process listens on a socket; raise OSError where that cannot be told."""
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
