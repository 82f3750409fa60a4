"""The files that a Corefile was read from, and whether one of them has changed since.

Path: cli/launch.py lets the parser read files through it; lifecycle.py checks it before it parses the Corefile
again.
Rule 1: changes are detected in what the parser received: the octets of each file, the file names of each glob, or the
        error.  So modification times do not matter, and a change between two reads is not missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from hsdns.corefile.lexer import Files, Source
from hsdns.corefile.parser import DISK


class CorefileFiles(Files):
    """Remembers a digest of each file and glob that was read since start() was called."""

    def __init__(self, disk: Files = DISK) -> None:
        self._disk = disk
        self._files: dict[str, bytes] = {}
        self._globs: dict[str, Sequence[str]] = {}

    def start(self) -> None:
        """Forget the files of the previous parse."""
        self._files, self._globs = {}, {}

    def open_file(self, path: str) -> str | Source:
        """Read a file for the parser; raise OSError or ValueError."""
        try:
            text = self._disk.open_file(path)
        except (OSError, ValueError) as error:
            self._files[path] = str(error).encode()
            raise
        self._files[path] = _digest(text)
        return text

    def list_files(self, pattern: str) -> Sequence[str]:
        """List the files of a glob for the parser."""
        found = self._globs[pattern] = self._disk.list_files(pattern)
        return found

    def have_changed(self) -> bool:
        """Read all files again; return whether the parser would receive anything else."""
        return any(
            list(self._disk.list_files(pattern)) != list(found)
            for pattern, found in self._globs.items()
        ) or any(self._digest_of(path) != digest for path, digest in self._files.items())

    def _digest_of(self, path: str) -> bytes:
        try:
            return _digest(self._disk.open_file(path))
        except (OSError, ValueError) as error:
            return str(error).encode()


def _digest(text: str | Source) -> bytes:
    return sha256(str(text).encode("utf-8", "surrogatepass")).digest()
