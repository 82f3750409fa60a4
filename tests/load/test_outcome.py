from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.outcome import (
    OUTCOMES,
    Frames,
    frame,
    pack_outcomes,
    pack_question,
    unpack_outcomes,
    unpack_question,
)
from hsdns.load.questions import Question
from hsdns.wire.name import Name

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


@given(
    number=NUMBER,
    labels=st.lists(st.binary(min_size=1, max_size=20), max_size=5),
    qtype=st.integers(0, 65535),
    group=st.text(max_size=20),
)
def test_questions(number: int, labels: list[bytes], qtype: int, group: str) -> None:
    found, question = unpack_question(
        pack_question(number, Question(Name.from_labels(labels), qtype, group))
    )
    assert (found, question.name.labels, question.qtype, question.group) == (
        number,
        tuple(label.lower() for label in labels),
        qtype,
        group,
    )
