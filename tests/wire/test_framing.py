from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.wire.framing import FrameBuffer, frame

MESSAGES = st.lists(st.binary(max_size=40), max_size=6)


@given(
    messages=MESSAGES, rest=st.binary(max_size=1), cuts=st.lists(st.integers(0, 300), max_size=8)
)
def test_messages_come_out_however_the_stream_is_cut(
    messages: list[bytes], rest: bytes, cuts: list[int]
) -> None:
    stream = b"".join(frame(message) for message in messages) + rest
    buffer, found, at = FrameBuffer(), list[bytes](), 0
    for end in [*sorted(min(cut, len(stream)) for cut in cuts), len(stream)]:
        found += buffer.feed(stream[at:end])
        at = end
    assert found == messages
    assert buffer.is_partial == bool(rest)


@given(messages=MESSAGES, rest=st.binary(max_size=1), cut=st.integers(0, 300))
def test_messages_are_taken_one_by_one(messages: list[bytes], rest: bytes, cut: int) -> None:
    stream = b"".join(frame(message) for message in messages) + rest
    buffer, found = FrameBuffer(), list[bytes]()
    for part in (stream[:cut], stream[cut:]):
        buffer.add(part)
        if buffer.has_message:  # one only, so that the next part finds some that wait
            assert not buffer.is_partial
            found.append(buffer.take() or b"")
    while buffer.has_message:
        found.append(buffer.take() or b"")
    assert found == messages
    assert buffer.take() is None
    assert buffer.is_partial == bool(rest)
    buffer.clear()
    assert not buffer.is_partial
    assert buffer.feed(frame(b"abc")) == [b"abc"]


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65535])
def test_any_length_octet_by_octet(size: int) -> None:
    message = bytes(size)
    buffer = FrameBuffer()
    wire = frame(message)
    assert wire[:2] == size.to_bytes(2, "big")
    assert buffer.feed(wire[:1]) == []
    assert buffer.is_partial
    assert buffer.feed(wire[1:] + b"\0") == [message]
    assert buffer.is_partial


def test_a_message_that_is_too_long_has_no_frame() -> None:
    with pytest.raises(OverflowError):
        frame(bytes(65536))


def test_nothing_is_kept_of_what_came_out() -> None:
    buffer = FrameBuffer()
    for _ in range(3):
        assert buffer.feed(frame(b"abc") + frame(b"")) == [b"abc", b""]
        assert not buffer.is_partial
