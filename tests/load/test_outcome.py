from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from hsdns.load.outcome import (
    Frames,
    RecentReplies,
    frame,
    pack_outcome,
    pack_question,
    unpack_question,
)
from hsdns.load.questions import Question
from hsdns.wire.name import Name

NUMBER = st.integers(0, 2**32 - 1)
TIME = st.integers(-(2**63), 2**63 - 1)


def pack_outcomes(found: Iterable[tuple[int, int, int, int, int, int]]) -> bytes:
    """Outcomes as octets."""
    return b"".join(pack_outcome(*each) for each in found)


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


MOST = 8


@given(st.lists(st.integers(0, 40), max_size=200))
def test_recent_replies_are_bounded(contents: list[int]) -> None:
    """Of two replies, the one that is dropped first is not the one that has come later."""
    replies, known, came = RecentReplies[int](MOST), set[int](), dict[int, int]()
    for turn, number in enumerate(contents):
        content = bytes((number,))
        found = replies.get(content)
        assert (found == number) is (number in known)
        if found is None:
            dropped = set(replies.add(content, number))
            assert dropped <= known
            known -= dropped
            assert all(came[gone] < came[stays] for gone in dropped for stays in known)
            known.add(number)
        came[number] = turn
        assert len(known) <= MOST
