from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.outcome import OUTCOMES, Frames, frame, pack_outcomes, unpack_outcomes

NUMBER = st.integers(0, 2**32 - 1)
TIME = st.integers(-(2**63), 2**63 - 1)


@given(found=st.lists(st.tuples(NUMBER, NUMBER, NUMBER, TIME, TIME, TIME), max_size=5))
def test_outcomes(found: list[tuple[int, int, int, int, int, int]]) -> None:
    assert list(unpack_outcomes(pack_outcomes(found))) == found


@given(
    messages=st.lists(
        st.tuples(st.sampled_from([b"o", b"r", b"e"]), st.binary(max_size=9)), max_size=6
    ),
    data=st.data(),
)
def test_messages_in_any_pieces(messages: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    octets = b"".join(frame(kind, content) for kind, content in messages)
    frames, found, at = Frames(), [], 0
    while at < len(octets):
        length = data.draw(st.integers(1, len(octets) - at))
        found += list(frames.feed(octets[at : at + length]))
        at += length
    assert found == messages


def test_a_part_of_a_message_is_none() -> None:
    frames = Frames()
    assert list(frames.feed(frame(OUTCOMES, b"abc")[:-1])) == []
    assert list(frames.feed(b"c")) == [(OUTCOMES, b"abc")]
