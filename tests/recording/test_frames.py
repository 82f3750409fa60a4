"""Lines in compressed frames, and what can be read of a file that was cut or damaged."""

from __future__ import annotations

import io
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.recording import frames
from hsdns.recording.frames import FRAME, MAGIC, Damaged, FrameWriter, ZstdCompressor, read_lines

# What is done with a writer: a line of a length, or a flush.
steps = st.lists(st.integers(0, 90) | st.none(), max_size=30)


def written(done: list[int | None]) -> tuple[bytes, list[tuple[int, bytes]]]:
    """The octets, and each line with the octets after which it is in the file."""
    file = io.BytesIO()
    writer = FrameWriter(file.write)
    lines: list[bytes] = []
    flushed: list[tuple[int, bytes]] = []
    for number, step in enumerate(done):
        if step is not None:
            lines.append(b"%d " % number + b"x" * step)
            writer.add(lines[-1] + b"\n")
        else:
            writer.flush()
            flushed += [(file.tell(), line) for line in lines]
            lines = []
    writer.flush()
    flushed += [(file.tell(), line) for line in lines]
    return file.getvalue(), flushed


def read(octets: bytes) -> tuple[list[bytes], str]:
    """The lines, and what is wrong with the rest."""
    found: list[bytes] = []
    try:
        found.extend(read_lines(io.BytesIO(octets)))  # what was found before an error stays
    except Damaged as damage:
        return found, str(damage)
    return found, ""


@given(steps)
def test_lines_are_read_as_they_were_written(done: list[int | None]) -> None:
    octets, lines = written(done)
    assert read(octets) == ([line for _, line in lines], "")


@given(steps, st.data())
def test_of_a_file_cut_at_any_octet_what_was_flushed_before_is_read(
    done: list[int | None], data: st.DataObject
) -> None:
    octets, lines = written(done)
    cut = data.draw(st.integers(0, len(octets)))
    found, problem = read(octets[:cut])
    assert found == [line for end, line in lines if end <= cut]
    if problem:
        assert problem.endswith(f"at octet {cut}")


@given(steps, st.data())
def test_no_line_of_a_damaged_file_is_another_one(done: list[int | None], data: st.DataObject) -> None:  # fmt: skip
    """Also where the frames before are whole."""
    octets, lines = written([*done, 5])
    damaged = bytearray(octets)
    at = data.draw(st.integers(len(MAGIC), len(octets) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    found, _ = read(bytes(damaged))
    assert found == [line for _, line in lines][: len(found)]


def test_a_frame_ends_after_so_much_text() -> None:
    file = io.BytesIO()
    writer = FrameWriter(file.write)
    writer.add(b"x" * FRAME + b"\n")
    ended = file.tell()
    writer.flush()
    assert file.tell() == ended  # nothing was left to do
    assert read(file.getvalue()) == ([b"x" * FRAME], "")


def test_without_compression() -> None:
    assert read(b"{1}\n{2}\n") == ([b"{1}", b"{2}"], "")
    assert read(b"{1}\n{2") == ([b"{1}"], "was cut in the middle of an entry, at octet 6")
    assert read(b"") == ([], "")


def test_one_long_frame_is_given_out_as_it_is_read() -> None:
    """As another program makes it."""
    compressor = ZstdCompressor()
    lines = b"".join(b"%d\n" % number for number in range(700_000))
    octets = compressor.compress(lines, mode=ZstdCompressor.FLUSH_FRAME)
    found = read_lines(io.BytesIO(octets[:-9]))
    assert list(islice(found, 3)) == [b"0", b"1", b"2"]
    with pytest.raises(Damaged, match=f"was cut at octet {len(octets) - 9}"):
        list(found)


def test_a_line_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file may stand for a line that no memory has room for."""
    monkeypatch.setattr(frames, "MAX_LINE", 1_000_000)
    octets = ZstdCompressor().compress(b"x" * 50_000_000, mode=ZstdCompressor.FLUSH_FRAME)
    assert len(octets) < 10_000
    found, problem = read(octets)
    assert found == []
    assert problem.startswith("has a line of more than 1000000 octets before octet ")


def test_what_follows_the_last_frame_is_told() -> None:
    octets, lines = written([5])
    assert read(octets + b"more") == (
        [line for _, line in lines],
        f"is damaged, or was changed, after octet {len(octets)}",
    )
