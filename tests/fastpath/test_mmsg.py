"""The memory that the kernel reads; that it reads it so is what test_batch.py shows."""

import ctypes
import sys

import pytest

from hsdns.fastpath import mmsg
from hsdns.fastpath.mmsg import Memory, places, to_words


@pytest.mark.skipif(
    sys.platform != "linux" or sys.maxsize < 1 << 32 or sys.byteorder != "little",
    reason="batches are for 64-bit Linux on little-endian machines; others have portable_batch.py",
)
def test_batches_are_available() -> None:
    assert mmsg.IS_AVAILABLE
    assert mmsg.CALLS is not None


def test_layout() -> None:
    """As <sys/socket.h> has it, in words of eight octets."""

    class Header(ctypes.Structure):
        _fields_ = (
            ("name", ctypes.c_void_p), ("name_len", ctypes.c_uint32), ("iovec", ctypes.c_void_p),
            ("iovec_count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_len", ctypes.c_size_t),
            ("flags", ctypes.c_int),
        )  # fmt: skip

    assert ctypes.sizeof(Header) == 8 * mmsg.LENGTH
    offsets = [getattr(Header, name).offset // 8 for name, _ in Header._fields_]
    assert offsets == [
        mmsg.NAME, mmsg.NAME_LEN, mmsg.IOVEC, mmsg.IOVEC_COUNT, mmsg.CONTROL, mmsg.CONTROL_LEN, mmsg.FLAGS,
    ]  # fmt: skip


def test_memory() -> None:
    memory = Memory(64)
    memory.words[1:8:4] = to_words([0x0102, 0x0304])
    assert memory.octets[8:10] == b"\x02\x01"
    assert ctypes.string_at(memory.address + 40, 2) == b"\x04\x03"
    assert list(memory.addresses(32)) == [memory.address, memory.address + 32]
    assert isinstance(memory.octets[3:5], bytes)


@pytest.mark.parametrize("parts", [[], [b""], [b"one"], [b"one", b"", b"three\0four", b"x"]])
def test_places(parts: list[bytes]) -> None:
    arena = b"".join(parts)
    found = places(arena, [len(part) for part in parts])
    assert [ctypes.string_at(at, len(part)) for at, part in zip(found, parts, strict=True)] == parts
