"""A Unix socket that only its owner can use.

Path: http.py listens on it for addresses that begin with `unix:`.
Rule 1: the socket has mode 0600 from the beginning, and no other user can replace it in its folder.
Rule 2: it removes only a socket of this user on which no process listens, and at the end the socket that it has made
        itself.  It locks the folder meanwhile, so that of two servers that start at once, neither removes the other's
        socket.
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
        raise UnixSocketError("there is a file that is no socket; it is left alone")
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
