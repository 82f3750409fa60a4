"""Sequences of frames, and what becomes of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsdns.http2 import MAX_BLOCK_LEN, MAX_FRAME_LEN, ErrorCode, Violation
from hsdns.server.doh_frames import COUNTED, RATES, Frames
from tests.support.clients.http2_frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
    split,
)

PAGE = Path(__file__).parents[2] / "docs" / "plugins" / "https.md"
WHOLE = END_HEADERS | END_STREAM


def burst(what: str) -> int:
    return int(RATES[what].burst)


def requests(count: int, *, reset: bool = False) -> bytes:
    """GET requests of 40 octets on streams of their own."""
    return b"".join(
        frame(HEADERS, WHOLE, stream, bytes(40))
        + (frame(RST_STREAM, 0, stream, bytes(4)) if reset else b"")
        for stream in range(1, 2 * count, 2)
    )


def block(length: int, part: int = MAX_FRAME_LEN) -> bytes:
    """A header block in frames of at most `part` octets."""
    parts = [min(part, length - at) for at in range(0, length, part)]
    return b"".join(
        frame(
            CONTINUATION if number else HEADERS,
            END_HEADERS * (number == len(parts) - 1),
            1,
            bytes(size),
        )
        for number, size in enumerate(parts)
    )


SEQUENCES = [
    pytest.param(requests(128), "", id="as-many-requests-as-may-be-open"),
    pytest.param(requests(50) * 20, "", id="requests-up-to-the-burst"),
    pytest.param(requests(burst("streams") + 1), "streams", id="too-many-requests"),
    pytest.param(requests(128, reset=True), "", id="a-client-gives-up-what-it-asked"),
    pytest.param(requests(burst("resets") + 1, reset=True), "resets", id="rapid-reset"),
    pytest.param(frame(PING, 0, 0, bytes(8)) * burst("pings"), "", id="pings"),
    pytest.param(frame(PING, 0, 0, bytes(8)) * (burst("pings") + 1), "pings", id="ping-flood"),
    pytest.param(frame(PING, 1, 0, bytes(8)) * (burst("pings") + 1), "pings", id="pongs-without-ping"),
    pytest.param(frame(SETTINGS, 0, 0, bytes(6 * 8)), "", id="settings"),
    pytest.param(frame(SETTINGS, 0, 0) * (burst("settings") + 1), "settings", id="settings-flood"),
    pytest.param(frame(SETTINGS, 1, 0) * (burst("settings") + 1), "settings", id="settings-ack-flood"),
    pytest.param(frame(SETTINGS, 0, 0, bytes(6 * 101)), "settings", id="long-settings"),
    pytest.param(frame(DATA, 0, 1, b"x") * 20 + frame(DATA, END_STREAM, 1), "", id="body-in-small-parts"),
    pytest.param(frame(DATA, END_STREAM, 1) * 20, "", id="empty-ends"),
    pytest.param(frame(DATA, 0, 1) * 11, "empty frames", id="empty-data"),
    pytest.param(frame(DATA, PADDED, 1, b"\x03abc") * 11, "empty frames", id="padding-alone"),
    pytest.param(frame(DATA, PADDED, 1, b"\x02abc") * 11, "", id="padding-around-data"),
    pytest.param(frame(DATA, PADDED, 1) * 11, "empty frames", id="padded-without-length"),
    pytest.param(frame(DATA, 0, 1, b"x") * 5001, "data frames", id="data-by-the-octet"),
    pytest.param(block(MAX_BLOCK_LEN), "", id="longest-header-block"),
    pytest.param(block(MAX_BLOCK_LEN + 1), "header octets", id="header-block-too-long"),
    pytest.param(block(60_000), "header octets", id="60-kb-path"),
    pytest.param(block(1000, 100) * 5, "", id="block-in-parts"),
    pytest.param(block(16_000, 100), "other frames", id="continuation-flood"),
    pytest.param(frame(HEADERS, 0, 1, b"x") + frame(CONTINUATION, 0, 1) * 11, "empty frames", id="empty-continuations"),
    pytest.param(block(16_000) * 33, "header octets", id="long-headers-again-and-again"),
    pytest.param(frame(WINDOW_UPDATE, 0, 0, bytes(4)) * 128, "", id="window-updates"),
    pytest.param(frame(WINDOW_UPDATE, 0, 0, bytes(4)) * 5001, "window updates", id="window-by-the-octet"),
    pytest.param(frame(PRIORITY, 0, 3, bytes(5)) * 6, "", id="priorities-of-a-browser"),
    pytest.param(frame(PRIORITY, 0, 3, bytes(5)) * 101, "other frames", id="priority-flood"),
    pytest.param(frame(GOAWAY, 0, 0, bytes(8)) * 101, "other frames", id="goaway-flood"),
    pytest.param(frame(0xBA, 0, 0) * 101, "other frames", id="unknown-frames"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "excess"), SEQUENCES)
def test_sequence(data: bytes, excess: str) -> None:
    assert outcome(data) == excess


@pytest.mark.parametrize(("data", "excess"), SEQUENCES)
def test_sequence_in_pieces(data: bytes, excess: str) -> None:
    """What is counted does not depend on how octets arrive."""
    assert outcome(data, 1000) == excess


def feed(found: Frames, data: bytes, now: float) -> None:
    """Feed octets, and count their frames."""
    found.feed(data, now)
    while not found.count():
        pass


def outcome(data: bytes, piece: int = 0) -> str:
    """The limit that frames exceed; nothing waits if one is."""
    found = Frames(5.0)
    sent = PREFACE + data
    try:
        for at in range(0, len(sent), piece or len(sent)):
            feed(found, sent[at : at + (piece or len(sent))], 5.0)
    except Violation as violation:
        assert violation.code is ErrorCode.ENHANCE_YOUR_CALM
        return violation.limit
    assert b"".join(frame(*each) for each in found.waiting) == data
    return ""


def test_long_frame_is_refused_before_it_has_come() -> None:
    with pytest.raises(Violation) as caught:
        feed(Frames(0.0), PREFACE + frame(DATA, 0, 1, bytes(MAX_FRAME_LEN + 1))[:9], 0.0)
    assert caught.value.code is ErrorCode.FRAME_SIZE_ERROR


@pytest.mark.parametrize("what", RATES)
def test_time_allows_more(what: str) -> None:
    """After a burst just the rate is allowed, if it is not above the burst, and after silence a burst again."""
    one = {
        "streams": frame(HEADERS, WHOLE, 1, b"x"),
        "resets": frame(RST_STREAM, 0, 1, bytes(4)),
        "pings": frame(PING, 0, 0, bytes(8)),
        "settings": frame(SETTINGS, 0, 0),
        "empty frames": frame(CONTINUATION, 0, 1),
        "header octets": frame(HEADERS, WHOLE, 1, bytes(MAX_BLOCK_LEN)),
        "window updates": frame(WINDOW_UPDATE, 0, 0, bytes(4)),
        "other frames": frame(PRIORITY, 0, 3, bytes(5)),
        "data frames": frame(DATA, 0, 1, b"x"),
    }[what]
    each = MAX_BLOCK_LEN if what == "header octets" else 1
    rate = RATES[what]
    found = Frames(0.0)
    feed(found, PREFACE + one * int(rate.burst // each), 0.0)
    feed(found, one * int(min(rate) // each), 1.0)
    with pytest.raises(Violation, match=what):
        feed(found, one, 1.0)
    quiet = 1.0 + rate.burst / rate.per_second
    found = Frames(0.0)
    for now in (0.0, quiet, 2 * quiet):
        feed(found, (PREFACE if not now else b"") + one * int(rate.burst // each), now)


def test_frames_are_counted_in_pieces() -> None:
    """A read of a quarter of a megabyte does not take long at a time."""
    found, sent = Frames(0.0), frame(WINDOW_UPDATE, 0, 0, bytes(4)) * (COUNTED + 1)
    found.feed(PREFACE + sent + sent[:5], 0.0)
    assert (found.count(), len(found.waiting)) == (False, COUNTED)
    assert (found.count(), len(found.waiting)) == (True, 1 + COUNTED)
    assert found.octets == len(sent) + 5
    while found.waiting:
        found.take()
    assert found.octets == 5
    found.clear()
    assert found.octets == 0


def test_stream_whose_reset_waits_is_known() -> None:
    found = Frames(0.0)
    feed(found, PREFACE + requests(2, reset=True), 0.0)
    assert found.reset == {1, 3}
    for _ in range(2):
        found.take()
    assert found.reset == {3}


@given(st.binary(max_size=300), st.integers(1, 50))
def test_any_octets_wait_unchanged_and_in_order(data: bytes, piece: int) -> None:
    found, taken, sent = Frames(0.0), b"", PREFACE + data
    try:
        for at in range(0, len(sent), piece):
            feed(found, sent[at : at + piece], 0.0)
            while found.waiting:
                taken += frame(*found.take())
    except Violation:
        pass
    # Of the number of a stream, the first bit is reserved.
    assert taken == b"".join(
        each[:5] + bytes((each[5] & 127,)) + each[6:] for each in split(data[: len(taken)])
    )
    assert not found.reset


def test_documentation_has_the_rates() -> None:
    rows = [
        line.strip("|").split("|")[1:] for line in PAGE.read_text().splitlines() if line[:1] == "|"
    ]
    numbers = [
        [int(cell.replace(",", "")) for cell in row]
        for row in rows
        if len(row) == 2 and row[1].strip()[:1].isdecimal()
    ]
    assert sorted(numbers) == sorted(
        [int(rate.burst), int(rate.per_second)] for rate in RATES.values()
    )
