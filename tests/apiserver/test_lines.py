import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.apiserver.watch_event import LineSplitter


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"0123456789abc\nok\n"], id="at once"),
        pytest.param([b"01234567", b"89abc", b"def", b"\nok\n"], id="in pieces"),
    ],
)
def test_a_line_above_the_limit_is_skipped(chunks: list[bytes]) -> None:
    splitter = LineSplitter(limit=10)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    # A line that came whole is in memory anyway; the limit is for what must be kept.
    assert lines[-1] == b"ok"
    assert (splitter.skipped, len(lines)) == (1, 1)


@given(
    st.lists(st.binary(max_size=9).map(lambda each: each.replace(b"\n", b"")), max_size=8),
    st.data(),
)
def test_pieces_make_no_difference(lines: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in lines)
    splitter, got, at = LineSplitter(), [], 0
    while at < len(whole):
        size = data.draw(st.integers(1, len(whole) - at))
        got += splitter.feed(whole[at : at + size])
        at += size
    assert got == [line for line in lines if line]
    assert splitter.feed(b"\n") == []
