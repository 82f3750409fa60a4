"""The text of a file, whatever program wrote it: the one way in which commands read manifests, dumps and Corefiles.

Path: a path or standard input -> here (UTF-8) -> manifest_file.py, rules/judging.py, rules/diagnosis.py.
Rule 1: a byte order mark is left out, of a file that another one was appended to also that one's; UTF-16, which
        PowerShell's `>` writes, and UTF-32 become UTF-8.
Rule 2: gzip is unpacked, up to the length that a file may have.
Rule 3: what cannot be read so is an OSError, like a file that cannot be opened, and never an empty file.
"""

from __future__ import annotations

import codecs
import zlib
from typing import Final

MAX_FILE_LEN: Final = 128 * 1024 * 1024  # octets; as a dump of 10,000 Services with their Pods has
NOT_UTF8: Final = "this Corefile is UTF-16 or packed with gzip, which CoreDNS does not read; write it as text in UTF-8"
_GZIP: Final = b"\x1f\x8b"
# Longer marks first: that of UTF-16 begins that of UTF-32.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def read_file(path: str) -> bytes:
    """The text of a file in UTF-8, of a longer one than MAX_FILE_LEN only the beginning; raise OSError."""
    with open(path, "rb") as file:
        return as_utf8(file.read(MAX_FILE_LEN + 1), path)


def is_encoded(path: str) -> bool:
    """Whether a file is in another encoding than UTF-8, or packed; raise OSError."""
    with open(path, "rb") as file:
        first = file.read(4)
    return first.startswith((_GZIP, *(mark for mark, _ in _MARKS[1:]))) or b"\0" in first[:2]


def as_utf8(content: bytes, path: str) -> bytes:
    """The text of a file with this content; raise OSError."""
    if content.startswith(_GZIP):
        content = _unpacked(content, path)
    mark, encoding = next((each for each in _MARKS if content.startswith(each[0])), (b"", ""))
    if not mark and b"\0" in content[:2] and len(content) > 1:
        encoding = "utf-16-be" if content[0] == 0 else "utf-16-le"
    text = content[len(mark) :]
    try:
        if encoding not in ("", "utf-8"):
            text = text.decode(encoding).encode()
    except UnicodeDecodeError as fault:
        raise OSError(0, f"invalid {encoding.upper()} at byte {fault.start}", path) from None
    return text.replace(b"\n" + codecs.BOM_UTF8, b"\n")


def _unpacked(content: bytes, path: str) -> bytes:
    """The members of a gzip file, one after the other."""
    found = b""
    while content and len(found) <= MAX_FILE_LEN:
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            found += member.decompress(content, MAX_FILE_LEN + 1 - len(found))
        except zlib.error as fault:
            raise OSError(0, f"it is not valid gzip ({fault})", path) from None
        if not member.eof and len(found) <= MAX_FILE_LEN:
            raise OSError(0, "it is gzip that is cut off", path)
        content = member.unused_data.lstrip(b"\0")
    return found
