"""Files in memory, in place of a disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from hsdns.corefile.lexer import Files


class Disk(Files):
    """Files by path, and the paths that were opened."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)
        self.opened: list[str] = []

    def open_file(self, path: str) -> str:
        self.opened.append(path)
        if path.endswith("/"):
            raise IsADirectoryError(21, "Is a directory", path)
        if "secret" in path:
            raise PermissionError(13, "Permission denied", path)
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def list_files(self, pattern: str) -> Sequence[str]:
        return sorted(path for path in self.files if fnmatchcase(path, pattern))
