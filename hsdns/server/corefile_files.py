"""The files that a Corefile was read from, and whether one of them has changed since.

Path: cli/launch.py lets the parser read files through it; lifecycle.py checks it before it parses the Corefile
again.
Rule 1: changes are detected in what the parser received: the octets of each file, the file names of each glob, or the
        error.  So modification times do not matter, and a change between two reads is not missed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from hsdns.corefile.parser import match_files, read_file


class CorefileFiles:
    """Remembers a digest of each file and glob that was read since start() was called."""

    def __init__(
        self,
        open_file: Callable[[str], str] = read_file,
        list_files: Callable[[str], Sequence[str]] = match_files,
    ) -> None:
        self._open_file = open_file
        self._list_files = list_files
        self._files: dict[str, bytes] = {}
        self._globs: dict[str, Sequence[str]] = {}

    def start(self) -> None:
        """Forget the files of the previous parse."""
        self._files, self._globs = {}, {}

    def open_file(self, path: str) -> str:
        """Read a file for the parser; raise OSError or ValueError."""
        try:
            text = self._open_file(path)
        except (OSError, ValueError) as error:
            self._files[path] = str(error).encode()
            raise
        self._files[path] = _digest(text)
        return text

    def list_files(self, pattern: str) -> Sequence[str]:
        """List the files of a glob for the parser."""
        found = self._globs[pattern] = self._list_files(pattern)
        return found

    def have_changed(self) -> bool:
        """Read all files again; return whether the parser would receive anything else."""
        return any(
            list(self._list_files(pattern)) != list(found) for pattern, found in self._globs.items()
        ) or any(self._digest_of(path) != digest for path, digest in self._files.items())

    def _digest_of(self, path: str) -> bytes:
        try:
            return _digest(self._open_file(path))
        except (OSError, ValueError) as error:
            return str(error).encode()


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogatepass")).digest()
